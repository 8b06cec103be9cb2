"""Loads `fatwheel.yml` into a request: YAML, JSON Schema, catalog checks; reports all mistakes at once."""

from __future__ import annotations

import functools
import json
import re
import shlex
import string
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathspec import GitIgnoreSpec

from ci_tools.config import commands as hooks
from ci_tools.config import include
from ci_tools.errors import InputError, Problem, RejectedInput, nearest
from ci_tools.formats import schema as shape
from ci_tools.formats import yaml_file
from ci_tools.machine import runner
from ci_tools.model.pep440 import read_version
from ci_tools.model.platforms import Accelerator, AcceleratorKind, Platform
from ci_tools.model.request import (
    HOSTED_MINUTES,
    Build,
    Care,
    Command,
    Enabled,
    GitSource,
    Globs,
    GpuTrial,
    Hook,
    PathSource,
    PlatformRequest,
    Publish,
    Release,
    Request,
    Route,
    SdistSource,
    ToolchainKind,
    Torch,
    Validation,
)
from ci_tools.model.versions import CudaArch, GfxArch, Minor, Python

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ci_tools.catalog import Catalog, Cuda, PlatformFacts, Rocm
    from ci_tools.formats.yaml_file import Document, Keys

__all__ = ["DEFAULT_NAME", "SCHEMA", "load"]

DEFAULT_NAME = "fatwheel.yml"
SCHEMA = Path(__file__).with_name("fatwheel.schema.json")
WHEEL_PLATFORMS = {"linux": ("manylinux", "musllinux", "linux"), "macos": ("macosx",), "windows": ("win",)}
# The platforms that auditwheel has a policy for.
LEVELS = (
    *(f"manylinux_2_{minor}" for minor in (5, 12, 17, 24, 26, 27, 28, 31, 34, 35, 36, 37, 38, 39, 40, 41)),
    "musllinux_1_1",
    "musllinux_1_2",
)
TEMPLATE_FIELDS = frozenset({"name", "version"})  # not more: a release is for every Python, torch and CUDA
WITH_SECRET = re.compile(r"https?://[^/]*@", re.IGNORECASE)  # even a name without a password: it is often a token
NO_CONTAINER = "none"
# Settings of a platform that default to those of `build`.
SHARED = ("free-disk", "swap-gib", "job-memory-gib", "timeout-minutes")
Table = dict[str, Any]


def load(path: Path, catalog: Catalog) -> Request:
    """Load the config file at `path` into a request; raise InputError with every mistake in it."""
    if not path.exists():
        msg = f"there is no {path}, expected a config that says what to build"
        raise InputError(msg, hint="`fatwheel init` writes a starter from what it finds in the source")
    document, flaws = include.resolve_includes(yaml_file.read(path, str(path)), path.parent)
    left_out = [flaw.keys for flaw in flaws]
    flaws += [flaw for flaw in shape.flaws(document, _schema()) if flaw.keys[:2] not in left_out]
    meaning = _Meaning(document, [flaw.keys for flaw in flaws], catalog, path.parent)
    problems = [*(flaw.problem for flaw in flaws), *meaning.problems()]
    if problems:
        raise RejectedInput(sorted(problems, key=lambda problem: _sort_key(problem, document.name)))
    return _request(document, catalog, path)


@functools.cache
def _schema() -> Table:
    schema: Table = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return schema


def _sort_key(problem: Problem, first: str) -> tuple[bool, str, int, int]:
    """Return the sort key of a problem: the file `first` comes first, then each other file, by line."""
    file, line, column = problem.where.rsplit(":", 2)
    return file != first, file, int(line), int(column)


# ---------------------------------------------------------------- checks with the catalog and the files


