"""Writes a starter `fatwheel.yml` from the source, and from callers of test-infra if they are given."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import yaml
from packaging.utils import InvalidName, canonicalize_name

from ci_tools.config import test_infra
from ci_tools.config.loader import DEFAULT_NAME
from ci_tools.config.test_infra import Fate
from ci_tools.config.test_infra.triggers import PLACE, workflow
from ci_tools.errors import InputError
from ci_tools.evidence.includes import Includes, select_sources, torch_abi
from ci_tools.evidence.source import Tree, matching, tree_at
from ci_tools.formats.toml_text import parse_toml
from ci_tools.machine.storage import write_atomically
from ci_tools.model.pep440 import parse_specifiers
from ci_tools.model.platforms import AcceleratorKind, Platform
from ci_tools.model.request import Globs
from ci_tools.model.versions import CudaArch, Minor, Python, admits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ci_tools.catalog import Catalog, PlatformFacts
    from ci_tools.config.test_infra import Move, Row, Wish
    from ci_tools.model.evidence import TorchAbi

__all__ = ["Written", "render_move", "text", "write", "write_from_test_infra"]

# File name endings that show that a platform has native code.
ENDINGS = {
    "linux-cuda": ("cu", "cuh"),
    "linux-rocm": ("hip",),
    "linux-xpu": ("sycl",),
    "linux-cpu": (),
    "linux-aarch64": (),
    "macos-arm64": ("metal", "mm"),
    "windows": (),
}
PROJECT_FILES = frozenset({"pyproject.toml", "setup.py"})
ARCHS = ("8.0", "9.0", "10.0+PTX")
GFX_ARCHS = "[gfx90a, gfx942, gfx1100]"


def write(folder: Path, catalog: Catalog, environ: Mapping[str, str]) -> Path:
    """Write a starter into `folder` and return its path; raise InputError if one exists or there is no project."""
    path = folder / DEFAULT_NAME
    _refuse(folder, [path])
    content = text(tree_at(folder.resolve(), environ), catalog)
    with write_atomically(path) as file:
        file.write(content.encode())
    return path


def _refuse(folder: Path, paths: Iterable[Path]) -> None:
    """Raise InputError if a file exists already, or the folder does not."""
    for path in paths:
        if path.exists():
            msg = f"{path} is there already, expected none to start from"
            raise InputError(msg)
    if not folder.is_dir():
        msg = f"there is no folder {folder}, expected the source of a project"
        raise InputError(msg)


class _Project(NamedTuple):
    """The facts that a starter needs from a project's pyproject.toml, or that it has only a setup.py."""

    file: str
    name: str
    has_version: bool
    requires_python: str
    dependencies: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The project's folder below the source root, or "" for the root itself."""
        return self.file.rpartition("/")[0]


def text(tree: Tree, catalog: Catalog) -> str:
    """Return a config for the project in `tree`: the found values, and comments where a person has to choose.

    Raises InputError if there is no project, or its metadata is not valid.
    """
    project = _project(tree)
    module = re.sub(r"[-.]+", "_", project.name).lower()
    lines = [
        "# What `fatwheel plan` reads: who is served, and what is native. Every key: docs/reference/config.md",
        *_package_lines(project),
        "",
        f"python: [{', '.join(_quote_names(_pythons(project, catalog)))}]",
        *_torch(tree, project, catalog),
        "",
        "platforms:",
        *(line for platform, endings in ENDINGS.items() for line in _platform(platform, endings, tree)),
        *(["", "validate:", f"  imports: [{_scalar(module)}]"] if module.isidentifier() else []),
    ]
    return "\n".join(lines) + "\n"


def _package_lines(project: _Project) -> list[str]:
    """Return the lines for the project's name, version and folder."""
    return [
        f"package: {_scalar(project.name)}",
        *([] if project.has_version else ['version: "0.0.0" # the project\'s own is dynamic: say which is released']),
        *(["", "source:", f"  subdirectory: {_scalar(project.folder)}"] if project.folder else []),
    ]


def _scalar(text: str) -> str:
    """Return a text as a YAML scalar, in quotes if YAML would read it as something else."""
    try:
        plain = text.isprintable() and yaml.safe_load(f"[{text}]") == [text]
    except yaml.YAMLError:
        plain = False
    return text if plain else json.dumps(text)


def _comment(text: str) -> str:
    """Return a comment on one line; the text may have a file name with a line break."""
    return f"# {''.join(char if char.isprintable() else '?' for char in text)}"


