"""From a source tree to evidence: what would be compiled, for which platform, against which ABI, and where it says so.

It depends on the source and the request alone, never on the machine that reads it.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from ci_tools.includes import Includes, compiled, torch_abi
from ci_tools.model import (
    Binding,
    Evidence,
    Extensions,
    Globs,
    Minor,
    PlatformEvidence,
    PythonApi,
    Requirement,
    TorchAbi,
)
from ci_tools.process import INHERITED
from ci_tools.projectfile import LEGACY_SETUPTOOLS, ProjectFile
from ci_tools.source import matching

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from ci_tools.includes import Include
    from ci_tools.model import PlatformRequest, Request
    from ci_tools.source import Tree

    Found = tuple[Extensions, str]  # whether anything is compiled, and where that is written

__all__ = ["gather"]

NEVER_COMPILE = frozenset({"flit_core.buildapi", "uv_build"})
ALWAYS_COMPILE = frozenset({"mesonpy", "maturin", "scikit_build_core.setuptools.build_meta"})
SETUPTOOLS = frozenset({"setuptools.build_meta", LEGACY_SETUPTOOLS})
SCIKIT_BUILD_CORE = "scikit_build_core.build"
# Backends that compile nothing unless the project gives them code to run: as a key of pyproject.toml, or a file.
HOOK_KEYS: dict[str, tuple[tuple[str, ...], ...]] = {
    "hatchling.build": (("tool", "hatch", "build", "hooks"), ("tool", "hatch", "build", "targets", "wheel", "hooks")),
    "poetry.core.masonry.api": (("tool", "poetry", "build"),),
    "pdm.backend": (("tool", "pdm", "build", "custom-hook"), ("tool", "pdm", "build", "run-setuptools")),
}
HOOK_FILES = {"hatchling.build": "hatch.toml", "pdm.backend": "pdm_build.py"}
# What a build is told beyond the config, by its machine or its job: nobody can know it here.
NOT_OURS = frozenset(INHERITED) | {
    "CMAKE_BUILD_PARALLEL_LEVEL",
    "CMPLR_ROOT",
    "CUDA_HOME",
    "FATWHEEL_TORCH_INCLUDE",
    "MAX_JOBS",
    "PYTHONNOUSERSITE",
    "PYTORCH_ROCM_ARCH",
    "ROCM_HOME",
    "SOURCE_DATE_EPOCH",
    "TORCH_CUDA_ARCH_LIST",
    "VIRTUAL_ENV",
}
# What leaves setuptools compiling nothing: requirements without a hook into it, and setup()'s declarative keywords.
# ruff: noqa: SIM905 - as words they fit on a page
PLAIN_REQUIREMENTS = frozenset(
    "cmake cython ninja numpy packaging pip pybind11 setuptools setuptools-git-versioning setuptools-scm toml tomli "
    "torch versioneer wheel".split()
)
PLAIN_KEYWORDS = frozenset(
    "author author_email classifiers data_files description download_url entry_points exclude_package_data "
    "extras_require include_package_data install_requires keywords license license_files long_description "
    "long_description_content_type maintainer maintainer_email name package_data package_dir packages platforms "
    "project_urls py_modules python_requires scripts setup_requires tests_require url use_scm_version version "
    "zip_safe".split()
)
DECIDING_IMPORTS = frozenset(
    {"Cython", "cffi", "importlib", "platform", "pybind11", "runpy", "skbuild", "subprocess", "torch"}
)
DECIDING_NAMES = frozenset(
    "__import__ eval exec os.environ os.getenv os.name os.popen os.system sys.path sys.platform".split()
)
OWN_SETUP = frozenset({"distutils.core.setup", "setuptools.setup"})
# What the other backends may be built with and still compile nothing.
PLAIN_COMPANIONS = frozenset(
    "dunamai flit-core hatch-fancy-pypi-readme hatch-regex-commit hatch-requirements-txt hatch-vcs hatchling packaging "
    "pdm-backend pip poetry-core poetry-dynamic-versioning setuptools setuptools-scm toml tomli typing-extensions "
    "uv-build uv-dynamic-versioning versioningit wheel".split()
)
# How the files of an accelerator or system usually end.
USUAL_ENDINGS = {"cuda": ("cu", "cuh"), "rocm": ("hip",), "xpu": ("sycl",), "macos": ("metal", "mm")}
UNLIMITED_HEADER = re.compile(
    r"^(pybind11/|boost/python|torch/(extension|python)\.h$|torch/csrc/.*(python|pybind|THP))"
)
PYTHON_HEADER = re.compile(rf"^(Python\.h$|nanobind/)|{UNLIMITED_HEADER.pattern}")


def gather(request: Request, tree: Tree) -> Evidence:
    """Read the evidence for every platform of the request.

    Raises InputError where the source has no project to build, or its version cannot be known.
    """
    project = ProjectFile(request, tree)
    includes = Includes(tree)
    return Evidence(
        project=project.project(),
        source_sha256=tree.sha256,
        commit=tree.commit,
        platforms=tuple(_platform(project, includes, platform) for platform in request.platforms),
        requires_torch=_torch_requirement(project),
        warnings=(*project.warnings(), *_unseen(request, tree)),
    )


def _unseen(request: Request, tree: Tree) -> Iterator[str]:
    """Yield what looks like native code and no pattern matches."""
    for name in tree.files:
        path = tree.root / name
        if path.is_symlink() and path.is_dir():
            yield f"{name} is a link to a folder, and no pattern sees the files behind it"
    seen = {name for platform in request.platforms for name in matching(tree.files, platform.native)}
    for platform in request.platforms:
        usual = Globs(_usual(platform), platform.native.exclude)
        unseen = [name for name in matching(tree.files, usual) if name not in seen]
        if unseen and platform.native.include and not matching(tree.files, platform.native):
            yield f"{platform.platform}: its native globs match no file, and none matches {unseen[0]}"


def _usual(platform: PlatformRequest) -> tuple[str, ...]:
    words = platform.platform.value.split("-")
    return tuple(f"*.{ending}" for word in words for ending in USUAL_ENDINGS.get(word, ()))


def _platform(project: ProjectFile, includes: Includes, request: PlatformRequest) -> PlatformEvidence:
    env = {**dict(project.request.build.env), **dict(request.env)}
    native = matching(includes.tree.files, request.native)
    sources = compiled(includes.tree.files, native, request.native.exclude)
    extensions, where = _extensions(project, env)
    return PlatformEvidence(
        platform=request.platform,
        native_files=native,
        extensions=extensions,
        extensions_where=where,
        python_api=_agreeing(_python_api(project, env), includes.reached(sources)),
        torch_abi=_required_torch(torch_abi(includes, sources, project.request.subdirectory), project),
    )


# ---------------------------------------------------------------- what the backend compiles


def _extensions(project: ProjectFile, env: Mapping[str, str]) -> Found:
    """Whether the build compiles anything when it sees `env`, and where that is written."""
    backend, place = project.backend, project.place("build-system", "build-backend")
    if project.value("build-system", "backend-path"):
        return Extensions.UNKNOWN, f"{place}: what the source's own backend compiles is not known"
    if backend in ALWAYS_COMPILE:
        return Extensions.SOME, f"{place}: {backend} compiles"
    if backend == SCIKIT_BUILD_CORE:
        return _scikit_build_core(project, env)
    if backend in SETUPTOOLS:
        return _setuptools(project)
    if backend in NEVER_COMPILE or backend in HOOK_KEYS:
        return _hooks(project)
    return Extensions.UNKNOWN, f"{place}: what {backend} compiles is not known"


def _hooks(project: ProjectFile) -> Found:
    """Return nothing compiled, unless the project gives the backend code to run."""
    backend = project.backend
    if plugin := _plugin(project, PLAIN_COMPANIONS):
        return Extensions.UNKNOWN, plugin
    for keys in HOOK_KEYS.get(backend, ()):
        if project.value(*keys):
            return Extensions.UNKNOWN, f"{project.place(*keys)}: {backend} runs code of the project's"
    file = project.path(HOOK_FILES.get(backend, ""))
    if file in project.tree.names:
        return Extensions.UNKNOWN, f"{file}:1: {backend} runs code of the project's"
    return Extensions.NONE, f"{project.place('build-system', 'build-backend')}: {backend} compiles nothing"


# ---------------------------------------------------------------- scikit-build-core


def _scikit_build_core(project: ProjectFile, env: Mapping[str, str]) -> Found:
    """scikit-build-core runs CMake unless `wheel.cmake` is false."""
    runs, where = _wheel_setting(project, env, "cmake", default=True)
    if runs is None:
        return Extensions.UNKNOWN, where
    return (Extensions.NONE if runs is False else Extensions.SOME), where


def _wheel_setting(project: ProjectFile, env: Mapping[str, str], key: str, *, default: bool | str) -> tuple[Any, str]:
    """Return a setting of `[tool.scikit-build.wheel]` as overrides leave it; None where that cannot be known."""
    path = ("tool", "scikit-build", "wheel", key)
    value = default if project.value(*path) is None else project.value(*path)
    where = f"{project.place(*path)}: wheel.{key} = {_shown(value)}"
    variable = f"SKBUILD_WHEEL_{key}".upper().replace("-", "_")
    if variable in env:
        return None, f"{where}, which {variable} overrides"
    not_ours = NOT_OURS | project.table("tool", "scikit-build", "env").keys()
    for index, override in enumerate(project.list("tool", "scikit-build", "overrides")):
        sets = _table(override, "wheel").get(key, value)
        holds = _holds(_table(override, "if"), env, not_ours) if sets != value else False
        place = project.place_of_table(r"tool\.scikit-build\.overrides", index)
        if holds is None:
            return None, f"{where}, with an override that depends on the machine ({place.line})"
        if holds:
            value, where = sets, f"{place}: wheel.{key} = {_shown(sets)} with the platform's env"
    return value, where


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'


def _table(value: object, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _holds(condition: dict[str, Any], env: Mapping[str, str], not_ours: Collection[str]) -> bool | None:
    """Whether an override's condition holds for `env`; None where it depends on more than the environment."""
    every, some = _table(condition, "env"), _table(_table(condition, "any"), "env")
    if condition.keys() - {"env", "any"} or _table(condition, "any").keys() - {"env"} or not {**every, **some}:
        return None
    if any(_is_told(name, not_ours) and name not in env for name in (*every, *some)):
        return None
    try:
        all_of = [_env_matches(env.get(name), wanted) for name, wanted in every.items()]
        any_of = [_env_matches(env.get(name), wanted) for name, wanted in some.items()]
    except re.error:
        return None
    return all(all_of) and (any(any_of) or not any_of)