class _Meaning:
    """Finds the mistakes that a schema cannot find, in the parts of a document whose shape is right."""

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
        yield from self.validation_torch("validate", "torch")
        yield from self.commands("validate", "commands")
        yield from self.gpu_trial("validate", "gpu")
        yield from self.commands("build", "before")
        yield from self.commands("build", "after")
        yield from self.route("publish", "pypi")
        yield from self.pypi_cuda("publish", "pypi-cuda")
        yield from self.variants("publish", "variants")
        for name in self.get("platforms") or {}:
            yield from self.platform("platforms", name)
        yield from self.timeouts()

    # -- the values whose shape is right

    def get(self, *keys: str | int) -> Any:  # noqa: ANN401 - YAML
        """Return the value at `keys`, or None if it is missing or flawed."""
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

    # -- checks with the catalog

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
        if self.get(*keys, "own-workflow") and self.get(*keys, "required"):
            what = "a release waits for a required platform, which no other workflow can build for it"
            yield self.at((*keys, "own-workflow"), f"{what}: expected `own-workflow` or `required`, not both")
        known = list(map(str, self.catalog.cuda))
        yield from self.known((*keys, "cuda"), known, "CUDA")
        versions = [name for _, name in self.items(*keys, "cuda") if name in known]
        toolkits = [self.catalog.cuda[Minor.parse(name)] for name in versions]
        for (place, arch), toolkit in product(self.items(*keys, "archs"), toolkits):
            yield from self.arch(place, CudaArch.parse(arch), toolkit)
        if keys[-1] == Platform.LINUX_ROCM:
            yield from self.rocm(*keys)

    def arch(self, keys: Keys, arch: CudaArch, toolkit: Cuda) -> Iterator[Problem]:
        if not toolkit.knows(arch):
            name = f"{arch.capability}{arch.variant}"
            what = f'nvcc of CUDA {toolkit.version} does not know the architecture "{name}"'
            yield self.at(keys, f"{what}, {nearest(name, toolkit.architectures)}")

    def rocm(self, *keys: str) -> Iterator[Problem]:
        known = list(map(str, self.catalog.rocm))
        yield from self.known((*keys, "rocm"), known, "ROCm")
        releases = [self.catalog.rocm[Minor.parse(name)] for _, name in self.items(*keys, "rocm") if name in known]
        archs = [(place, GfxArch.parse(text)) for place, text in self.items(*keys, "archs")]
        for (place, arch), release in product(archs, releases):
            yield from self.gfx(place, arch, release)
        for index, (place, arch) in enumerate(archs):
            yield from self.features(place, arch, [earlier for _, earlier in archs[:index]])

    def gfx(self, keys: Keys, arch: GfxArch, release: Rocm) -> Iterator[Problem]:
        if arch.processor not in release.architectures:
            what = f'hipcc of ROCm {release.version} does not know the architecture "{arch.processor}"'
            yield self.at(keys, f"{what}, {nearest(arch.processor, release.architectures)}")

    def features(self, keys: Keys, arch: GfxArch, earlier: Sequence[GfxArch]) -> Iterator[Problem]:
        taken = [name for name, takers in self.catalog.gfx.features.items() if arch.processor in takers]
        if not {*arch.named} <= {*taken} or len({*arch.named}) < len(arch.named):
            expected = f"expected {' or '.join(taken)} once at most" if taken else f"expected {arch.processor} alone"
            yield self.at(keys, f'"{arch}" asks for what {arch.processor} has not, or twice for the same, {expected}')
        for other in earlier:
            if other.processor == arch.processor and (other == arch or other.named != arch.named):
                what = f'"{other}" and "{arch}" cannot be in one library'
                yield self.at(keys, f"{what}, expected each target of {arch.processor} to name the same features")

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

    def validation_torch(self, *keys: str) -> Iterator[Problem]:
        known = list(map(str, self.catalog.torch))
        if (torch := self.get(*keys)) and ".".join(torch.split(".")[:2]) not in known:
            yield self.at(keys, f'there is no torch "{torch}" in the catalog, {nearest(torch, known)}')

    def gpu_trial(self, *keys: str) -> Iterator[Problem]:
        commands: list[Any] = [command for _, command in self.items("validate", "commands")]
        tables = [command for command in commands if isinstance(command, dict)]
        if self.get(*keys) == GpuTrial.REQUIRED and not any(table.get("needs-gpu") for table in tables):
            what = "no command of the validation needs a GPU, so that no trial could be one on a GPU"
            yield self.at(keys, f"{what}, expected one such as `{{ run: python -m demo, needs-gpu: true }}`")

    def route(self, *keys: str) -> Iterator[Problem]:
        if self.get(*keys) == Route.SMART:
            what = '"smart" is not made yet: it would be the sdist alone, which every user would have to build'
            yield self.at(keys, f'{what}, expected "{Route.WHEELS}" or "{Route.NONE}"')

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

    # -- checks with the source

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
        yield from self.scripts(root, "validate", "commands")

    def scripts(self, root: Path, *keys: str) -> Iterator[Problem]:
        for place, command in self.lines(*keys):
            script = "" if _wrong_command(command) else hooks.script_of(command)
            if script and not (root / script).is_file():
                beside = (root / script).parent.glob(f"*{Path(script).suffix}")
                names = sorted(path.relative_to(root).as_posix() for path in beside)
                yield self.at(place, f'this runs "{script}", {hooks.missing(script, root, names)}')

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

    # -- checks of the form

    def version(self, *keys: str) -> Iterator[Problem]:
        version = self.get(*keys)
        if version is not None and read_version(version) is None:
            yield self.at(keys, f'"{version}" is not a version, expected one such as "1.2.3" (PEP 440)')

    def commands(self, *keys: str) -> Iterator[Problem]:
        for place, command in self.lines(*keys):
            if wrong := _wrong_command(command):
                yield self.at(place, wrong)

    def lines(self, *keys: str) -> Iterator[tuple[Keys, str]]:
        """Yield the command lines of a list, each with its keys."""
        for place, item in self.items(*keys):
            where = place if isinstance(item, str) else (*place, "run")
            if command := self.get(*where):
                yield where, command

    def timeouts(self) -> Iterator[Problem]:
        """Yield the timeouts that are longer than a hosted runner's limit, at their place."""
        hosted: dict[Keys, list[str]] = {}
        asked = self.get("platforms") or {}
        for name in (name for name in asked if ("platforms", name) not in self.flawed):
            own: Keys = ("platforms", name, "timeout-minutes")
            keys: Keys = own if self.get(*own) else ("build", "timeout-minutes")
            if (self.get(*keys) or 0) > HOSTED_MINUTES and self.is_hosted(name):
                hosted.setdefault(keys, []).append(name)
        for keys, names in hosted.items():
            what = f"a hosted runner ends a job after {HOSTED_MINUTES} minutes, and builds {', '.join(names)}"
            yield self.at(keys, f"{what}: expected {HOSTED_MINUTES} or less there, or a `runner` of your own")

    def is_hosted(self, name: str) -> bool:
        """Whether a platform is enabled and built by one of GitHub's own runners."""
        labels = self.get("platforms", name, "runner") or self.catalog.platforms[Platform(name)].runner
        return self.get("platforms", name, "enabled") is not False and runner.is_hosted(_labels(labels))

    def template(self, *keys: str) -> Iterator[Problem]:
        template = self.get(*keys)
        if template is not None and (wrong := _wrong_in(template)):
            yield self.at(keys, wrong)


