"""Translates a caller of pytorch/test-infra's reusable workflows into the settings of a `fatwheel.yml`.

Every input and secret gets a row with a reason: carried over, not needed, or left to a person.
"""

from __future__ import annotations

import datetime as dt
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from ci_tools.catalog import Catalog
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.runner_labels import runner_labels
from ci_tools.config.commands import script_of
from ci_tools.config.test_infra.callers import (
    SERVED,
    SYSTEMS,
    UNSERVED,
    Caller,
    Exported,
    Given,
    InputFate,
    KnownInput,
    Move,
    ReportLine,
    SettingWish,
    load_fates,
    newest,
    parse_exports,
    read,
)
from ci_tools.errors import Problem, RejectedInput, nearest
from ci_tools.model.versions import CudaArch

__all__ = ["CARRIERS", "InputFate", "KnownInput", "Move", "ReportLine", "SettingWish", "load_fates", "move", "newest"]


BY_DEFAULT = {"cpu": "enable", "cuda": "enable", "rocm": "enable", "xpu": "disable"}  # generate_binary_build_matrix
OWN_ARCHITECTURE = {"aarch64": "linux-aarch64", "arm64": "windows-arm64"}
# Options of `python -m build` that do not change the wheel.
BUILD_OPTIONS = frozenset({"--no-isolation", "--wheel", "-n", "-nw", "-w", "-wn", "-v", "-vv", "-vvv", "--verbose"})


