"""Loads `fatwheel.yml` into a request: YAML, JSON Schema, catalog checks; reports all mistakes at once."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ci_tools import catalog as catalogs
from ci_tools.catalog import Catalog, PlatformFacts
from ci_tools.catalog.config_keys import add_platforms
from ci_tools.config import include, project_catalog, release_names
from ci_tools.config.location import read_document
from ci_tools.config.mistakes import find_mistakes, list_labels
from ci_tools.config.native import resolve_native, spell_native
from ci_tools.config.torch_axis import expand_torch, find_asked, read_accelerators, read_torch
from ci_tools.errors import Problem, RejectedInput
from ci_tools.formats import json_file
from ci_tools.formats import schema as shape
from ci_tools.formats.schema import SchemaFlaw
from ci_tools.formats.yaml_file import Document, Keys, YamlPlace
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import sha256_of
from ci_tools.model.platforms import AcceleratorKind, Platform
from ci_tools.model.request import (
    Build,
    BuildTorch,
    Care,
    CatalogRow,
    Command,
    Drop,
    Enabled,
    GitSource,
    Globs,
    GpuTrial,
    Hook,
    Patch,
    PathSource,
    PlatformRequest,
    Publish,
    Request,
    Route,
    SdistSource,
    ToolchainKind,
    Unsupported,
    Validation,
)
from ci_tools.model.versions import CudaArch, Minor, Python

SCHEMA = Path(__file__).with_name("fatwheel.schema.json")
NO_CONTAINER = "none"
UNKNOWN = " in the catalog, "  # of a version that a config names and the catalog lacks
# Settings of a platform that default to those of `build`.
OLDEST_MACOS = "MACOSX_DEPLOYMENT_TARGET"
SHARED = ("free-disk", "swap-gib", "job-memory-gib", "timeout-minutes")
Table = dict[str, Any]


def load(
    path: Path,
    catalog: Catalog,
    recorded: tuple[CatalogRow, ...] | None = None,
    *,
    outside: Outside | None = None,
    nightly: str | None = None,
    needs_nightly: bool = True,
) -> Request:
    """Load the config file at `path` into a request; raise InputError with every mistake in it.

    The project's own rows are merged over `catalog`; `recorded` are those that a plan has, which count where the
    project's file is not on this machine. `archs: native` stands for the GPUs of the machine `outside`. `nightly` is
    the torch nightly that a run asks for instead of the config; a request that asks for one needs its row, unless that
    is what is being looked for.
    """
    folder = path.parent
    document, flaws = include.resolve_includes(read_document(path, str(path)), folder)
    if isinstance(document.value, dict):
        document = document._replace(value=resolve_native(document.value, document.name, outside))
    document, unread = project_catalog.resolve_catalog(document, folder, recorded=recorded is not None)
    flaws += unread
    flaws = _add_flaws(document, flaws)
    document, wrong = release_names.resolve_version(release_names.resolve_names(document))
    flaws += wrong
    rows, problems = recorded or (), [flaw.problem for flaw in flaws]
    is_readable = not any(flaw.keys[:1] in {(), (project_catalog.KEY,)} for flaw in flaws)  # (): the whole document
    if is_readable and project_catalog.KEY in document.value:  # type: ignore[operator]  # checked by the schema
        asked = nightly or find_asked(document.value.get("torch"))  # type: ignore[union-attr]  # checked by the schema
        added = project_catalog.read_rows(document, functools.partial(_name_place, document, path), asked)
        rows, contradictions = added.rows, list(added.find_problems(document, catalog))
        problems += contradictions
        is_readable = not contradictions
    if is_readable:  # or else every version in it would be a mistake as well
        catalog = catalog.extend(rows)
        left_out = [flaw.keys for flaw in flaws]
        document, in_vain = expand_torch(document, left_out, catalog, needs_nightly=needs_nightly)
        problems += find_mistakes(document, left_out, catalog, folder)
        problems = problems or [*in_vain]  # a CUDA that does not exist has no torch either
    if problems:
        problems.sort(key=lambda problem: _sort_key(problem, document.name))
        is_unknown = any(UNKNOWN in problem.what for problem in problems)
        hint = "`fatwheel catalog update` adds what is newer than Fatwheel" if is_unknown else ""
        raise RejectedInput(problems, hint=hint, page=f"{'how-to/use-a-new-torch' if hint else 'reference/config'}.md")
    return _request(document, catalog, path, rows)


def refuse_misshapen(path: Path) -> None:
    """Raise RejectedInput with every value of a config that has a wrong form; whether they agree is not looked at."""
    document, flaws = include.resolve_includes(read_document(path, str(path)), path.parent)
    if isinstance(document.value, dict):
        document = document._replace(value=spell_native(document.value))
    if flaws := _add_flaws(document, flaws):
        problems = sorted((flaw.problem for flaw in flaws), key=lambda problem: _sort_key(problem, document.name))
        raise RejectedInput(problems, page="reference/config.md")


def _add_flaws(document: Document, flaws: Sequence[SchemaFlaw]) -> list[SchemaFlaw]:
    """Return some flaws with those of a document's shape, but for the parts that the first ones left out."""
    left_out = [flaw.keys for flaw in flaws]
    return [*flaws, *(one for one in shape.flaws(document, read_schema()) if one.keys[:2] not in left_out)]