def _is_pattern(text: str) -> bool:
    """Whether a pattern can match a file; `/` and blank text match none."""
    try:
        return next(iter(GitIgnoreSpec.from_lines([text]).patterns)).include is not None
    except (re.error, ValueError):
        return False


def _wrong_command(text: str) -> str:
    """Return why a text is not a valid shell command, or "" if it is."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        return f"this is no command: {str(error).lower()}, expected one such as python -m demo"
    return "" if words else "this is no command: it is blank, expected one such as python -m demo"


def _wrong_in(template: str) -> str:
    """Return the mistake in a release template, or ""."""
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
    root: Table = document.value  # type: ignore[assignment]  # checked by the schema
    source = root.get("source") or {}
    name = _name_in_source(path, path.parent, source)
    shared = {key: value for key, value in (root.get("build") or {}).items() if key in SHARED}
    return Request(
        name=root["package"],
        config=name,
        source=_source(source),
        subdirectory=source.get("subdirectory", ""),
        include=tuple(source["include"]) if "include" in source else None,
        version=root.get("version"),
        pythons=tuple(sorted(map(Python.parse, root["python"]))),
        torch=_torch(root.get("torch")),
        platforms=tuple(
            _platform(
                Platform(platform),
                {**shared, **(table or {})},
                _where(document, platform, path.parent, source),
                catalog,
            )
            for platform, table in root["platforms"].items()
        ),
        build=_build(root.get("build") or {}, document, name, catalog),
        validate=_validation(root.get("validate") or {}),
        publish=_publish(root.get("publish") or {}),
        release=Release(**(root.get("release") or {})),
    )


def _where(document: Document, platform: str, folder: Path, source: Table) -> str:
    """Return the file and line of a platform: of its key, or of the table in the file that it includes."""
    place = document.values["platforms", platform]
    if place.file == document.name:
        place = document.keys["platforms", platform]
    return f"{_name_in_source(Path(place.file), folder, source)}:{place.line}"


def _name_in_source(path: Path, folder: Path, source: Table) -> str:
    """Return a path relative to the source root, else to the config's folder, so that all checkouts plan the same."""
    root = (folder / source.get("path", ".")).resolve()
    full = path.resolve()
    return full.relative_to(root).as_posix() if full.is_relative_to(root) else path.relative_to(folder).as_posix()


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
        owner=table.get("owner"),
        required=table.get("required", False),
        own_workflow=table.get("own-workflow", False),
        native=_globs(table.get("native")),
        accelerators=_accelerators(facts.accelerator, table),
        archs=_archs(facts.accelerator, table, catalog),
        one_per_major=table.get("one-per-major", False),
        wheel_platform=table.get("wheel-platform", facts.wheel_platform),
        runner=_labels(table.get("runner", facts.runner)),
        gpu_runner=_labels(table["gpu-runner"]) if "gpu-runner" in table else None,
        container=_container(facts, table),
        toolchain=ToolchainKind(table.get("toolchain", "auto")),
        env=_env(table.get("env")),
        care=Care(table.get("free-disk", False), table.get("swap-gib", 0), table.get("job-memory-gib")),
        minutes=table.get("timeout-minutes", catalog.minutes.of(facts)),
    )


