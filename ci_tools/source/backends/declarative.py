"""Backends that compile nothing by themselves: hatchling, flit, poetry-core, pdm and uv."""

from __future__ import annotations

import ast
import functools
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from ci_tools.model.evidence import PURE_TAG, Binding, Extensions, Mislabel, PythonApi
from ci_tools.model.versions import Minor, admits, name_of_required
from ci_tools.source.backends.facts import COMPILERS, MAY_SHIP, Read, requires_python, select_binaries
from ci_tools.source.project_file import POETRY, ProjectFile, TomlFile, table
from ci_tools.source.requirements import build_requirements
from ci_tools.source.syntax import parse_module

# Each backend with the [tool] table that it reads.
NAMES = {
    "flit": "flit.buildapi flit_core.buildapi flit_scm:buildapi",
    "hatch": "hatchling.build",
    "pdm": "pdm.backend pdm.pep517.api",
    "poetry": "poetry.core.masonry.api poetry.masonry.api poetry_dynamic_versioning.backend",
    "uv": "uv_build",
}
BACKENDS = {name: tool for tool, names in NAMES.items() for name in names.split()}
# ruff: noqa: SIM905 - as words they fit on a page
# Build requirements beside which pdm still compiles nothing. pdm runs every installed plugin, hatchling only those that
# are named, and the other three have no plugins.
PLAIN_COMPANIONS = frozenset(
    "dunamai packaging pdm-backend pdm-build-locked pdm-pep517 pip setuptools setuptools-scm toml tomli "
    "typing-extensions versioningit vcs-versioning wheel".split()
)
PLAIN_HATCH_HOOKS = frozenset({"vcs", "version", "versioningit"})  # they write the version into a file
JAVASCRIPT = frozenset({"hatch_jupyter_builder.npm_builder", "jupyter_builder.npm_builder"})
OWN_TAG = "the wheel is tagged for the machine that builds it"
KEEPS_TAG = "which sets no tag, so its wheel is a pure one's"
# Words in a script by which its wheel may get another tag than the backend's pure one, or which run further code.
OTHER_TAG = re.compile(
    r"(?<![a-z])tag(?![a-z])|pure_?(python|lib)|plat.?(name|form.tag)|python.tag|config_settings|build_config"
    r"|\b(importlib|runpy|exec|eval|__import__|setattr|globals)\b",
    re.IGNORECASE,
)
HOOK = re.compile("initialize|finalize|clean|pdm_build_")  # a function of a script that its backend calls
BUILDERS = re.compile(r"distutils|hatch-.*|mesonpy|numpy|setuptools.*|skbuild")  # modules that compile or set a tag
# Settings by which a hook makes a wheel for one platform and one Python.
NATIVE_HOOK = [
    re.compile(rf"""^(?!\s*(?:if|elif)\b)[^#\n]*build_data\[["']{name}["']\]\s*=\s*{value}\b""", re.MULTILINE)
    for name, value in (("infer_tag", "True"), ("pure_python", "False"))
]
# The tag that a hook writes: of a wheel for several Pythons, and its platform, as text or as what it computes.
SETS_TAG = r"""^[^#\n]*\bbuild_data\[["']tag["']\]\s*="""
HOOK_TAG = re.compile(
    rf"""{SETS_TAG}\s*f?["'](?P<tag>py[\w.]+-none|cp3(?P<lowest>\d+)-abi3)-(?P<platform>[^"'\n]*)["']""", re.MULTILINE
)
WAY_OUT = "a tag for its machine, by a build hook of hatchling, `is-purelib = false` of pdm or a build script of poetry"
LEAVES_OUT = re.compile("exclude|only-include")  # settings of hatchling, pdm, poetry and uv
THREE = re.compile(r"\s*(\^|~=?|>=?|===?)?\s*[3-9]")  # a part of a specifier that excludes Python 2
MINORS = 100  # of Python 2, that hatchling tries
TRUE = frozenset({"1", "true"})  # values of a variable that hatchling reads as true


def read(project: ProjectFile, env: Mapping[str, str], backend: str = "") -> Read:
    """Return NONE as the extensions, or UNKNOWN if the backend runs project code or the project ships binaries.

    It is the project's own backend, or the one that this passes on.
    """
    tool = BACKENDS[backend or project.backend]
    reader = {"hatch": _hatch, "pdm": _pdm, "poetry": _poetry}.get(tool)  # flit and uv run nothing of the project
    said = [*reader(project, env)] if reader else []
    why = next((one for one in said if not one.endswith(KEEPS_TAG)), "")
    full, tag = PythonApi(Binding.FULL, f"{project.name}:1"), _pure_tag(project, tool)
    own = TomlFile.of(project.tree, project.path("hatch.toml")).table("build")
    told = json.dumps(_keep_wheel_settings([project.table("tool", tool), own]))
    binaries = tuple(select_binaries(project.tree, project.request.subdirectory, told))
    if why and (native := _find_native(project, tool)):
        (api, tagged), warning = native, f"{why}, so what it compiles is not known"
        return Read(Extensions.SOME, api.where, api, warnings=(warning,), tagged=tagged)
    if why:
        return Read(Extensions.UNKNOWN, why, full, pure_tag=tag, ships=binaries if why.endswith(OWN_TAG) else ())
    named = f"{project.backend} passes on {backend}, which" if backend else project.backend
    place = str(project.place("build-system", "build-backend"))
    pure = Read(Extensions.NONE, next(iter(said), f"{place}: {named} compiles nothing"), full, pure_tag=tag)
    packed = tuple(name for name in binaries if _is_packed(project, name, told))
    if not packed:
        return pure
    what = f"{tool} tags each wheel for any machine"
    if LEAVES_OUT.search(told):
        return pure._replace(warnings=(f"{packed[0]}:1: {MAY_SHIP}, and {what}: the audit of it decides",))
    label = Mislabel(f"{packed[0]} is compiled, and {what}", is_certain=True, way_out=WAY_OUT)
    api = full._replace(tag=f"{tag}-none", tagged_at=place, mislabel=label)
    return Read(Extensions.SOME, f"{packed[0]}:1: {MAY_SHIP}", api, ships=packed)