class _Carrier:
    """Carries over the inputs of one job: each method takes one input, and yields its rows and its wishes."""

    def __init__(self, caller: Caller, folder: Path, catalog: Catalog) -> None:
        self.caller = caller
        self.folder = folder
        self.catalog = catalog
        self.system = self.system_of()
        self.platforms = tuple(SERVED[pair] for pair in self.asked() if pair in SERVED)

    def everything(self) -> Iterator[ReportLine | SettingWish]:
        """Yield a row for each input and secret, and a wish for each that is carried over."""
        yield from self.defaults()
        for name, given in (*self.caller.matrix.items(), *self.caller.inputs.items()):
            yield from self.fate_of(name, given)
        secrets = load_fates()["secrets"]
        other = KnownInput(InputFate.NEEDS_YOU, "no build gets a secret: use it in a job of your own file")
        for name, given in self.caller.secrets.items():
            yield self.row(name, given, *secrets.get(name, other))
        if "ref" not in self.caller.inputs:
            yield from self.fate_of("ref", Given("nightly", self.caller.where))

    def fate_of(self, name: str, given: Given) -> Iterator[ReportLine | SettingWish]:
        """Yield the row and the wishes of one input."""
        fate, what = load_fates()["inputs"][name]
        if not given.value:
            yield self.not_needed(name, given, "it is empty")
        elif name == "delocate-wheel" and given.value == "false":
            yield self.not_needed(name, given, "no library is copied into a wheel")
        elif fate is not InputFate.CARRIED:
            yield self.row(name, given, fate, what)
        elif not given.is_known:
            yield self.needs_you(name, given, f"its value is known only while it runs: write it at {what}")
        else:
            yield from CARRIERS[name](self, name, given)

    # -- rows and wishes

    def row(self, name: str, given: Given, fate: InputFate, what: str) -> ReportLine:
        return ReportLine(given.where, name, given.value, fate, what)

    def needs_you(self, name: str, given: Given, what: str) -> ReportLine:
        return self.row(name, given, InputFate.NEEDS_YOU, what)

    def not_needed(self, name: str, given: Given, what: str) -> ReportLine:
        return self.row(name, given, InputFate.NOT_NEEDED, what)

    def carry(self, name: str, given: Given, key: str, value: str = "") -> Iterator[ReportLine | SettingWish]:
        """Yield the wish and the row for an input that goes to a key, unchanged or as `value`."""
        yield self.wish(key, value or given.value, given.where)
        yield self.row(name, given, InputFate.CARRIED, load_fates()["inputs"][name].what)

    def wish(self, key: str, value: str, where: str) -> SettingWish:
        return SettingWish(key, value, where, self.platforms)

    def runner(self, name: str, given: Given) -> Iterator[ReportLine | SettingWish]:
        """Carry over the label of a runner, but not one that no plan takes: it is gone, or misspelt."""
        labels, today = runner_labels(), dt.datetime.now(dt.timezone.utc).date()
        if gone := labels.find_gone(given.value, today):
            why = f"GitHub switched it off on {gone['day']}, and each platform has a runner"
            yield self.row(name, given, InputFate.NEEDS_YOU, f"{why}: {gone['instead']} is another")
        elif correction := labels.correct(given.value):
            yield self.row(name, given, InputFate.NEEDS_YOU, f"none of GitHub's runners has the label, {correction}")
        else:
            yield from self.carry(name, given, "runner")

    # -- platforms

    def system_of(self) -> str:
        """Return the system of the wheels: the matrix's, or else that of the workflow and the architecture."""
        said = self.caller.matrix.get("os")
        if said and said.is_known and said.value:
            return said.value
        architecture = self.caller.inputs.get("architecture")
        own = OWN_ARCHITECTURE.get(architecture.value, "") if architecture else ""
        return own if own.startswith(self.caller.builds) else self.caller.builds

    def asked(self) -> Iterator[tuple[str, str]]:
        """Yield the build targets: the system with each enabled accelerator that it supports."""
        for kind, default in BY_DEFAULT.items():
            given = self.caller.matrix.get(f"with-{kind}")
            said = given.value if given and given.is_known else default
            pair = (self.system, kind)
            if said == "enable" and pair in {*SERVED, *UNSERVED}:
                yield pair

    def defaults(self) -> Iterator[ReportLine | SettingWish]:
        """Yield the platforms as wishes, and a row for each that is requested by default."""
        for platform in self.platforms:
            yield SettingWish("platform", platform.value, self.caller.where, (platform,))
        if not self.caller.matrix:
            what = "the job that makes its matrix was not found: choose the platforms"
            yield ReportLine(self.caller.where, "build-matrix", "", InputFate.NEEDS_YOU, what)
            return
        for system, kind in self.asked():
            if f"with-{kind}" not in self.caller.matrix:
                yield self.platform_row(f"with-{kind}", Given("(enable)", self.caller.where), system, kind)

    def platform_row(self, name: str, given: Given, system: str, kind: str) -> ReportLine:
        platform = SERVED.get((system, kind))
        if platform is None:
            return self.needs_you(name, given, f"there is no platform for {kind} on {system}")
        return self.row(name, given, InputFate.CARRIED, f"platforms.{platform}")

    def accelerator(self, name: str, given: Given) -> Iterator[ReportLine | SettingWish]:
        kind = name.removeprefix("with-")
        if given.value != "enable":
            yield self.not_needed(name, given, "it is not asked for")
        elif (self.system, kind) in {*SERVED, *UNSERVED}:
            yield self.platform_row(name, given, self.system, kind)
        else:
            yield self.not_needed(name, given, f"test-infra builds none for {self.system}")

    def system_rows(self, name: str, given: Given) -> Iterator[ReportLine | SettingWish]:
        shown = ", ".join(f"platforms.{platform}" for platform in self.platforms)
        if shown:
            yield self.row(name, given, InputFate.CARRIED, shown)
        else:
            yield self.needs_you(name, given, f"there is no platform for {self.system}")

    def package_type(self, name: str, given: Given) -> Iterator[ReportLine | SettingWish]:
        is_wheel = given.value in {"wheel", "all"}
        what = "wheels are built" if is_wheel else "only wheels are built"
        yield self.row(name, given, InputFate.NOT_NEEDED if is_wheel else InputFate.NEEDS_YOU, what)

    # -- versions

    def pythons(self, name: str, given: Given) -> Iterator[ReportLine | SettingWish]:
        """Carry over a JSON list of Pythons; an empty one means all."""
        try:
            listed = json.loads(given.value)
        except ValueError:
            listed = None
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            yield self.needs_you(name, given, "this is not a JSON list of strings: list the Pythons at python")
            return
        shipped = set(map(str, self.catalog.pythons))
        for python in (one for one in listed if one in shipped):
            yield self.wish("python", python, given.where)
        unknown = ", ".join(one for one in listed if one not in shipped)
        if unknown:
            yield self.needs_you(name, given, f"the catalog has no Python {unknown}: left out")
        elif listed:
            yield self.row(name, given, InputFate.CARRIED, "python")
        else:
            yield self.not_needed(name, given, "python lists all that the project admits")

    def to_pypi(self, name: str, given: Given) -> Iterator[ReportLine | SettingWish]:
        """Carry over the accelerators whose wheels go to PyPI: it can have those of one CUDA version."""
        labels = [label.strip() for label in given.value.split(",")]
        versions = list(filter(None, map(self.cuda, labels)))
        yield self.wish("pypi", "wheels", given.where)
        if versions:
            yield self.wish("pypi-cuda", versions[0], given.where)
        left = [label for label in labels if label != "cpu" and self.cuda(label) not in versions[:1]]
        if left:
            what = f"PyPI gets the wheels of one CUDA version that torch ships: {', '.join(left)} is left out"
            yield self.needs_you(name, given, what)
        else:
            yield self.row(name, given, InputFate.CARRIED, load_fates()["inputs"][name].what)

    def cuda(self, label: str) -> str:
        """Return the CUDA version of a label such as cu130, or "" if torch ships none for it on these platforms."""
        hosts = [self.catalog.platforms[platform].host for platform in self.platforms if "cuda" in platform.value]
        accelerators = newest(self.catalog).accelerators
        shipped = {version for host in hosts for version in accelerators.get((host, CUDA), ())}
        labels = {CUDA.label(version): str(version) for version in shipped}
        return labels.get(label, "")

    # -- the build

    def script(self, name: str, given: Given) -> Iterator[ReportLine | SettingWish]:
        """Carry over a script as a command line; test-infra runs it with bash if it is not a command line itself."""
        key = {"pre-script": "before", "post-script": "after"}[name]
        command = given.value if " " in given.value else f"bash {shlex.quote(given.value)}"  # it may not be executable
        try:
            script = script_of(command)
        except ValueError:
            script = ""
        if given.value.endswith(".bat"):
            what = f"a batch file runs only on Windows: write a command that runs everywhere at build.{key}"
            yield self.needs_you(name, given, what)
        elif not script or not (self.folder / script).is_file():
            yield self.needs_you(name, given, f"the source has no such script: name it at build.{key}")
        else:
            yield from self.carry(name, given, key, command)

    def smoke_test(self, name: str, given: Given) -> Iterator[ReportLine | SettingWish]:
        if not (self.folder / given.value).is_file():
            yield self.not_needed(name, given, "the source has no such file; the validation tries the import")
        else:
            yield from self.carry(name, given, "command", f"python {shlex.quote(given.value)}")

    def package(self, name: str, given: Given) -> Iterator[ReportLine | SettingWish]:
        if all(part.isidentifier() for part in given.value.split(".")):
            return self.carry(name, given, "import")
        return iter([self.needs_you(name, given, "this is not a module's name: list those that must import")])

    def timeout(self, name: str, given: Given) -> Iterator[ReportLine | SettingWish]:
        if given.value.isdecimal() and int(given.value):
            return self.carry(name, given, "timeout")
        return iter([self.needs_you(name, given, "this is not a number of minutes")])

    def command(self, name: str, given: Given) -> Iterator[ReportLine | SettingWish]:
        """Carry over the variables before `python -m build`; the effects of other commands are unknown."""
        try:
            words = shlex.split(given.value)
        except ValueError:
            words = []
        first = next((index for index, word in enumerate(words) if "=" not in word), len(words))
        program, options = words[first : first + 3], words[first + 3 :]
        calls_build = program in (["python", "-m", "build"], ["python3", "-m", "build"])
        if not calls_build or not BUILD_OPTIONS.issuperset(options) or "$" in given.value:
            yield self.needs_you(name, given, "Fatwheel calls the backend itself: do the rest in build.before")
            return
        for pair in words[:first]:
            variable, _, value = pair.partition("=")
            yield from self.variable(variable, value, given.where)
        what = "build.env" if first else "Fatwheel calls the backend itself"
        yield self.row(name, given, InputFate.CARRIED if first else InputFate.NOT_NEEDED, what)

    # -- variables

    def variables(self, name: str, given: Given) -> Iterator[ReportLine | SettingWish]:
        """Carry over the variables that a script exports as plain text, and report every line that does more."""
        script = self.folder / given.value
        if not script.is_file():
            yield self.needs_you(name, given, "the source has no such file: name the variables at build.env")
            return
        lines = list(parse_exports(script.read_text(encoding="utf-8", errors="replace")))
        for line in lines:
            for variable, value in line.variables:
                yield from self.variable(variable, value, f"{given.value}:{line.line}")
        for is_plain, group in groupby(lines, key=lambda line: bool(line.variables)):
            if not is_plain:
                yield _script_row(name, given.value, list(group))
        yield self.row(name, given, InputFate.CARRIED, "build.env: the lines that export plain text")

    def variable(self, name: str, value: str, where: str) -> Iterator[ReportLine | SettingWish]:
        """Carry over one variable: to the key with the same meaning, if there is one."""
        archs = value.replace(";", " ").split()  # both separators, as torch reads them
        if name == "TORCH_CUDA_ARCH_LIST" and archs and all(map(_is_arch, archs)):
            yield from (self.wish("archs", arch, where) for arch in archs)
        elif name == "PYTORCH_ROCM_ARCH" and archs:
            yield from (self.wish("rocm-archs", arch, where) for arch in archs)
        elif name == "MAX_JOBS" and value.isdecimal() and int(value):
            yield self.wish("max-jobs", value, where)
        else:
            yield self.wish("env", f"{name}={value}", where)