def _labels(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _container(facts: PlatformFacts, table: Table) -> str | None:
    """Return a platform's build image: the one it names, or the catalog's if that has its wheel platform."""
    is_of_its_level = table.get("wheel-platform", facts.wheel_platform) == facts.wheel_platform
    named = table.get("container", facts.container if is_of_its_level else NO_CONTAINER)
    return None if named == NO_CONTAINER else named


def _archs(kind: AcceleratorKind | None, table: Table, catalog: Catalog) -> tuple[str, ...]:
    """Return the architectures to compile for; for ROCm, by default those of upstream's torch."""
    if kind is not AcceleratorKind.ROCM:
        return tuple(table.get("archs", ()))
    if named := table.get("archs"):
        return tuple(str(GfxArch.parse(text)) for text in named)
    releases = [catalog.rocm[Minor.parse(name)] for name in table.get("rocm", ())]
    first = releases[0].torch if releases else ()
    return tuple(arch for arch in first if all(arch in release.torch for release in releases))


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


def _build(table: Table, document: Document, name: str, catalog: Catalog) -> Build:
    return Build(
        before=_hooks("before", table, document, name),
        after=_hooks("after", table, document, name),
        env=_env(table.get("env")),
        constraints=table.get("constraints"),
        max_jobs=table.get("max-jobs"),
        timeout_minutes=table.get("timeout-minutes", catalog.minutes.pure),
    )


def _hooks(key: str, table: Table, document: Document, name: str) -> tuple[Hook, ...]:
    lines = (document.values["build", key, index].line for index in range(len(table.get(key, ()))))
    return tuple(Hook(run, f"{name}:{line}") for run, line in zip(table.get(key, ()), lines, strict=True))


def _validation(table: Table) -> Validation:
    return Validation(
        torch=table.get("torch"),
        torch_index=table.get("torch-index"),
        imports=tuple(table.get("imports", ())),
        commands=tuple(map(_command, table.get("commands", ()))),
        timeout_seconds=table.get("timeout-seconds", Validation().timeout_seconds),
        gpu_trial=GpuTrial(table.get("gpu", GpuTrial.OPTIONAL)),
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
