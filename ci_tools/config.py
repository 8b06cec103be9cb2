"""From `fatwheel.yml` to a request: YAML, JSON Schema, then what only the catalog knows. All mistakes at once."""

from __future__ import annotations

import functools
import json
import re
import shlex
import string
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version
from pathspec import GitIgnoreSpec

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
    from collections.abc import Iterable, Iterator, Mapping

    from ci_tools.catalog import Catalog, Cuda
    from ci_tools.yamlfile import Document, Keys

__all__ = ["DEFAULT_NAME", "SCHEMA", "load"]

DEFAULT_NAME = "fatwheel.yml"
SCHEMA = Path(__file__).parent / "schema" / "fatwheel.schema.json"
WHEEL_PLATFORMS = {"linux": ("manylinux", "musllinux", "linux"), "macos": ("macosx",), "windows": ("win",)}
# What auditwheel has a policy for.
LEVELS = (
    *(f"manylinux_2_{minor}" for minor in (5, 12, 17, 24, 26, 27, 28, 31, 34, 35, 36, 37, 38, 39, 40, 41)),
    "musllinux_1_1",
    "musllinux_1_2",
)
TEMPLATE_FIELDS = frozenset({"name", "version"})  # a release is of every Python, torch and CUDA
WITH_SECRET = re.compile(r"https?://[^/]*@", re.IGNORECASE)  # a name alone is often a token
Table = dict[str, Any]