def _is_told(name: str, not_ours: Collection[str]) -> bool:
    return name in not_ours or name.startswith("PIP_")


def _env_matches(value: str | None, wanted: object) -> bool:
    """Match as scikit-build-core does: `true` means set to something that is not false, text is a pattern."""
    if isinstance(wanted, bool):
        word = (value or "").lower()
        is_true = int(word) != 0 if word.isdecimal() else word not in {"", "false", "off", "no", "n", "f"}
        return wanted == is_true
    return value is not None and re.search(str(wanted), value) is not None


# ---------------------------------------------------------------- setuptools


def _setuptools(project: ProjectFile) -> Found:
    """Setuptools compiles the extensions it is told of; with any other code in play that is not known."""
    if project.value("tool", "setuptools", "ext-modules"):
        return Extensions.SOME, f"{project.place('tool', 'setuptools', 'ext-modules')}: ext-modules"
    if project.value("tool", "setuptools", "cmdclass"):
        return Extensions.UNKNOWN, f"{project.place('tool', 'setuptools', 'cmdclass')}: commands of its own"
    if project.setting("options", "cmdclass"):
        return Extensions.UNKNOWN, f"{project.place_of_setting('cmdclass')}: commands of its own"
    if plugin := _plugin(project, PLAIN_REQUIREMENTS):
        return Extensions.UNKNOWN, plugin
    return _setup_py(project.path("setup.py"), project)