def _script_row(name: str, script: str, lines: Sequence[Exported]) -> ReportLine:
    """Return the row for lines of a script that do more than export plain text."""
    first, last = lines[0].line, lines[-1].line
    where = f"{script}:{first}" + (f"-{last}" if last > first else "")
    what = "this is not an export of plain text: write its result at build.env, or do it in build.before"
    return ReportLine(where, name, "; ".join(line.text for line in lines), InputFate.NEEDS_YOU, what)


def _is_arch(text: str) -> bool:
    try:
        CudaArch.parse(text)
    except ValueError:
        return False
    return True


CARRIERS: Mapping[str, Callable[[_Carrier, str, Given], Iterator[ReportLine | SettingWish]]] = {
    "architecture": _Carrier.system_rows,
    "build-command": _Carrier.command,
    "build-target": lambda self, name, given: self.carry(name, given, "env", f"BUILD_TARGET={given.value}"),
    "env-var-script": _Carrier.variables,
    "os": _Carrier.system_rows,
    "package-name": _Carrier.package,
    "package-type": _Carrier.package_type,
    "post-script": _Carrier.script,
    "pre-script": _Carrier.script,
    "python-versions": _Carrier.pythons,
    "ref": lambda self, name, given: self.carry(name, given, "ref"),
    "runner": _Carrier.runner,
    "runner-type": _Carrier.runner,
    "smoke-test-script": _Carrier.smoke_test,
    "timeout": _Carrier.timeout,
    "upload-to-pypi": _Carrier.to_pypi,
    "with-cpu": _Carrier.accelerator,
    "with-cuda": _Carrier.accelerator,
    "with-rocm": _Carrier.accelerator,
    "with-xpu": _Carrier.accelerator,
}