def load(path: Path, catalog: Catalog) -> Request:
    """Read the config at `path` (a file) into a request; raise InputError with every mistake in it."""
    if not path.exists():
        msg = f"there is no {path}, expected a config that says what to build"
        raise InputError(msg, hint="`fatwheel init` writes a starter from what it finds in the source")
    document = yamlfile.read(path, str(path))
    flaws = shape.flaws(document, _schema())
    meaning = _Meaning(document, [flaw.keys for flaw in flaws], catalog, path.parent)
    problems = [*(flaw.problem for flaw in flaws), *meaning.problems()]
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
    """The mistakes a schema cannot see, in those parts of a document whose shape is right."""

    def __init__(self, document: Document, flawed: list[Keys], catalog: Catalog, folder: Path) -> None:
        self.document = document
        self.flawed = flawed
        self.catalog = catalog
        self.folder = folder

    def problems(self) -> Iterator[Problem]:
        yield from self.known(("python",), map(str, self.catalog.pythons), "Python")
        yield from self.torch()
        yield from self.source()
        yield from self.version("version")
        yield from self.version("source", "sdist", "version")
        yield from self.template("release", "tag")
        yield from self.template("release", "title")
        yield from self.validated_torch("validate", "torch")
        yield from self.commands("validate", "commands")
        yield from self.pypi_cuda("publish", "pypi-cuda")
        yield from self.variants("publish", "variants")
        for name in self.get("platforms") or {}:
            yield from self.platform("platforms", name)

    # -- the values whose shape is right

    def get(self, *keys: str | int) -> Any:  # noqa: ANN401 - YAML
        """Return the value at `keys`, None where there is none or one that is flawed."""
        value: Any = self.document.value
        for depth, key in enumerate(keys):
            if keys[:depth] in self.flawed or value is None:
                return None
            value = value[key] if isinstance(key, int) else value.get(key)
        return None if keys in self.flawed else value

    def items(self, *keys: str) -> Iterator[tuple[Keys, str]]:
        """Yield the items of a list, each with its keys."""
        for index in range(len(self.get(*keys) or ())):
            item = self.get(*keys, index)
            if item is not None:
                yield (*keys, index), item

    def at(self, keys: Keys, what: str) -> Problem:
        return Problem(self.document.where(keys), what)

    # -- what the catalog knows

    def known(self, keys: tuple[str, ...], names: Iterable[str], what: str) -> Iterator[Problem]:
        known = list(names)
        for place, name in self.items(*keys):
            if name not in known:
                yield self.at(place, f'there is no {what} "{name}" in the catalog, {nearest(name, known)}')

    def torch(self) -> Iterator[Problem]:
        known = list(map(str, self.catalog.torch))
        if isinstance(self.get("torch"), list):
            yield from self.known(("torch",), known, "torch")
        elif (lowest := self.get("torch", "lowest")) and lowest not in known:
            yield self.at(("torch", "lowest"), f'there is no torch "{lowest}" in the catalog, {nearest(lowest, known)}')

    def platform(self, *keys: str) -> Iterator[Problem]:
        yield from self.globs(*keys, "native")
        yield from self.wheel_platform(*keys)
        known = list(map(str, self.catalog.cuda))
        yield from self.known((*keys, "cuda"), known, "CUDA")
        versions = [name for _, name in self.items(*keys, "cuda") if name in known]
        toolkits = [self.catalog.cuda[Minor.parse(name)] for name in versions]
        for (place, arch), toolkit in product(self.items(*keys, "archs"), toolkits):
            yield from self.arch(place, CudaArch.parse(arch), toolkit)

    def arch(self, keys: Keys, arch: CudaArch, toolkit: Cuda) -> Iterator[Problem]:
        if not toolkit.knows(arch):
            name = f"{arch.capability}{arch.variant}"
            what = f'nvcc of CUDA {toolkit.version} does not know the architecture "{name}"'
            yield self.at(keys, f"{what}, {nearest(name, toolkit.architectures)}")

    def wheel_platform(self, *keys: str) -> Iterator[Problem]:
        if not (wheel_platform := self.get(*keys, "wheel-platform")):
            return
        system = self.catalog.platforms[Platform(keys[-1])].os
        prefixes = WHEEL_PLATFORMS[system]
        if not wheel_platform.startswith(prefixes):
            what = f'"{wheel_platform}" is no wheel platform of {system}, expected one that starts with {prefixes[0]}'
            yield self.at((*keys, "wheel-platform"), what)
        elif "linux_" in wheel_platform and wheel_platform not in LEVELS:
            what = f'there is no wheel platform "{wheel_platform}", {nearest(wheel_platform, LEVELS)}'
            yield self.at((*keys, "wheel-platform"), what)

    def validated_torch(self, *keys: str) -> Iterator[Problem]:
        known = list(map(str, self.catalog.torch))
        if (torch := self.get(*keys)) and ".".join(torch.split(".")[:2]) not in known:
            yield self.at(keys, f'there is no torch "{torch}" in the catalog, {nearest(torch, known)}')

    def pypi_cuda(self, *keys: str) -> Iterator[Problem]:
        if not (cuda := self.get(*keys)):
            return
        asked = {
            name for platform in self.get("platforms") or {} for _, name in self.items("platforms", platform, "cuda")
        }
        if cuda not in asked:
            yield self.at(
                keys, f'no platform asks for CUDA "{cuda}", {nearest(cuda, asked) if asked else "none for any"}'
            )
        if self.get("publish", "pypi") != Route.WHEELS:
            yield self.at(keys, 'wheels go to PyPI by its route "wheels" alone, expected `pypi: wheels` beside it')

    def variants(self, *keys: str) -> Iterator[Problem]:
        platforms = self.get("platforms") or {}
        if self.get(*keys) and not any(self.get("platforms", platform, "cuda") for platform in platforms):
            yield self.at(keys, "variants are made of CUDA wheels, and no platform asks for any CUDA")

    # -- what the source has

    def source(self) -> Iterator[Problem]:
        table = self.get("source") or {}
        yield from self.patterns("source", "include")
        kinds = [kind for kind in ("path", "git", "sdist") if kind in table]
        for kind in kinds[1:]:
            what = f'"{kinds[0]}" and "{kind}" exclude each other, expected one source'
            yield Problem(self.document.where(("source", kind), key=True), what)
        if ("git" in table) != ("ref" in table):
            missing = "ref" if "git" in table else "git"
            yield self.at(("source",), f'the key "{missing}" is missing: a git source has both "git" and "ref"')
        if WITH_SECRET.match(self.get("source", "git") or ""):
            yield self.at(("source", "git"), "the address holds a secret, expected git's credential helper to know it")
        if kinds in ([], ["path"]) and ("source", "path") not in self.flawed:
            yield from self.folder_of(self.get("source", "path") or ".", self.get("source", "subdirectory") or ".")

    def folder_of(self, path: str, subdirectory: str) -> Iterator[Problem]:
        root = self.folder / path
        if not root.is_dir():
            yield self.at(("source", "path"), f'the source "{path}" is not there, expected a folder')
        elif not (root / subdirectory).is_dir():
            yield self.at(("source", "subdirectory"), f'the source has no folder "{subdirectory}"')
        if (constraints := self.get("build", "constraints")) and not (root / constraints).is_file():
            yield self.at(("build", "constraints"), f'the source has no file "{constraints}"')

    def globs(self, *keys: str) -> Iterator[Problem]:
        if not isinstance(self.get(*keys), dict):
            yield from self.patterns(*keys)
            return
        yield from self.patterns(*keys, "include")
        yield from self.patterns(*keys, "exclude")
        included = {pattern for _, pattern in self.items(*keys, "include")}
        for place, pattern in self.items(*keys, "exclude"):
            if pattern in included:
                what = f'the pattern "{pattern}" is both included and excluded, expected it on one side'
                yield self.at(place, what)

    def patterns(self, *keys: str) -> Iterator[Problem]:
        for place, pattern in self.items(*keys):
            if not _is_pattern(pattern):
                yield self.at(place, f'"{pattern}" is no path pattern, expected one such as kernels/**/*.cu')

    # -- what has to be well formed

    def version(self, *keys: str) -> Iterator[Problem]:
        version = self.get(*keys)
        if version is not None and not _is_version(version):
            yield self.at(keys, f'"{version}" is not a version, expected one such as "1.2.3" (PEP 440)')

    def commands(self, *keys: str) -> Iterator[Problem]:
        for place, item in self.items(*keys):
            where = place if isinstance(item, str) else (*place, "run")
            if (command := self.get(*where)) and (wrong := _wrong_command(command)):
                yield self.at(where, wrong)

    def template(self, *keys: str) -> Iterator[Problem]:
        template = self.get(*keys)
        if template is not None and (wrong := _wrong_in(template)):
            yield self.at(keys, wrong)


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _is_pattern(text: str) -> bool:
    """Whether a pattern can match a file; `/` and blanks match none."""
    try:
        return next(iter(GitIgnoreSpec.from_lines([text]).patterns)).include is not None
    except (re.error, ValueError):
        return False


def _wrong_command(text: str) -> str:
    """Return why a text is no command as a shell splits one, or nothing."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        return f"this is no command: {str(error).lower()}, expected one such as python -m demo"
    return "" if words else "this is no command: it is blank, expected one such as python -m demo"


def _wrong_in(template: str) -> str:
    """Return what is wrong with a release template, or nothing."""
    try:
        fields = [(name, spec, how) for _, name, spec, how in string.Formatter().parse(template) if name is not None]
    except ValueError as error:
        return f"this is no template: {error}, expected text such as v{{version}}"
    if any(spec or how for _, spec, how in fields):
        return "this is no template: its fields cannot be formatted, expected text such as v{version}"
    unknown = sorted({name for name, _, _ in fields} - TEMPLATE_FIELDS)
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
        required=table.get("required", False),
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
    cuda = table.get("pypi-cuda")
    return Publish(
        pypi=Route(table.get("pypi", "none")),
        pypi_cuda=Minor.parse(cuda) if cuda else None,
        targets=tuple(table.get("targets", ())),
        variants=table.get("variants", False),
    )