def _project(tree: Tree, name: str = "") -> _Project:
    """Return the facts of the project nearest to the root; `name` is used if it states no name."""
    found = sorted((file for file in tree.files if PurePosixPath(file).name in PROJECT_FILES), key=_depth)
    if not found:
        msg = f"{tree.root} has no pyproject.toml, expected the source of a project"
        raise InputError(msg)
    file = found[0]
    name = name or tree.root.name
    if file.endswith("setup.py"):
        return _Project(file, _name(file, name), has_version=True, requires_python="", dependencies=())
    content = parse_toml(tree.text(file), file)
    table = content.get("project", {})
    if not isinstance(table, dict):
        raise _not(file, "project", table, "a table")
    dependencies = table.get("dependencies", [])
    if not isinstance(dependencies, list) or not all(isinstance(item, str) for item in dependencies):
        raise _not(file, "project.dependencies", dependencies, "a list of texts")
    name = _name(file, _text(file, table, "name") or name)
    has_version = "version" in table or _has_setup(content)
    return _Project(file, name, has_version, _text(file, table, "requires-python"), tuple(dependencies))


def _has_setup(content: Mapping[str, object]) -> bool:
    """Whether setuptools builds it: then its version is observed by running it."""
    system = content.get("build-system")
    backend = system.get("build-backend", "setuptools") if isinstance(system, dict) else "setuptools"
    return str(backend).startswith("setuptools")


def _not(file: str, key: str, value: object, expected: str) -> InputError:
    return InputError(f"{file}: {key} is {value!r}, expected {expected}")