def _plugin(project: ProjectFile, plain: Collection[str]) -> str:
    """Return which requirement of the build may add code to it, and where, or nothing."""
    for requirement in project.list("build-system", "requires"):
        if _required(requirement) not in plain:
            place = project.place("build-system", "requires")
            return f"{place}: what {requirement} adds to {project.backend.partition('.')[0]} is not known"
    return ""


def _required(requirement: object) -> str:
    """Return the project a requirement names, nothing where it is none (PEP 508)."""
    from packaging import requirements  # noqa: PLC0415 - a tenth of a plan's time

    try:
        return canonicalize_name(requirements.Requirement(str(requirement)).name)
    except requirements.InvalidRequirement:
        return ""


def _setup_py(path: str, project: ProjectFile) -> Found:
    text = project.tree.text(path)
    if not text:
        return Extensions.NONE, f"{project.name}:1: setuptools without a setup.py"
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        return Extensions.UNKNOWN, f"{path}:{getattr(error, 'lineno', None) or 1}: not Python that can be read here"
    for line, why in _doubts(module, project):
        return Extensions.UNKNOWN, f"{path}:{line}: {why}"
    return Extensions.NONE, f"{path}:1: setup() names no extensions"


def _doubts(module: ast.Module, project: ProjectFile) -> Iterator[tuple[int, str]]:
    """Yield what in a setup.py might compile: anything but plain calls of setuptools' own `setup`."""
    for line, name in _imported(module):
        first = name.partition(".")[0]
        if first in DECIDING_IMPORTS or _is_module_of(project, first):
            yield line, f"imports {name}, so it decides when it runs"
    names = _names(module)
    for line, name in _used(module, names):
        if name in DECIDING_NAMES:
            yield line, f"uses {name}, so it decides when it runs"
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call) and _is_setup(node.func, names)]
    for call in calls:
        if _meaning(call.func, names) not in OWN_SETUP:
            yield call.lineno, "this setup() is not seen to be setuptools' own"
    for keyword in (keyword for call in calls for keyword in call.keywords):
        if keyword.arg not in PLAIN_KEYWORDS:
            yield keyword.value.lineno, f"setup({keyword.arg or '**…'}) decides when it runs"
    if not calls:
        yield 1, "no call of setup() is seen, so it decides when it runs"