def _is_packed(project: ProjectFile, name: str, told: str) -> bool:
    """Whether a file is in a package of the project or in what its settings name, which a wheel holds as it is."""
    path = PurePosixPath(name).relative_to(project.folder)
    own = {canonicalize_name(part) for part in path.parts[:2]}  # below src, too
    is_named = any(f'"{one}"' in told for one in (path, *path.parents[:-1]))
    in_package = any(str(project.folder / one / "__init__.py") in project.tree.names for one in path.parents)
    return in_package or is_named or canonicalize_name(project.request.name) in own


def _pure_tag(project: ProjectFile, tool: str) -> str:
    """Return the interpreter tag of the backend's pure wheels; it includes Python 2 if the project does not exclude it.

    Each backend decides in its own way, as flit_core 4.2, hatchling 1.33, poetry-core 2.5, pdm-backend 2.5 and uv 0.13
    do.
    """
    admitted = requires_python(project)
    said = project.text("project", "requires-python") or project.text("tool", "flit", "metadata", "requires-python")
    with_python_2 = {
        "flit": not any(map(THREE.match, said.split(","))),  # flit itself splits the text at commas
        "hatch": _admits_python_2(admitted),
        "pdm": admitted.contains("2.7"),
        "poetry": _admits_python_2(admitted) and not _poetry_excludes_python_2(project),
    }
    return f"py2.{PURE_TAG}" if with_python_2.get(tool) else PURE_TAG


@functools.cache  # a plan asks of one project for each cell
def _admits_python_2(admitted: SpecifierSet) -> bool:
    if any(THREE.match(str(part)) for part in admitted):  # as nearly every project says
        return False
    return any(admits(admitted, Minor(2, minor)) for minor in range(MINORS))


def _poetry_excludes_python_2(project: ProjectFile) -> bool:
    """Whether poetry's own table asks for Python 3: `^3.10`, or several such between bars."""
    said = project.value(*POETRY, "python")
    alternatives = said.split("||") if isinstance(said, str) else []
    return bool(alternatives) and all(any(THREE.match(part) for part in one.split(",")) for one in alternatives)


def _keep_wheel_settings(said: Any) -> Any:  # noqa: ANN401 - TOML
    """Return the settings of the backend, without those for sdists and environments."""
    if isinstance(said, list):
        return [
            _keep_wheel_settings(item)
            for item in said
            if not (isinstance(item, dict) and item.get("format") == "sdist")
        ]
    if isinstance(said, dict):
        return {key: _keep_wheel_settings(value) for key, value in said.items() if key not in {"envs", "sdist"}}
    return said


def _find_native(project: ProjectFile, tool: str) -> tuple[PythonApi, tuple[str, ...]] | None:
    """Return the Python API of a wheel that is not pure, whatever is compiled, and its platforms; None if not known.

    The platforms are empty if the machine that builds it decides. A hook of hatchling's may say so; pdm-backend does
    where setuptools runs (its builders/wheel.py).
    """
    build = project.table("tool", tool, "build")
    if tool == "pdm" and build.get("is-purelib") is None and build.get("run-setuptools"):
        place = project.place("tool", "pdm", "build", "run-setuptools")
        return PythonApi(Binding.FULL, f"{place}: setuptools compiles"), ()
    texts = {name: project.tree.text(name) for name in project.tree.files if tool == "hatch" and name.endswith(".py")}
    for name, text in texts.items():
        if all(one.search(text) for one in NATIVE_HOOK):
            return PythonApi(Binding.FULL, f"{name}: its hook makes a wheel for the Python that builds"), ()
    found = [(name, tag) for name, text in texts.items() for tag in HOOK_TAG.finditer(text)]
    tags, platforms = {tag["tag"] for _, tag in found}, [tag["platform"] for _, tag in found]
    if len(tags) != 1 or len(found) < sum(len(re.findall(SETS_TAG, text, re.MULTILINE)) for text in texts.values()):
        return None
    (name, tag), *_ = found
    where, lowest = f"{name}: its hook tags the wheel {tag['tag']}", tag["lowest"]
    api = PythonApi(Binding.STABLE, where, Minor(3, int(lowest))) if lowest else PythonApi(Binding.NONE, where)
    return api, () if any("{" in one for one in platforms) else tuple(platforms)