def move(workflows: Sequence[Path], folder: Path, catalog: Catalog) -> Move:
    """Translate workflow files, and the scripts in `folder` that they name, into settings of a config.

    Raises InputError if a file does not call test-infra, or passes it an input that it does not have.
    """
    found = [caller for path in workflows for caller in read(path, str(path))]
    problems = [problem for caller in found for problem in _unknown(caller)]
    if problems:
        raise RejectedInput(problems)
    carried = [each for caller in found for each in _Carrier(caller, folder, catalog).everything()]
    refs = (caller.inputs.get("ref") for caller in found)
    # By default, test-infra takes the branch nightly; a config has one source.
    if len({given.value if given else "nightly" for given in refs}) > 1:
        carried = [_torn(each) for each in carried if not (isinstance(each, SettingWish) and each.key == "ref")]
    repositories = (caller.inputs["repository"] for caller in found if "repository" in caller.inputs)
    moved = Move(
        wishes=tuple(each for each in carried if isinstance(each, SettingWish)),
        rows=tuple(dict.fromkeys(each for each in carried if isinstance(each, ReportLine))),  # jobs share inputs
        triggers=tuple(caller.on for caller in found),
        repository=next((one.value for one in repositories if one.is_known), ""),
    )
    return moved._replace(rows=tuple(_limited(row, moved) for row in moved.rows))


def _limited(row: ReportLine, moved: Move) -> ReportLine:
    """Return the row of a script that only some platforms have as NEEDS_YOU: a command of the config is for all."""
    wished = {(wish.key, wish.value) for wish in moved.wishes if wish.where == row.where}
    keys = ("before", "after", "command")
    scripts = (wish for key in keys for wish in moved.of(key) if (key, wish.value) in wished)
    wish = next(scripts, None)
    if wish is None or row.fate is not InputFate.CARRIED or moved.is_everywhere(wish):
        return row
    place = "validate.commands" if wish.key == "command" else f"build.{wish.key}"
    only = f"it is only for {', '.join(wish.platforms)}, and {place} is for every platform"
    return row._replace(fate=InputFate.NEEDS_YOU, what=f"{only}: let it end at once elsewhere, and write it there")


def _torn(each: ReportLine | SettingWish) -> ReportLine | SettingWish:
    """Return the row of a ref as NEEDS_YOU, because the files build different refs; others unchanged."""
    if not isinstance(each, ReportLine) or each.name != "ref":
        return each
    return each._replace(
        fate=InputFate.NEEDS_YOU, what="the files build several refs: choose one, or the commit of the run"
    )


def _unknown(caller: Caller) -> Iterator[Problem]:
    """Yield the inputs that test-infra does not have, and the values that it would reject."""
    inputs = load_fates()["inputs"]
    for name, given in (*caller.matrix.items(), *caller.inputs.items()):
        if name not in inputs:
            yield Problem(given.where, f'test-infra has no input "{name}", {nearest(name, inputs)}')
    system = caller.matrix.get("os")
    if system and system.is_known and system.value not in SYSTEMS:
        yield Problem(system.where, f'test-infra has no os "{system.value}", {nearest(system.value, SYSTEMS)}')
