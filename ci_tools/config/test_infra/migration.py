"""Writes a `fatwheel.yml` and a workflow with what test-infra's callers ask for: `init --from-test-infra`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.catalog import Catalog, PlatformFacts
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.config import test_infra
from ci_tools.config.calling_workflow import PLACE, workflow
from ci_tools.config.project import (
    ARCHS,
    ENDINGS,
    StarterProject,
    list_pythons,
    package_lines,
    project_of,
    quote_names,
    refuse_existing,
    to_comment,
    to_scalar,
)
from ci_tools.config.test_infra import InputFate, Move, ReportLine, SettingWish
from ci_tools.errors import InputError
from ci_tools.machine.storage import write_atomically
from ci_tools.model.names import CONFIG_FILE
from ci_tools.model.platforms import Platform
from ci_tools.model.request import Globs
from ci_tools.model.versions import CudaArch, Python
from ci_tools.source.files import Tree, matching, tree_at
from ci_tools.source.includes import Includes, select_sources, torch_abi

CALLS = re.compile(r"(?m)^[^#\n]*test-infra/\.github/workflows/build_wheels_(linux|windows|macos)\.ya?ml")


class MoveReport(NamedTuple):
    """The files that a move wrote, and its report on every input."""

    paths: tuple[Path, ...]
    rows: tuple[ReportLine, ...]


def write_from_test_infra(
    folder: Path, workflows: Sequence[Path], catalog: Catalog, environ: Mapping[str, str]
) -> MoveReport:
    """Write a config into `folder` with the requests of test-infra's callers, and a workflow that calls Fatwheel's.

    Without `workflows`, those of the repository are found. Raises InputError if one of the two files exists, a file of
    `workflows` is not such a caller, or there is no project.
    """
    paths = (folder / CONFIG_FILE, folder / PLACE)
    refuse_existing(folder, paths)
    workflows = workflows or find_callers(folder)
    moved = test_infra.move(workflows, folder, catalog)
    tree = tree_at(folder.resolve(), environ)
    moved = moved._replace(rows=(*moved.rows, *_missing_submodules(folder)))
    inputs = {"config": CONFIG_FILE} | {wish.key: wish.value for wish in moved.of("ref")}
    caller = workflow(join_triggers(moved.triggers, [path.name for path in workflows]), inputs)
    texts = (render_move(tree, catalog, moved), caller)
    for path, content in zip(paths, texts, strict=True):
        with write_atomically(path) as file:
            file.write(content.encode())
    return MoveReport(paths, moved.rows)


def find_callers(folder: Path) -> list[Path]:
    """Return the workflow files of a repository that build wheels with test-infra; raise InputError if none does."""
    places = sorted(path for pattern in ("*.yml", "*.yaml") for path in (folder / ".github/workflows").glob(pattern))
    found = [path for path in places if CALLS.search(path.read_text(encoding="utf-8", errors="replace"))]
    if not found:
        msg = f"no workflow in {folder / '.github/workflows'} calls build_wheels_*.yml of pytorch/test-infra"
        raise InputError(msg, hint="name the files that do: --from-test-infra FILE")
    return found


def _missing_submodules(folder: Path) -> Iterator[ReportLine]:
    """Yield the row of the submodules that are not checked out: without them, a build script fails in its own words."""
    file = folder / ".gitmodules"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    paths = re.findall(r"(?m)^\s*path\s*=\s*(.+?)\s*$", text)  # git config's form: tab path = third_party/x
    empty = [path for path in paths if not any((folder / path).glob("*"))]
    if empty:
        what = f"{', '.join(empty)}: not checked out, and a plan reads them: `git submodule update --init --recursive`"
        yield ReportLine(file.name, "submodules", "", InputFate.NEEDS_YOU, what)


def render_move(tree: Tree, catalog: Catalog, moved: Move) -> str:
    """Return a config for the project in `tree` with the requests of test-infra's callers."""
    imports = moved.of("import")
    project = project_of(tree, imports[0].value if imports else "")
    needs_you = [row for row in moved.rows if row.fate is InputFate.NEEDS_YOU]
    lines = [
        "# Read by `fatwheel plan`, from the callers of test-infra. Every key: Fatwheel's docs/reference/config.md",
        *(["# Needs you:"] if needs_you else []),
        *(to_comment(f"- {row.where}: {row.name}: {row.what}") for row in needs_you),
        *package_lines(project, _owner(moved)),
        "",
        *_move_pythons(project, catalog, moved),
        _move_torch(tree, project, catalog),
        "",
        "platforms:",
        *(line for wish in moved.of("platform") for line in _move_platform(wish, tree, catalog, moved)),
        *_section("build", _move_build(tree, moved)),
        *_section("validate", _move_validation(moved, catalog)),
        *_section("publish", _move_publish(moved)),
    ]
    return "\n".join(lines) + "\n"