def _text(file: str, table: Mapping[str, object], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise _not(file, f"project.{key}", value, "text")
    return value


def _name(file: str, name: str) -> str:
    try:
        canonicalize_name(name, validate=True)
    except InvalidName:
        raise _not(file, "project.name", name, "a name of letters, digits, dots and dashes") from None
    return name


def _depth(name: str) -> tuple[int, str]:
    """Return the sort key of a file: the root's first, a pyproject.toml before the setup.py beside it."""
    return name.count("/"), name


def _pythons(project: _Project, catalog: Catalog) -> list[str]:
    """Return the catalogued Pythons that the project admits and torch ships for."""
    try:
        admitted = parse_specifiers(project.requires_python)
    except ValueError:  # also raised for more digits than Python converts
        admitted = parse_specifiers("")
    newest = catalog.torch[max(catalog.torch)].pythons["linux-x86_64"]
    older = catalog.torch[Minor(max(catalog.torch).major, max(catalog.torch).minor - 1)].pythons["linux-x86_64"]
    shipped = [python for python in catalog.pythons if python in newest | older]
    found = [str(python) for python in shipped if admits(admitted, python.version)]
    if not found:
        known = f"one that admits some of {', '.join(map(str, shipped))}"
        raise _not(project.file, "project.requires-python", project.requires_python, known)
    return found


def _torch(tree: Tree, project: _Project, catalog: Catalog) -> list[str]:
    """Return the line of the torch axis if the project uses torch, from the version its source targets."""
    abi = _abi(tree, project)
    if abi.target in catalog.torch:
        return [f'torch: {{ lowest: "{abi.target}" }} {_comment(abi.where)}']
    uses = any(re.match(r"torch\b(?![-_.])", requirement) for requirement in project.dependencies)
    return ['torch: { lowest: "2.10" } # the oldest torch you serve'] if uses else []


def _abi(tree: Tree, project: _Project) -> TorchAbi:
    return torch_abi(Includes(tree), select_sources(tree.files, (), ()), project.folder)


def _platform(platform: str, endings: tuple[str, ...], tree: Tree) -> Iterator[str]:
    """Yield a platform's lines: with its native globs if such files exist, else only its name."""
    globs = [f"**/*.{ending}" for ending in endings]
    found = matching(tree.files, Globs(tuple(globs)))
    if not found:
        # A CUDA platform must name versions and architectures, and here is nothing to build.
        yield f"  {'# ' if platform == 'linux-cuda' else ''}{platform}:"
        return
    yield f"  {platform}:"
    yield f"    native: [{', '.join(_quote_names(globs))}] {_comment(found[0])}"
    yield '    owner: "@your-org/your-team" # who looks after this code'
    if platform == "linux-cuda":
        yield '    cuda: ["13.0"]'
        yield f"    archs: [{', '.join(_quote_names(ARCHS))}]"
    if platform == "linux-rocm":
        yield '    rocm: ["7.2"]'
        yield f"    archs: {GFX_ARCHS}"


def _quote_names(names: Iterable[str]) -> Iterator[str]:
    return (f'"{name}"' for name in names)


# ---------------------------------------------------------------- from test-infra


class Written(NamedTuple):
    """The files that a move wrote, and its report on every input."""

    paths: tuple[Path, ...]
    rows: tuple[Row, ...]


def write_from_test_infra(
    folder: Path, workflows: Sequence[Path], catalog: Catalog, environ: Mapping[str, str]
) -> Written:
    """Write a config into `folder` with the requests of test-infra's callers, and a workflow that calls Fatwheel's.

    Raises InputError if one of the two exists, a file of `workflows` is not such a caller, or there is no project.
    """
    paths = (folder / DEFAULT_NAME, folder / PLACE)
    _refuse(folder, paths)
    moved = test_infra.move(workflows, folder, catalog)
    tree = tree_at(folder.resolve(), environ)
    inputs = {"config": DEFAULT_NAME} | {wish.key: wish.value for wish in moved.of("ref")}
    caller = workflow(moved.triggers, inputs, [path.name for path in workflows])
    texts = (render_move(tree, catalog, moved), caller)
    for path, content in zip(paths, texts, strict=True):
        with write_atomically(path) as file:
            file.write(content.encode())
    return Written(paths, moved.rows)


def render_move(tree: Tree, catalog: Catalog, moved: Move) -> str:
    """Return a config for the project in `tree` with the requests of test-infra's callers."""
    imports = moved.of("import")
    project = _project(tree, imports[0].value if imports else "")
    needs_you = [row for row in moved.rows if row.fate is Fate.NEEDS_YOU]
    lines = [
        "# What `fatwheel plan` reads, from what called test-infra. Every key: docs/reference/config.md",
        *(["# Needs you:"] if needs_you else []),
        *(_comment(f"- {row.where}: {row.name}: {row.what}") for row in needs_you),
        *_package_lines(project),
        "",
        *_move_pythons(project, catalog, moved),
        _move_torch(tree, project, catalog),
        "",
        "platforms:",
        *(line for wish in moved.of("platform") for line in _move_platform(wish, tree, catalog, moved)),
        *_section("build", _move_build(moved)),
        *_section("validate", _move_validation(moved, catalog)),
        *_section("publish", _move_publish(moved)),
    ]
    return "\n".join(lines) + "\n"


def _section(key: str, lines: Iterable[str]) -> list[str]:
    """Return a key with its lines; empty if it has none."""
    inner = [f"  {line}" for line in lines]
    return ["", f"{key}:", *inner] if inner else []


def _move_pythons(project: _Project, catalog: Catalog, moved: Move) -> list[str]:
    wishes = moved.of("python")
    if not wishes:
        known = test_infra.newest(catalog).pythons["linux-x86_64"]
        admitted = _pythons(project, catalog)
        shipped = [python for python in admitted if Python.parse(python) in known] or admitted
        return [f"python: [{', '.join(_quote_names(shipped))}]"]
    named = ", ".join(_quote_names(wish.value for wish in wishes))
    comment = _comment(f"{wishes[0].where}; list all that you serve: one wheel may do for several")
    return [f"python: [{named}] {comment}"]


def _move_torch(tree: Tree, project: _Project, catalog: Catalog) -> str:
    """Return the torch axis: the version the source targets, or the one torch that test-infra would build for."""
    abi = _abi(tree, project)
    if abi.target in catalog.torch:
        return f'torch: {{ lowest: "{abi.target}" }} {_comment(abi.where)}'
    return (
        f'torch: ["{test_infra.newest(catalog).version}"] # test-infra builds for one torch: list each that you serve'
    )


def _move_platform(wish: Wish, tree: Tree, catalog: Catalog, moved: Move) -> Iterator[str]:
    """Yield the lines of a platform that test-infra built for: native globs, and the versions torch ships for."""
    platform = Platform(wish.value)
    facts = catalog.platforms[platform]
    endings = ENDINGS.get(wish.value, ENDINGS["linux-cuda"] if facts.accelerator is AcceleratorKind.CUDA else ())
    globs = [f"**/*.{ending}" for ending in endings]
    found = matching(tree.files, Globs(tuple(globs)))
    yield f"  {platform}: {_comment(wish.where)}"
    yield f"    owner: {_scalar(_owner(moved))} # who looks after its native code"
    if found:
        yield f"    native: [{', '.join(_quote_names(globs))}] {_comment(found[0])}"
    yield from _move_accelerator(facts, catalog, moved)
    runners = [runner for runner in moved.of("runner") if platform in runner.platforms]
    if runners:
        yield f"    runner: {_scalar(runners[0].value)} {_comment(runners[0].where)}"
    variables = (variable for variable in moved.of("env") if platform in variable.platforms)
    own = [variable for variable in variables if not _is_everywhere(variable, moved)]
    if own:
        yield "    env:"
        yield from (f"      {line}" for line in _variables(own))


def _owner(moved: Move) -> str:
    organisation = moved.repository.partition("/")[0]
    return f"@{organisation}" if organisation else "@your-org/your-team"


def _move_accelerator(facts: PlatformFacts, catalog: Catalog, moved: Move) -> Iterator[str]:
    """Yield the versions of a platform's accelerator that the newest torch ships for, and the architectures."""
    if facts.accelerator not in {AcceleratorKind.CUDA, AcceleratorKind.ROCM}:
        return
    newest = test_infra.newest(catalog)
    shipped = newest.accelerators.get((facts.host, facts.accelerator), frozenset())
    versions = sorted(version for version in shipped if version)
    if facts.accelerator is AcceleratorKind.ROCM:
        archs = [wish.value for wish in moved.of("rocm-archs")]
        comment = f"# those that torch {newest.version} has"
        yield f"    rocm: [{', '.join(_quote_names(map(str, versions)))}] {comment}"
        yield from [f"    archs: [{', '.join(_quote_names(archs))}]"] * bool(archs)
        return
    archs = [wish.value for wish in moved.of("archs")]
    told = [CudaArch.parse(arch) for arch in archs or ARCHS]
    able = [version for version in versions if all(map(catalog.cuda[version].knows, told))] or versions
    without = ", ".join(str(version) for version in versions if version not in able)
    comment = f"# those that torch {newest.version} has" + (f", but {without}: not all archs" if without else "")
    yield f"    cuda: [{', '.join(_quote_names(map(str, able)))}] {comment}"
    choose = "" if archs else " # choose: no TORCH_CUDA_ARCH_LIST was found"
    yield f"    archs: [{', '.join(_quote_names(archs or ARCHS))}]{choose}"


def _is_everywhere(wish: Wish, moved: Move) -> bool:
    """Whether the jobs with this wish cover every platform."""
    return {Platform(platform.value) for platform in moved.of("platform")} <= {*wish.platforms}


def _variables(wishes: Iterable[Wish]) -> list[str]:
    """Return a line for each variable; of two values the later one wins, as in a shell."""
    pairs = ((wish.value.partition("="), wish.where) for wish in wishes)
    lines = {name: f"{name}: {json.dumps(value)} {_comment(where)}" for (name, _, value), where in pairs}
    return list(lines.values())


def _move_build(moved: Move) -> Iterator[str]:
    for key in ("before", "after"):
        wishes = moved.of(key)
        yield from [f"{key}:"] * bool(wishes)
        for wish in wishes:
            only = "" if _is_everywhere(wish, moved) else f"; it was for {', '.join(wish.platforms)} alone"
            yield f"  - {_scalar(wish.value)} {_comment(wish.where + only)}"
    shared = [wish for wish in moved.of("env") if _is_everywhere(wish, moved)]
    yield from ["env:"] * bool(shared)
    yield from (f"  {line}" for line in _variables(shared))
    for key, name in (("max-jobs", "max-jobs"), ("timeout", "timeout-minutes")):
        longest = max(moved.of(key), key=lambda wish: int(wish.value), default=None)
        if longest:
            yield f"{name}: {longest.value} {_comment(longest.where)}"


def _move_validation(moved: Move, catalog: Catalog) -> Iterator[str]:
    imports = [wish.value for wish in moved.of("import")]
    if imports or moved.of("command"):
        yield f'torch: "{test_infra.newest(catalog).patch}" # test-infra installs torch before the wheel'
    if imports:
        yield f"imports: [{', '.join(map(_scalar, imports))}]"
    commands = moved.of("command")
    yield from ["commands:"] * bool(commands)
    yield from (f"  - {_scalar(wish.value)} {_comment(wish.where)}" for wish in commands)


def _move_publish(moved: Move) -> Iterator[str]:
    for key in ("pypi", "pypi-cuda"):
        for wish in moved.of(key)[:1]:
            yield f"{key}: {_scalar(wish.value)} {_comment(wish.where)}"