def _is_module_of(project: ProjectFile, name: str) -> bool:
    """Whether a setup.py's import means a file of the source: one beside it."""
    path = project.path(name)
    return not name or any(file == f"{path}.py" or file.startswith(f"{path}/") for file in project.tree.files)


def _names(module: ast.Module) -> dict[str, str]:
    """Map what a module imports to what it means; a name that is bound otherwise as well means nothing."""
    names: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
    for name in _bound(module):
        names[name] = ""
    return names


def _bound(module: ast.Module) -> Iterator[str]:
    """Yield the names that a module binds itself."""
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _meaning(node: ast.expr, names: Mapping[str, str]) -> str:
    """Return what a dotted name means in full, `os.environ`, or nothing where it is none."""
    if isinstance(node, ast.Attribute):
        return f"{_meaning(node.value, names)}.{node.attr}"
    return names.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def _used(module: ast.Module, names: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module):
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield node.lineno, _meaning(node, names)


def _is_setup(called: ast.expr, names: Mapping[str, str]) -> bool:
    return "setup" in {_meaning(called, names).rpartition(".")[2], getattr(called, "id", "")}


def _imported(module: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


# ---------------------------------------------------------------- against which Python


def _python_api(project: ProjectFile, env: Mapping[str, str]) -> PythonApi:
    """Which Python C API the compiled code declares."""
    if project.backend == SCIKIT_BUILD_CORE:
        declared, where = _wheel_setting(project, env, "py-api", default="")
        return _scikit_build_api(declared, where)
    for key in ("py-limited-api", "py_limited_api"):
        if limited := project.text("tool", "distutils", "bdist_wheel", key):
            return _setuptools_api(limited, str(project.place("tool", "distutils", "bdist_wheel", key)))
    if limited := project.setting("bdist_wheel", "py_limited_api"):
        return _setuptools_api(limited, str(project.place_of_setting("py_limited_api")))
    return PythonApi(Binding.FULL, f"{project.name}:1")


def _scikit_build_api(declared: object, where: str) -> PythonApi:
    """Read `py3` (no Python symbol at all), `cp310` (abi3), `cp315t` (abi3t) or both (PEP 803)."""
    if declared == "":
        return PythonApi(Binding.FULL, where)
    if declared == "py3":
        return PythonApi(Binding.NONE, where)
    match = re.fullmatch(r"(?:cp3(\d{1,2}))?(?:(?:^|(?<=\d)\.)cp3(\d{1,2})t)?", str(declared))
    if declared is None or match is None:
        return PythonApi(Binding.UNKNOWN, where)
    lowest, free_threaded = (Minor(3, int(digits)) if digits else None for digits in match.groups())
    return PythonApi(Binding.STABLE, where, lowest, free_threaded, builds_older=True)


def _setuptools_api(declared: str, where: str) -> PythonApi:
    """Read `cp310`, which setuptools puts on every wheel it builds, whatever Python builds it."""
    match = re.fullmatch(r"cp3(\d{1,2})", declared)
    if match is None:
        return PythonApi(Binding.UNKNOWN, where)
    return PythonApi(Binding.STABLE, where, Minor(3, int(match[1])))


def _agreeing(api: PythonApi, includes: Iterable[Include]) -> PythonApi:
    """Return the declared API, or that it is unknown where a header the sources include contradicts it."""
    contradicts = {Binding.NONE: PYTHON_HEADER, Binding.STABLE: UNLIMITED_HEADER}.get(api.kind)
    for header, place in includes if contradicts else ():
        if contradicts and contradicts.match(header):
            return PythonApi(Binding.UNKNOWN, f"{place}: includes {header}, against {api.where}")
    return api


# ---------------------------------------------------------------- against which torch


def _required_torch(abi: TorchAbi, project: ProjectFile) -> TorchAbi:
    """Return the torch ABI, or that it is unknown where a build asks for torch and no header of it is seen."""
    for requirement in project.list("build-system", "requires"):
        if abi.kind is Binding.NONE and _required(requirement) == "torch":
            place = project.place("build-system", "requires")
            where = f"{place}: {requirement} is a build requirement, but no file includes a header of it"
            return TorchAbi(Binding.UNKNOWN, where, uses_torch=True)
    return abi


def _torch_requirement(project: ProjectFile) -> Requirement:
    """Return the torch versions the project asks for in every environment."""
    from packaging import requirements  # noqa: PLC0415 - see above

    found = Requirement()
    for text, place in project.dependencies():
        if _required(text) == "torch" and not (parsed := requirements.Requirement(text)).marker:
            specifier = ",".join(filter(None, (found.specifier, str(parsed.specifier))))
            found = Requirement(specifier, found.where or str(place))
    return found