def _section(key: str, lines: Iterable[str]) -> list[str]:
    """Return a key with its lines; empty if it has none."""
    inner = [f"  {line}" for line in lines]
    named = [f"{key}:"] if any(not line.lstrip().startswith("#") for line in inner) else []
    return ["", *named, *inner] if inner else []


def _find_line(tree: Tree, files: Iterable[str], word: str) -> str:
    """Return the first line of some files that has a word, as FILE:LINE; "" if none has it."""
    lines = ((file, n, line) for file in files if file in tree.names
             for n, line in enumerate(tree.text(file).splitlines(), 1))  # fmt: skip
    return next((f"{file}:{n}" for file, n, line in lines if word in line), "")


def _move_pythons(project: StarterProject, catalog: Catalog, moved: Move) -> list[str]:
    wishes = moved.of("python")
    if not wishes:
        known = test_infra.newest(catalog).pythons["linux-x86_64"]
        admitted = list_pythons(project, catalog)
        shipped = [python for python in admitted if Python.parse(python) in known] or admitted
        return [f"python: [{', '.join(quote_names(shipped))}]"]
    named = ", ".join(quote_names(wish.value for wish in wishes))
    comment = to_comment(f"{wishes[0].where}; list all that you serve: one wheel may serve several")
    return [f"python: [{named}] {comment}"]


def _move_torch(tree: Tree, project: StarterProject, catalog: Catalog) -> str:
    """Return the torch axis: the version the source targets, or the one torch that test-infra would build for."""
    abi = torch_abi(Includes(tree), select_sources(tree.files, (), ()), project.folder)
    if abi.target in catalog.torch:
        return f'torch: {{ lowest: "{abi.target}" }} {to_comment(abi.where)}'
    return (
        f'torch: ["{test_infra.newest(catalog).version}"] # test-infra builds for one torch: list each that you serve'
    )


def _move_platform(wish: SettingWish, tree: Tree, catalog: Catalog, moved: Move) -> Iterator[str]:
    """Yield the lines of a platform that test-infra built for: native globs, and the versions torch ships for."""
    platform = Platform(wish.value)
    facts = catalog.platforms[platform]
    endings = ENDINGS.get(wish.value, ENDINGS["linux-cuda"] if facts.accelerator == CUDA else ())
    globs = [f"**/*.{ending}" for ending in endings]
    found = matching(tree.files, Globs(tuple(globs)))
    yield f"  {platform}: {to_comment(wish.where)}"
    if found:
        yield f"    native: [{', '.join(quote_names(globs))}] {to_comment(found[0])}"
    yield from _move_accelerator(facts, catalog, moved)
    runners = [runner for runner in moved.of("runner") if platform in runner.platforms]
    if runners:
        yield f"    runner: {to_scalar(runners[0].value)} {to_comment(runners[0].where)}"
    variables = (variable for variable in moved.of("env") if platform in variable.platforms)
    own = [variable for variable in variables if not moved.is_everywhere(variable)]
    if own:
        yield "    env:"
        yield from (f"      {line}" for line in _variables(own))


def _owner(moved: Move) -> str:
    organisation = moved.repository.partition("/")[0]
    return f"@{organisation}" if organisation else "@your-org/your-team"


def _move_accelerator(facts: PlatformFacts, catalog: Catalog, moved: Move) -> Iterator[str]:
    """Yield the versions of a platform's accelerator that the newest torch ships for, and the architectures."""
    if facts.accelerator is None or not facts.accelerator.is_versioned:
        return
    newest = test_infra.newest(catalog)
    shipped = newest.accelerators.get((facts.host, facts.accelerator), frozenset())
    versions = sorted(version for version in shipped if version)
    if facts.accelerator != CUDA:
        archs = [wish.value for wish in moved.of(f"{facts.accelerator}-archs")]
        comment = f"# those that torch {newest.version} has"
        yield f"    {facts.accelerator}: [{', '.join(quote_names(map(str, versions)))}] {comment}"
        yield from [f"    archs: [{', '.join(quote_names(archs))}]"] * bool(archs)
        return
    archs = [wish.value for wish in moved.of("archs")]
    told = [CudaArch.parse(arch) for arch in archs or ARCHS]
    able = [version for version in versions if all(map(catalog.cuda[version].knows, told))] or versions
    without = ", ".join(str(version) for version in versions if version not in able)
    comment = f"# those that torch {newest.version} has" + (f", but {without}: not all archs" if without else "")
    yield f"    cuda: [{', '.join(quote_names(map(str, able)))}] {comment}"
    choose = "" if archs else " # choose: no TORCH_CUDA_ARCH_LIST was found"
    yield f"    archs: [{', '.join(quote_names(archs or ARCHS))}]{choose}"


