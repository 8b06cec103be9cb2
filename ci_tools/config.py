"""From `fatwheel.yml` to a request: YAML, JSON Schema, then what only the catalog knows. All mistakes at once."""

from __future__ import annotations

import functools
import json
import string
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_tools import shape, yamlfile
from ci_tools.errors import InputError, Problem, RejectedInput, nearest
from ci_tools.model import (
    Accelerator,
    AcceleratorKind,
    Build,
    Command,
    CudaArch,
    Enabled,
    GitSource,
    Globs,
    Minor,
    PathSource,
    Platform,
    PlatformRequest,
    Publish,
    Python,
    Release,
    Request,
    Route,
    SdistSource,
    ToolchainKind,
    Torch,
    Validation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_tools.catalog import Catalog, Cuda
    from ci_tools.yamlfile import Document, Keys

__all__ = ["DEFAULT_NAME", "SCHEMA", "load"]

DEFAULT_NAME = "fatwheel.yml"
SCHEMA = Path(__file__).parent / "schema" / "fatwheel.schema.json"
JSON_NAMES = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    int: "a number",
    bool: "true or false",
    type(None): "nothing",
}
TEMPLATE_FIELDS = frozenset({"name", "version", "python", "torch", "cuda"})
Table = dict[str, Any]


def load(path: Path, catalog: Catalog) -> Request:
    """Read the config at `path` (a file) into a request; raise InputError with every mistake in it."""
    if not path.exists():
        msg = f"there is no {path}, expected a config that says what to build"
        raise InputError(msg, hint="`fatwheel init` writes a starter from what it finds in the source")
    document = yamlfile.read(path, str(path))
    problems = shape.problems(document, _schema()) or list(_Meaning(document, catalog, path.parent).problems())
    if problems:
        raise RejectedInput(sorted(problems, key=_by_place))
    return _request(document, catalog, path)


@functools.cache
def _schema() -> Table:
    schema: Table = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return schema


def _by_place(problem: Problem) -> tuple[int, ...]:
    return tuple(int(part) for part in problem.where.rsplit(":", 2)[1:])


# ---------------------------------------------------------------- the meaning: catalog and files


class _Meaning:
    """The mistakes a schema cannot see, in a document whose shape is right."""

    def __init__(self, document: Document, catalog: Catalog, folder: Path) -> None:
        self.document = document
        self.catalog = catalog
        self.folder = folder
        self.root: Table = document.value  # type: ignore[assignment]  # the schema has shown it

    def problems(self) -> Iterator[Problem]:
        yield from self.known(("python",), self.root["python"], list(map(str, self.catalog.pythons)), "Python")
        yield from self.torch()
        yield from self.source()
        yield from self.templates()
        for name, table in self.root["platforms"].items():
            yield from self.platform(("platforms", name), table or {})

    def at(self, keys: Keys, what: str) -> Problem:
        return Problem(self.document.where(keys), what)

    def known(self, keys: Keys, names: list[str], known: list[str], what: str) -> Iterator[Problem]:
        for index, name in enumerate(names):
            if name not in known:
                yield self.at((*keys, index), f'there is no {what} "{name}" in the catalog, {nearest(name, known)}')

    def torch(self) -> Iterator[Problem]:
        known = list(map(str, self.catalog.torch))
        table = self.root.get("torch")
        if isinstance(table, list):
            yield from self.known(("torch",), table, known, "torch")
        elif table and table["lowest"] not in known:
            lowest = table["lowest"]
            yield self.at(("torch", "lowest"), f'there is no torch "{lowest}" in the catalog, {nearest(lowest, known)}')

    def source(self) -> Iterator[Problem]:
        table = self.root.get("source") or {}
        kinds = [kind for kind in ("path", "git", "sdist") if kind in table]
        if len(kinds) > 1:
            yield self.at(
                ("source", kinds[1]), f'"{kinds[0]}" and "{kinds[1]}" exclude each other, expected one source'
            )
        if ("git" in table) != ("ref" in table):
            missing = "ref" if "git" in table else "git"
            yield self.at(("source",), f'the key "{missing}" is missing: a git source has both "git" and "ref"')
        if kinds in ([], ["path"]):
            yield from self.folder_of(table)

    def folder_of(self, table: Table) -> Iterator[Problem]:
        root = self.folder / table.get("path", ".")
        if not root.is_dir():
            yield self.at(("source", "path"), f'the source "{root}" is not there, expected a folder')
        elif not (root / table.get("subdirectory", ".")).is_dir():
            yield self.at(("source", "subdirectory"), f'the source has no folder "{table["subdirectory"]}"')

    def templates(self) -> Iterator[Problem]:
        for key, template in (self.root.get("release") or {}).items():
            wrong = _wrong_in(template)
            if wrong:
                yield self.at(("release", key), wrong)

    def platform(self, keys: Keys, table: Table) -> Iterator[Problem]:
        yield from self.globs((*keys, "native"), table.get("native"))
        if "cuda" not in table:
            return
        known = list(map(str, self.catalog.cuda))
        yield from self.known((*keys, "cuda"), table["cuda"], known, "CUDA")
        toolkits = [self.catalog.cuda[Minor.parse(name)] for name in table["cuda"] if name in known]
        for (index, arch), toolkit in product(enumerate(table["archs"]), toolkits):
            yield from self.arch((*keys, "archs", index), CudaArch.parse(arch), toolkit)

    def arch(self, keys: Keys, arch: CudaArch, toolkit: Cuda) -> Iterator[Problem]:
        if not toolkit.knows(arch):
            name = f"{arch.capability}{arch.variant}"
            what = f'nvcc of CUDA {toolkit.version} does not know the architecture "{name}"'
            yield self.at(keys, f"{what}, {nearest(name, toolkit.architectures)}")

    def globs(self, keys: Keys, native: list[str] | Table | None) -> Iterator[Problem]:
        if not isinstance(native, dict):
            return
        for index, pattern in enumerate(native.get("exclude", ())):
            if pattern in native["include"]:
                what = f'the pattern "{pattern}" is both included and excluded, expected it on one side'
                yield self.at((*keys, "exclude", index), what)