def check_rows(rows: Sequence[CatalogRow], where: str) -> None:
    """Raise RejectedInput if the rows of a plan, whose file is `where`, are not what a catalog may have."""
    tables: Table = {}
    for row in rows:
        said = row.name if row.table == "python" else {**json_file.parse(row.content), "version": row.name}
        tables.setdefault(row.table, {}).setdefault(project_catalog.list_of(row), []).append(said)
    schema = read_schema()
    found = shape.flaws(Document(where, tables, {}, {}), {**schema["$defs"]["catalog"], "$defs": schema["$defs"]})
    if found:
        raise RejectedInput(Problem(where, f"a row of the catalog: {flaw.problem.what}") for flaw in found)


@functools.cache
def read_schema() -> Table:
    """Return the schema of a config, with the platforms and accelerators of the catalog."""
    schema: Table = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return add_platforms(schema, catalogs.load().platforms)


def _sort_key(problem: Problem, first: str) -> tuple[bool, str, int, int]:
    """Return the sort key of a problem: the file `first` comes first, then each other file, by line."""
    file, line, column = problem.where.rsplit(":", 2)  # a Windows path has a colon of its own
    return file != first, file, int(line), int(column)


# ---------------------------------------------------------------- the request


def _request(document: Document, catalog: Catalog, path: Path, rows: tuple[CatalogRow, ...]) -> Request:
    root: Table = document.value  # type: ignore[assignment]  # checked by the schema
    source = root.get("source") or {}
    config = _name_in_source(path, path.parent, source)
    shared = {key: value for key, value in (root.get("build") or {}).items() if key in SHARED}
    shared |= {"owner": root["owner"]} if "owner" in root else {}
    everywhere = (root.get("build") or {}).get("env") or {}
    shared |= {OLDEST_MACOS: everywhere[OLDEST_MACOS]} if OLDEST_MACOS in everywhere else {}
    patches = (
        Patch(table["file"], table["reason"], where, _hash(path.parent / table["file"]))
        for table, where in _items(document, config, "source", "patches")
    )
    return Request(
        name=root["package"],
        config=config,
        source=_source(source, root.get("version", "")),
        patches=tuple(patches),
        subdirectory=source.get("subdirectory", ""),
        include=tuple(source["include"]) if "include" in source else None,
        version=root.get("version"),
        pythons=tuple(sorted(map(Python.parse, root["python"]))),
        torch=read_torch(root),
        platforms=tuple(
            _platform(Platform(name), {**shared, **(table or {})}, _where(document, name, path.parent, source), catalog)
            for name, table in root["platforms"].items()
        ),
        build=_build(root.get("build") or {}, document, config, catalog),
        validate=_validation(root.get("validate") or {}),
        publish=_publish(root.get("publish") or {}),
        release=release_names.read_release(root, catalog),
        unsupported=read_unsupported(document, config),
        catalog=rows,
    )