# ---------------------------------------------------------------- hatchling


def _hatch(project: ProjectFile, env: Mapping[str, str]) -> Iterator[str]:
    """Yield what is known of each build hook that runs and may compile."""
    own = TomlFile.of(project.tree, project.path("hatch.toml"))  # it takes precedence over [tool.hatch]
    for file, build in ((project.toml, project.table("tool", "hatch", "build")), (own, own.table("build"))):
        wheel = table(table(build, "targets"), "wheel")
        for name, hook in {**table(build, "hooks"), **table(wheel, "hooks")}.items():
            if _runs(name, hook, env):
                script = str(hook.get("path", "hatch_build.py")) if isinstance(hook, dict) and name == "custom" else ""
                yield _judge_script(project, str(file.place("hooks", name)), script)


def _runs(name: str, hook: Any, env: Mapping[str, str]) -> bool:  # noqa: ANN401 - TOML
    """Whether a hook runs and may compile; a variable can switch a disabled hook on."""
    if name in PLAIN_HATCH_HOOKS or env.get("HATCH_BUILD_NO_HOOKS") in TRUE:
        return False
    if name == "jupyter-builder" and isinstance(hook, dict) and hook.get("build-function") in JAVASCRIPT:
        return False
    asked = ("HATCH_BUILD_HOOKS_ENABLE", f"HATCH_BUILD_HOOK_ENABLE_{name.upper()}")
    by_default = hook.get("enable-by-default", True) if isinstance(hook, dict) else True
    return bool(by_default) or any(env.get(variable) in TRUE for variable in asked)


def _judge_script(project: ProjectFile, place: str, script: str) -> str:
    """Say that a backend runs code of the project, and whether this leaves the wheel the tag of a pure one."""
    name = project.path(script)
    text = project.tree.text(name) if script else ""
    module = parse_module(text)
    nodes = [*ast.walk(module)] if module else []
    if len(nodes) > 1 and not OTHER_TAG.search(text) and not _import_more(nodes, project):
        return f"{place}: {project.backend} runs {name}, {KEEPS_TAG}"
    return f"{place}: {project.backend} runs the project's own code"


def _import_more(nodes: list[ast.AST], project: ProjectFile) -> bool:
    """Whether a script imports what compiles or a module of the project, or hands its backend's objects to others.

    Only who has these objects can set a tag: hatchling's `build_data`, pdm's `context`.
    """
    imported = {item.name for node in nodes if isinstance(node, ast.Import) for item in node.names}
    imported |= {"." * node.level + (node.module or "") for node in nodes if isinstance(node, ast.ImportFrom)}
    others = {one.partition(".")[0] for one in imported} - {*sys.stdlib_module_names, "hatchling", "pdm"}
    own = {part.removesuffix(".py") for name in project.tree.names for part in name.split("/")}
    builds = (COMPILERS.fullmatch(name) or BUILDERS.fullmatch(name) for name in map(canonicalize_name, others))
    if others & {"", *own} or any(builds):
        return True
    kinds = [base for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases]
    hooks = (node for node in nodes if isinstance(node, ast.FunctionDef) and node.args.args and HOOK.match(node.name))
    given = {"self", *(arg.arg for hook in hooks for arg in (hook.args.args[0], hook.args.args[-1]))}
    used = {node.value for node in nodes if isinstance(node, (ast.Attribute, ast.Subscript))}
    handed = (node for node in nodes if isinstance(node, ast.Name) and node.id in given and node not in used)
    return bool(others) and (any(handed) or any(not ast.unparse(kind).endswith("BuildHookInterface") for kind in kinds))


# ---------------------------------------------------------------- poetry and pdm


def _poetry(project: ProjectFile, _env: Mapping[str, str]) -> Iterator[str]:
    if project.value("tool", "poetry", "build"):
        yield f"{project.place('tool', 'poetry', 'build')}: {project.backend} runs the project's own code"


def _pdm(project: ProjectFile, _env: Mapping[str, str]) -> Iterator[str]:
    for requirement, at in build_requirements(project):  # any may add code to the build
        if name_of_required(requirement) not in PLAIN_COMPANIONS:
            yield f"{at}: what {requirement} adds to {project.backend.partition('.')[0]} is not known"
    build = ("tool", "pdm", "build")
    for key in ("run-setuptools", "setup-script"):
        if project.value(*build, key):
            yield f"{project.place(*build, key)}: {project.backend} runs the project's own code"
    named = project.text(*build, "custom-hook")
    script = named or "pdm_build.py"  # the default, used if the project names no other file
    if named or project.path(script) in project.tree.names:
        place = project.place(*build, "custom-hook") if named else f"{project.path(script)}:1"
        yield _judge_script(project, str(place), script)
    if project.value(*build, "is-purelib") is False:
        yield f"{project.place(*build, 'is-purelib')}: {OWN_TAG}"