def _wrong_in(template: str) -> str:
    """Return what is wrong with a release template, or nothing."""
    try:
        names = {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
    except ValueError as error:
        return f"this is no template: {error}, expected text such as v{{version}}"
    unknown = sorted(names - TEMPLATE_FIELDS)
    return f'the template names "{{{unknown[0]}}}", {nearest(unknown[0], TEMPLATE_FIELDS)}' if unknown else ""


# ---------------------------------------------------------------- the request


def _request(document: Document, catalog: Catalog, path: Path) -> Request:
    root: Table = document.value  # type: ignore[assignment]  # the schema has shown it
    source = root.get("source") or {}
    name = _name_in_source(path, source)
    return Request(
        name=root["package"],
        config=name,
        source=_source(source),
        subdirectory=source.get("subdirectory", ""),
        include=tuple(source.get("include", ())),
        version=root.get("version", ""),
        pythons=tuple(sorted(map(Python.parse, root["python"]))),
        torch=_torch(root.get("torch")),
        platforms=tuple(
            _platform(Platform(platform), table or {}, f"{name}:{document.keys['platforms', platform][0]}", catalog)
            for platform, table in root["platforms"].items()
        ),
        build=_build(root.get("build") or {}),
        validate=_validation(root.get("validate") or {}),
        publish=_publish(root.get("publish") or {}),
        release=Release(**(root.get("release") or {})),
    )


def _name_in_source(path: Path, source: Table) -> str:
    """Return the config's path below the source root, so that two checkouts make the same plan; else its name."""
    root = (path.parent / source.get("path", ".")).resolve()
    full = path.resolve()
    return full.relative_to(root).as_posix() if full.is_relative_to(root) else path.name


def _source(table: Table) -> PathSource | GitSource | SdistSource:
    if "git" in table:
        return GitSource(url=table["git"], ref=table["ref"])
    if "sdist" in table:
        return SdistSource(**table["sdist"])
    return PathSource(path=table.get("path", "."))


def _torch(value: Table | list[str] | None) -> Torch | None:
    if value is None:
        return None
    if isinstance(value, list):
        return Torch(versions=tuple(sorted(map(Minor.parse, value))))
    return Torch(lowest=Minor.parse(value["lowest"]))


def _platform(platform: Platform, table: Table, where: str, catalog: Catalog) -> PlatformRequest:
    facts = catalog.platforms[platform]
    return PlatformRequest(
        platform=platform,
        where=where,
        enabled=Enabled(str(table.get("enabled", "auto")).lower()),
        owner=table.get("owner", ""),
        native=_globs(table.get("native")),
        accelerators=_accelerators(facts.accelerator, table),
        archs=tuple(table.get("archs", ())),
        one_per_major=table.get("one-per-major", False),
        wheel_platform=table.get("wheel-platform", facts.wheel_platform),
        runner=table.get("runner", facts.runner),
        toolchain=ToolchainKind(table.get("toolchain", "auto")),
        env=_env(table.get("env")),
    )


def _accelerators(kind: AcceleratorKind | None, table: Table) -> tuple[Accelerator, ...]:
    if kind is None:
        return ()
    versions = sorted(map(Minor.parse, table.get(kind.value, ())))
    return tuple(Accelerator(kind, version) for version in versions) or (Accelerator(kind),)


def _globs(value: list[str] | Table | None) -> Globs:
    if isinstance(value, dict):
        return Globs(tuple(value["include"]), tuple(value.get("exclude", ())))
    return Globs(tuple(value or ()))


def _env(table: Mapping[str, str | int] | None) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in (table or {}).items())


def _build(table: Table) -> Build:
    return Build(
        env=_env(table.get("env")),
        constraints=table.get("constraints", ""),
        max_jobs=table.get("max-jobs", 0),
        timeout_minutes=table.get("timeout-minutes", Build().timeout_minutes),
    )


def _validation(table: Table) -> Validation:
    return Validation(
        torch=table.get("torch", ""),
        torch_index=table.get("torch-index", ""),
        imports=tuple(table.get("imports", ())),
        commands=tuple(map(_command, table.get("commands", ()))),
        timeout_seconds=table.get("timeout-seconds", Validation().timeout_seconds),
    )


def _command(value: str | Table) -> Command:
    if isinstance(value, str):
        return Command(run=value)
    return Command(run=value["run"], needs_gpu=value.get("needs-gpu", False))


def _publish(table: Table) -> Publish:
    return Publish(pypi=Route(table.get("pypi", "none")), targets=tuple(table.get("targets", ())))