def _variables(wishes: Iterable[SettingWish]) -> list[str]:
    """Return a line for each variable; of two values the later one wins, as in a shell."""
    pairs = ((wish.value.partition("="), wish.where) for wish in wishes)
    lines = {name: f"{name}: {json.dumps(value)} {to_comment(where)}" for (name, _, value), where in pairs}
    return list(lines.values())


def _move_build(tree: Tree, moved: Move) -> Iterator[str]:
    for key in ("before", "after"):
        yield from _move_commands(key, moved.of(key), moved)
    shared = [wish for wish in moved.of("env") if moved.is_everywhere(wish)]
    if suffix := _find_line(tree, ("setup.py",), "VERSION_SUFFIX"):  # test-infra's is +cu130 and the like
        shared = [SettingWish("env", "VERSION_SUFFIX=", f"{suffix}: each wheel gets a label of its own", ()), *shared]
    yield from ["env:"] * bool(shared)
    yield from (f"  {line}" for line in _variables(shared))
    for key, name in (("max-jobs", "max-jobs"), ("timeout", "timeout-minutes")):
        longest = max(moved.of(key), key=lambda wish: int(wish.value), default=None)
        if longest:
            yield f"{name}: {longest.value} {to_comment(longest.where)}"


def _move_validation(moved: Move, catalog: Catalog) -> Iterator[str]:
    imports = [wish.value for wish in moved.of("import")]
    if imports or moved.of("command"):
        yield f'torch: "{test_infra.newest(catalog).patch}" # test-infra installs torch before the wheel'
    if imports:
        yield f"imports: [{', '.join(map(to_scalar, imports))}]"
    yield from _move_commands("commands", moved.of("command"), moved)


def _move_commands(key: str, wishes: Sequence[SettingWish], moved: Move) -> Iterator[str]:
    """Yield a key with the commands that are for every platform, and the others as comments."""
    everywhere = [wish for wish in wishes if moved.is_everywhere(wish)]
    yield from [f"{key}:"] * bool(everywhere)  # the key, if anything is below it
    yield from (f"  - {to_scalar(wish.value)} {to_comment(wish.where)}" for wish in everywhere)
    for wish in (wish for wish in wishes if wish not in everywhere):
        yield to_comment(f"{key}: {wish.value} ({wish.where}; it was only for {', '.join(wish.platforms)})")


def _move_publish(moved: Move) -> Iterator[str]:
    for key in ("pypi", "pypi-cuda"):
        for wish in moved.of(key)[:1]:
            yield f"{key}: {to_scalar(wish.value)} {to_comment(wish.where)}"


REFS = frozenset({"branches", "tags"})  # if only one is named, pushes of the other are filtered out


def join_triggers(triggers: Iterable[Any], replaced: Iterable[str]) -> Any:  # noqa: ANN401 - YAML
    """Return the events that start any of several workflows, with ours in place of the files that it replaces."""
    return _rename_workflows(merge_triggers(triggers), {f".github/workflows/{name}" for name in replaced})


def merge_triggers(triggers: Iterable[Any]) -> dict[str, Any]:
    """Return the events that start any of several workflows; filters that differ are merged to admit both."""
    events: dict[str, Any] = {}
    for each in triggers:
        for event, filters in _events(each).items():
            events[event] = _either(events[event], filters) if event in events else filters
    return events


def _events(triggers: Any) -> Mapping[str, Any]:  # noqa: ANN401 - YAML
    if isinstance(triggers, dict):
        return triggers
    return dict.fromkeys([triggers] if isinstance(triggers, str) else triggers or ())  # on: push, or on: [push, …]


def _either(one: Any, other: Any) -> Any:  # noqa: ANN401 - YAML
    """Return filters that admit whatever either of two admits; None admits everything."""
    if isinstance(one, list) and isinstance(other, list):
        return [*one, *(item for item in other if item not in one)]
    if not isinstance(one, dict) or not isinstance(other, dict):
        return None
    both = {key: _either(one[key], other[key]) for key in one if key in other and one[key] != other[key]}
    same = {key: value for key, value in one.items() if other.get(key) == value}
    # Both lists of `paths-ignore` together would admit less than either.
    widened = {key: value for key, value in both.items() if value is not None and not key.endswith("-ignore")}
    found = {**same, **widened}
    if one.keys() & REFS and other.keys() & REFS:
        found |= {key: _either(one.get(key, []), other.get(key, [])) for key in (one | other).keys() & REFS}
    else:
        found = {key: value for key, value in found.items() if key not in REFS}
    return found or None


def _rename_workflows(value: Any, replaced: set[str]) -> Any:  # noqa: ANN401 - YAML
    """Return filters with this workflow in place of those that it replaces, without duplicates."""
    if isinstance(value, dict):
        return {key: _rename_workflows(inner, replaced) for key, inner in value.items()}
    if isinstance(value, list) and replaced.intersection(item for item in value if isinstance(item, str)):
        return list(dict.fromkeys(PLACE if item in replaced else item for item in value))
    return value