def _where(document: Document, platform: str, folder: Path, source: Table) -> str:
    """Return the file and line of a platform: of its key, or of the table in the file that it includes."""
    place = document.values["platforms", platform]  # where an included file begins
    if place.file == document.name:
        place = document.keys["platforms", platform]
    return f"{_name_in_source(Path(place.file), folder, source)}:{place.line}"


def _name_place(document: Document, path: Path, place: YamlPlace) -> str:
    """Return the file and line of a row of the project's catalog."""
    source = document.value.get("source") or {}  # type: ignore[union-attr]  # checked by the schema
    return f"{_name_in_source(Path(place.file), path.parent, source)}:{place.line}"  # type: ignore[arg-type]


def _name_in_source(path: Path, folder: Path, source: Table) -> str:
    """Return a path relative to the source root, else to the config's folder, so that all checkouts plan the same."""
    root = (folder / source.get("path", ".")).resolve()
    full = path.resolve()
    return full.relative_to(root).as_posix() if full.is_relative_to(root) else path.relative_to(folder).as_posix()


def _source(table: Table, version: str) -> PathSource | GitSource | SdistSource:
    if "git" in table:
        return GitSource(url=table["git"], ref=table["ref"].replace("{version}", version))
    if "sdist" in table:
        return SdistSource(**table["sdist"])
    return PathSource(path=table.get("path", "."))


def _platform(platform: Platform, table: Table, where: str, catalog: Catalog) -> PlatformRequest:
    facts = catalog.platforms[platform]
    return PlatformRequest(
        platform=platform,
        where=where,
        enabled=Enabled(str(table.get("enabled", "auto")).lower()),  # YAML's true and false are bools here
        owner=table.get("owner"),
        required=table.get("required", False),
        own_workflow=table.get("own-workflow", False),
        native=_globs(table.get("native")),
        accelerators=read_accelerators(facts.accelerator, table),
        archs=_archs(facts.accelerator, table, catalog),
        one_per_major=table.get("one-per-major", False),
        wheel_platform=table.get("wheel-platform") or _read_oldest_macos(table, facts) or facts.wheel_platform,
        runner=list_labels(table.get("runner", facts.runner)),
        gpu_runner=list_labels(table["gpu-runner"]) if "gpu-runner" in table else None,
        container=_container(facts, table),
        toolchain=ToolchainKind(table.get("toolchain", "auto")),
        env=(*_env(table.get("env")), *_arch_env(table)),
        care=Care(table.get("free-disk", False), table.get("swap-gib", 0), table.get("job-memory-gib")),
        minutes=table.get("timeout-minutes", catalog.minutes.of(facts)),
    )


def _read_oldest_macos(table: Table, facts: PlatformFacts) -> str:
    """Return the wheel platform of the oldest macOS that a build's variables name; "" if they name none.

    setuptools tags by that variable (`calculate_macosx_platform_tag` in its bdist_wheel), as other backends do.
    """
    said = {**table, **(table.get("env") or {})}.get(OLDEST_MACOS, "")
    named = re.fullmatch(r"(\d\d)(?:\.(\d))?", str(said))
    return f"macosx_{named[1]}_{named[2] or 0}" if named and facts.os == "macos" else ""


def _container(facts: PlatformFacts, table: Table) -> str | None:
    """Return a platform's build image: the one it names, or the catalog's if that has its wheel platform."""
    # An image with another glibc would make wheels of another level.
    is_of_its_level = table.get("wheel-platform", facts.wheel_platform) == facts.wheel_platform
    named = table.get("container", facts.container if is_of_its_level else NO_CONTAINER)
    return None if named == NO_CONTAINER else named


