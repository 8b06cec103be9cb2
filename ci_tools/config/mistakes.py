"""Finds the mistakes in a config that its schema cannot find: with the catalog, the source and the other keys."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_tools.addresses import redact
from ci_tools.catalog import Catalog
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.runner_labels import runner_labels
from ci_tools.config import commands as hooks
from ci_tools.config import release_names
from ci_tools.config.torch_axis import explain_unproven
from ci_tools.errors import Problem, nearest
from ci_tools.formats.path_patterns import is_pattern
from ci_tools.model.edition import ALIAS_FIELDS, FIELDS
from ci_tools.model.platforms import AcceleratorKind, Platform
from ci_tools.model.request import HOSTED_MINUTES, SELF_HOSTED, GpuTrial, Route, ToolchainKind
from ci_tools.model.versions import Minor, is_of_index, read_version

if TYPE_CHECKING:
    from ci_tools.formats.yaml_file import Document, Keys

WHEEL_PLATFORMS = {"linux": ("manylinux", "musllinux", "linux"), "macos": ("macosx",), "windows": ("win",)}
# The platforms that auditwheel has a policy for.
LEVELS = (
    *(f"manylinux_2_{minor}" for minor in (5, 12, 17, 24, 26, 27, 28, 31, 34, 35, 36, 37, 38, 39, 40, 41)),
    "musllinux_1_1",
    "musllinux_1_2",
)
WHAT = {"python": "Python", "torch": "torch", "cuda": "CUDA"}


def find_mistakes(document: Document, flawed: list[Keys], catalog: Catalog, folder: Path) -> Iterator[Problem]:
    """Yield the mistakes in a document whose config is in `folder`, except in the parts whose shape is flawed."""
    return _Meaning(document, flawed, catalog, folder).problems()


class _Meaning:
    """Finds the mistakes that a schema cannot find, in the parts of a document whose shape is right."""

    def __init__(self, document: Document, flawed: list[Keys], catalog: Catalog, folder: Path) -> None:
        self.document = document
        self.flawed = frozenset(flawed)
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
        yield from self.wheel_template("release", "local", fields=release_names.LOCAL_FIELDS)
        yield from self.wheel_template("release", "alias", fields=ALIAS_FIELDS)
        yield from self.deviations()
        yield from self.validation_torch("validate", "torch")
        yield from self.commands("validate", "commands")
        yield from self.gpu_trial("validate", "gpu")
        yield from self.requirements("validate", "requires")
        yield from self.commands("build", "before")
        yield from self.commands("build", "after")
        yield from self.requirements("build", "requires")
        yield from self.shims("build", "shims")
        yield from self.pypi_cuda("publish", "pypi-cuda")
        yield from self.variants("publish", "variants")
        yield from self.targets("publish", "targets")
        for name in self.get("platforms") or {}:
            yield from self.platform("platforms", name)
        yield from self.timeouts()

    # -- the values whose shape is right

    def get(self, *keys: str | int) -> Any:  # noqa: ANN401 - YAML
        """Return the value at `keys`, or None if it is missing or flawed."""
        value: Any = self.document.value
        for depth, key in enumerate(keys):
            if keys[:depth] in self.flawed or value is None:  # below a flaw nothing has a known form
                return None
            value = value[key] if isinstance(key, int) else value.get(key)
        return None if keys in self.flawed else value

    def items(self, *keys: str | int) -> Iterator[tuple[Keys, str]]:
        """Yield the items of a list, each with its keys."""
        for index in range(len(self.get(*keys) or ())):
            item = self.get(*keys, index)
            if item is not None:
                yield (*keys, index), item

    def at(self, keys: Keys, what: str) -> Problem:
        return Problem(self.document.where(keys), what)

    # -- checks with the catalog

    def known(self, keys: Keys, names: Iterable[str], what: str) -> Iterator[Problem]:
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

    def shims(self, *keys: str) -> Iterator[Problem]:
        """Yield the torches of a config that a shim is not proven for."""
        asked, known = self.get("torch") or {}, list(map(str, self.catalog.torch))
        if isinstance(asked, dict):
            asked = known[known.index(lowest) :] if (lowest := asked.get("lowest", known[0])) in known else []
        for place, name in self.items(*keys):
            if what := explain_unproven(name, asked):
                yield self.at(place, what)

    def platform(self, *keys: str) -> Iterator[Problem]:
        yield from self.globs(*keys, "native")
        yield from self.wheel_platform(*keys)
        if self.get(*keys, "own-workflow") and self.get(*keys, "required"):
            what = "a release waits for a required platform, which no other workflow can build for it"
            yield self.at((*keys, "own-workflow"), f"{what}: expected `own-workflow` or `required`, not both")
        yield from self.labels(*keys, "runner")
        facts = {str(name): facts for name, facts in self.catalog.platforms.items()}.get(keys[-1])  # None: misspelt
        if facts and facts.accelerator:
            yield from self.accelerator(facts.accelerator, *keys)
        if self.get(*keys, "toolchain") == ToolchainKind.REDIST:
            yield from self.archives(*keys)

    def labels(self, *keys: str) -> Iterator[Problem]:
        """Yield the labels of a runner that GitHub has switched off, or that are misspelt."""
        labels = list_labels(self.get(*keys) or [])
        known = runner_labels().extend(self.get("catalog", "runners") or {})
        for label in labels if SELF_HOSTED not in labels else ():
            if row := known.find_gone(label, dt.datetime.now(dt.timezone.utc).date()):
                what = f"GitHub switched the runner {label} off on {row['day']} ({row['source']})"
                yield self.at(keys, f"{what}, expected one such as {row['instead']}")
            elif correction := known.correct(label):
                yield self.at(keys, f'none of GitHub\'s runners has the label "{label}", {correction}')

    def accelerator(self, kind: AcceleratorKind, *keys: str) -> Iterator[Problem]:
        known = {str(version): release for version, release in self.catalog.stacks[kind].items()}
        yield from self.known((*keys, kind), known, kind.named)
        releases = [known[name] for _, name in self.items(*keys, kind) if name in known]  # others are wrong already
        archs = list(self.items(*keys, "archs"))
        for number, what in kind.find_arch_mistakes([text for _, text in archs], releases):
            yield self.at(archs[number][0], what)
        if kind.unfetched and self.get(*keys, "toolchain") == ToolchainKind.PYPI:
            yield self.at((*keys, "toolchain"), f"{kind.unfetched}: expected `toolchain: system` or no such key")

    def archives(self, *keys: str) -> Iterator[Problem]:
        """Yield the versions of CUDA whose archives by NVIDIA the catalog does not know."""
        facts = self.catalog.platforms[Platform(keys[-1])]
        if facts.accelerator != CUDA or facts.os != "linux":
            what = "NVIDIA's archives are fetched for CUDA on Linux"
            yield self.at((*keys, "toolchain"), f"{what}, expected `toolchain: system` for {keys[-1]}")
            return
        known = [str(version) for version, cuda in self.catalog.cuda.items() if cuda.redist]
        for place, name in self.items(*keys, "cuda"):
            if name not in known and Minor.parse(name) in self.catalog.cuda:
                what = f"the catalog has no archives of CUDA {name} by NVIDIA"
                yield self.at(place, f"{what} (`toolchain: redist`), {nearest(name, known)}")

    def wheel_platform(self, *keys: str) -> Iterator[Problem]:
        if not (wheel_platform := self.get(*keys, "wheel-platform")):
            return
        system = self.catalog.platforms[Platform(keys[-1])].os
        prefixes = WHEEL_PLATFORMS[system]
        if not wheel_platform.startswith(prefixes):
            what = f'"{wheel_platform}" is not a wheel platform of {system}'
            yield self.at((*keys, "wheel-platform"), f"{what}, expected one that starts with {prefixes[0]}")
        elif "linux_" in wheel_platform and wheel_platform not in LEVELS:  # not macosx_11_0
            what = f'there is no wheel platform "{wheel_platform}", {nearest(wheel_platform, LEVELS)}'
            yield self.at((*keys, "wheel-platform"), what)

    def validation_torch(self, *keys: str) -> Iterator[Problem]:
        known = list(map(str, self.catalog.torch))
        if (torch := self.get(*keys)) and not {torch.partition("+")[0], ".".join(torch.split(".")[:2])} & {*known}:
            yield self.at(keys, f'there is no torch "{torch}" in the catalog, {nearest(torch, known)}')

    def gpu_trial(self, *keys: str) -> Iterator[Problem]:
        commands: list[Any] = [command for _, command in self.items("validate", "commands")]
        tables = [command for command in commands if isinstance(command, dict)]
        if self.get(*keys) == GpuTrial.REQUIRED and not any(table.get("needs-gpu") for table in tables):
            what = "no validation command needs a GPU, so no trial would use one"
            yield self.at(keys, f"{what}, expected one such as `{{ run: python -m demo, needs-gpu: true }}`")

    def pypi_cuda(self, *keys: str) -> Iterator[Problem]:
        if not (cuda := self.get(*keys)):
            return
        platforms = self.get("platforms") or {}
        asked = {name for platform in platforms for _, name in self.items("platforms", platform, "cuda")}
        if cuda not in asked:
            instead = nearest(cuda, asked) if asked else "expected none"
            yield self.at(keys, f'no platform asks for CUDA "{cuda}", {instead}')
        if self.get("publish", "pypi") != Route.WHEELS:
            yield self.at(keys, 'wheels go to PyPI only by the route "wheels", expected `pypi: wheels` next to it')

    def variants(self, *keys: str) -> Iterator[Problem]:
        if self.get(*keys) and not self.has_cuda():
            yield self.at(keys, "variants are made of CUDA wheels, and no platform asks for CUDA")

    def has_cuda(self) -> bool:
        """Whether a platform asks for CUDA."""
        return any(self.get("platforms", platform, "cuda") for platform in self.get("platforms") or {})

    # -- checks with the source

    def source(self) -> Iterator[Problem]:
        table = self.get("source") or {}
        yield from self.patterns("source", "include")
        kinds = [kind for kind in ("path", "git", "sdist") if kind in table]
        for kind in kinds[1:]:  # the first one counts
            what = f'"{kinds[0]}" and "{kind}" exclude each other, expected one source'
            yield Problem(self.document.where(("source", kind), key=True), what)
        if ("git" in table) != ("ref" in table):
            missing = "ref" if "git" in table else "git"
            yield self.at(("source",), f'the key "{missing}" is missing: a git source has both "git" and "ref"')
        if redact(address := self.get("source", "git") or "") != address:
            what = "the address contains a secret, expected one without: git's credential helper supplies it"
            yield self.at(("source", "git"), what)
        if kinds in ([], ["path"]) and ("source", "path") not in self.flawed:  # others are not here yet
            yield from self.folder_of(self.get("source", "path") or ".", self.get("source", "subdirectory") or ".")

    def targets(self, *keys: str | int) -> Iterator[Problem]:
        """Yield the addresses with a secret, which would stand in the file of the plan."""
        for index, target in enumerate(self.get(*keys) or ()):
            if redact(target) != target:
                what = "the address contains a secret, expected one without: a variable or a keyring supplies it"
                yield self.at((*keys, index), what)

    def folder_of(self, path: str, subdirectory: str) -> Iterator[Problem]:
        root = self.folder / path
        if not root.is_dir():
            yield self.at(("source", "path"), f'the source "{path}" does not exist, expected a folder')
        elif not (root / subdirectory).is_dir():
            yield self.at(("source", "subdirectory"), f'the source has no folder "{subdirectory}"')
        if (constraints := self.get("build", "constraints")) and not (root / constraints).is_file():
            yield self.at(("build", "constraints"), f'the source has no file "{constraints}"')
        yield from self.scripts(root, "validate", "commands")

    def scripts(self, root: Path, *keys: str) -> Iterator[Problem]:
        for place, command in self.lines(*keys):
            script = "" if hooks.explain_wrong(command) else hooks.script_of(command)
            if script and not (root / script).is_file():
                beside = (root / script).parent.glob(f"*{Path(script).suffix}")
                names = sorted(path.relative_to(root).as_posix() for path in beside)
                yield self.at(place, f'this runs "{script}", {hooks.missing(script, root, names)}')

    def globs(self, *keys: str) -> Iterator[Problem]:
        if not isinstance(self.get(*keys), dict):  # a list of patterns is short for `include`
            yield from self.patterns(*keys)
            return
        yield from self.patterns(*keys, "include")
        yield from self.patterns(*keys, "exclude")
        included = {pattern for _, pattern in self.items(*keys, "include")}
        for place, pattern in self.items(*keys, "exclude"):
            if pattern in included:
                yield self.at(place, f'the pattern "{pattern}" is both included and excluded, expected it on one side')

    def patterns(self, *keys: str) -> Iterator[Problem]:
        for place, pattern in self.items(*keys):
            if not is_pattern(pattern):
                yield self.at(place, f'"{pattern}" is not a path pattern, expected one such as kernels/**/*.cu')

    # -- checks of the form

    def version(self, *keys: str) -> Iterator[Problem]:
        version = self.get(*keys)
        if version is not None and read_version(version) is None:
            yield self.at(keys, f'"{version}" is not a version, expected one such as "1.2.3" (PEP 440)')

    def commands(self, *keys: str) -> Iterator[Problem]:
        for place, command in self.lines(*keys):
            if wrong := hooks.explain_wrong(command):
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
        from ci_tools.machine import runner  # noqa: PLC0415 - few configs set a timeout so long

        labels = self.get("platforms", name, "runner") or self.catalog.platforms[Platform(name)].runner
        return self.get("platforms", name, "enabled") is not False and runner.is_hosted(list_labels(labels))

    def template(self, *keys: str) -> Iterator[Problem]:
        template = self.get(*keys)
        if template is None:
            return
        if wrong := release_names.explain_flaw(template, FIELDS | release_names.EARLY_FIELDS):
            yield self.at(keys, wrong)
        elif keys[-1] == "tag" and not self.has_version(template):
            what = f'"{template}" would be the tag of every release, expected a template with {{version}} in it'
            yield self.at(keys, f'{what}, such as "v{{version}}", or in a monorepo "{{name}}-v{{version}}"')
        elif not self.flawed:  # the values of its fields are all over the config
            yield from self.values(keys, release_names.fields_in(template) - FIELDS)

    def has_version(self, template: str) -> bool:
        """Whether a template has the version: as a field, or, of a single release, as the config names it."""
        version = self.get("version")
        return "version" in release_names.fields_in(template) or (version is not None and str(version) in template)

    def values(self, keys: Keys, fields: Iterable[str]) -> Iterator[Problem]:
        """Yield the fields of a template that have no value in this config, or several."""
        try:
            known = release_names.values_of(self.document.value, self.catalog)  # type: ignore[arg-type]
        except KeyError:  # a version that the catalog lacks, which is a mistake of its own
            return
        for name in sorted(fields):  # sorted: a set has no order of its own
            if not known[name]:
                yield self.at(keys, f"the template names {{{name}}}, and the config asks for none")
            elif len(known[name]) > 1:
                shown = f"{', '.join(known[name])}: a release of each is one config, {release_names.CUT}"
                yield self.at(keys, f"the template names {{{name}}}, and the config asks for {shown}")

    def wheel_template(self, *keys: str, fields: frozenset[str]) -> Iterator[Problem]:
        template = self.get(*keys)
        if template is None:
            return
        if wrong := release_names.explain_flaw(template, fields):
            yield self.at(keys, wrong)
        elif keys[-1] == "alias" and not self.has_cuda():
            yield self.at(keys, "second names are of CUDA wheels, and no platform asks for CUDA")
        elif ("{torch}" in template or "{cxx11abi}" in template) and not self.get("torch"):
            yield self.at(keys, 'the template names torch, and the key "torch" is missing')

    def requirements(self, *keys: str) -> Iterator[Problem]:
        for index, text in enumerate(self.get(*keys) or ()):
            if not is_of_index(text):
                what = f'"{text}" is not a requirement of the package index, expected one such as "setuptools<82"'
                yield self.at((*keys, index), what)

    def deviations(self) -> Iterator[Problem]:
        """Yield the versions that the catalog lacks in what is unsupported or dropped, or served by a version."""
        facts = {"python": self.catalog.pythons, "torch": self.catalog.torch, "cuda": self.catalog.cuda}
        tables = {kind: [str(version) for version in versions] for kind, versions in facts.items()}
        for index, (kind, known) in product(range(len(self.get("unsupported") or ())), tables.items()):
            yield from self.known(("unsupported", index, kind), known, WHAT[kind])
        for index in range(len(self.get("build", "drop") or ())):
            yield from self.known(("build", "drop", index, "python"), tables["python"], "Python")
        for version in self.get("versions") or {}:
            yield from self.known(("versions", version), tables["python"], "Python")


def list_labels(value: str | list[str]) -> tuple[str, ...]:
    """Return a runner's labels as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value)  # as GitHub's runs-on: one, or a list that must all fit