def _archs(kind: AcceleratorKind | None, table: Table, catalog: Catalog) -> tuple[str, ...]:
    """Return the architectures to compile for: those that a platform names, or its accelerator's default."""
    if kind is None:
        return ()
    if named := table.get("archs"):
        return tuple(map(kind.parse_arch, named))
    return kind.choose_archs([catalog.stacks[kind][Minor.parse(name)] for name in table.get(kind, ())])


def _globs(value: list[str] | Table | None) -> Globs:
    if isinstance(value, dict):
        return Globs(tuple(value["include"]), tuple(value.get("exclude", ())))
    return Globs(tuple(value or ()))


def _env(table: Mapping[str, str | int] | None) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in (table or {}).items())


def _arch_env(table: Table) -> tuple[tuple[str, str], ...]:
    """Return the variables that name a platform's architectures in a notation of the project's own."""
    if "arch-env" not in table:
        return ()
    archs = [*map(CudaArch.parse, table.get("archs", ()))]  # the schema has it beside `archs` of CUDA only
    return tuple((name, ";".join(arch.spell(text) for arch in archs)) for name, text in table["arch-env"].items())


def _build(table: Table, document: Document, name: str, catalog: Catalog) -> Build:
    made = {
        "before": _hooks("before", table, document, name),
        "after": _hooks("after", table, document, name),
        "env": _env(table.get("env")),
        "drop": read_drops(table),
        "torch": BuildTorch(table.get("torch", "parts")),
        "timeout_minutes": table.get("timeout-minutes", catalog.minutes.pure),
    }
    return Build(**{**_fields(table, *SHARED), **made})


def _hooks(key: str, table: Table, document: Document, name: str) -> tuple[Hook, ...]:
    lines = (document.values["build", key, index].line for index in range(len(table.get(key, ()))))
    return tuple(Hook(run, f"{name}:{line}") for run, line in zip(table.get(key, ()), lines, strict=True))


def _validation(table: Table) -> Validation:
    commands = (Command(one) if isinstance(one, str) else Command(**_fields(one)) for one in table.get("commands", ()))
    trial = GpuTrial(table.get("gpu", GpuTrial.OPTIONAL))
    return Validation(**_fields(table, "commands", "gpu"), commands=tuple(commands), gpu_trial=trial)


def _publish(table: Table) -> Publish:
    cuda = table.get("pypi-cuda")
    route, cuda = Route(table.get("pypi", "none")), Minor.parse(cuda) if cuda else None
    return Publish(**_fields(table, "pypi", "pypi-cuda"), pypi=route, pypi_cuda=cuda)


def _fields(table: Table, *others: str) -> Table:
    """Return the values of a table that are named as the fields of their class, but for some others."""
    named = {key.replace("-", "_"): value for key, value in table.items() if key not in others}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in named.items()}


def _hash(patch: Path) -> str:
    return sha256_of(patch) if patch.is_file() else ""  # who applies it says that it is missing


def read_unsupported(document: Document, config: str) -> tuple[Unsupported, ...]:
    """Return what a document says that its package cannot do."""
    return tuple(
        Unsupported(
            table["reason"],
            where,
            tuple(map(Python.parse, table.get("python", ()))),
            tuple(map(Minor.parse, table.get("torch", ()))),
            tuple(map(Minor.parse, table.get("cuda", ()))),
        )
        for table, where in _items(document, config, "unsupported")
    )


def read_drops(build: Table) -> tuple[Drop, ...]:
    """Return the requirements that the table `build` drops."""
    return tuple(
        Drop(table["name"], table["reason"], tuple(map(Python.parse, table.get("python", ()))))
        for table in build.get("drop", ())
    )


def _items(document: Document, config: str, *keys: str) -> Iterator[tuple[Table, str]]:
    """Yield the tables of a list, each with the config's name and its line."""
    found: Any = document.value
    for key in keys:
        found = (found or {}).get(key)
    for index, table in enumerate(found or ()):
        place: Keys = (*keys, index)
        yield table, f"{config}:{document.values[place].line}"
