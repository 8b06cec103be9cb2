"""Installs a wheel in a clean environment and runs its trials; a trial that cannot run is recorded as not exercised."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging import tags
from packaging.utils import parse_wheel_filename

from ci_tools.addresses import redact
from ci_tools.catalog.failures import INSTALL, TRIAL, explain
from ci_tools.config.commands import resolve_script, script_of
from ci_tools.errors import MachineError, Rejected
from ci_tools.formats.wheel import open_wheel
from ci_tools.machine.context import Outside
from ci_tools.machine.installers import choose_installer
from ci_tools.machine.package_index import add_indexes
from ci_tools.machine.process import output, run, tail
from ci_tools.machine.python import Environment, create, name_version
from ci_tools.machine.storage import sha256_of
from ci_tools.machine.workplace import scratch
from ci_tools.model.files import Outcome, Trial
from ci_tools.model.request import Command, Validation
from ci_tools.model.versions import Minor, Python
from ci_tools.verify.modules import explain_missing, needs_accelerator, needs_driver, needs_torch
from ci_tools.verify.torch_stock import TorchStock

# Other places where pip looks for packages; pip treats an empty value as unset.
NOWHERE_ELSE = {"PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": "", "PIP_NO_INDEX": "", "PIP_CONFIG_FILE": os.devnull}

NAMES = {"cuda": "CUDA", "hip": "ROCm", "xpu": "XPU"}  # by the attribute of torch.version


def has_gpu() -> bool:
    """Whether this machine has a GPU with a working driver."""
    return bool(output(["nvidia-smi", "--list-gpus"]) or output(["rocm-smi", "--showid"]))


def gpu_here() -> str | None:
    """Return this machine's first GPU and its driver, as the driver reports them; None without a GPU."""
    said = output(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"])
    first = (said or "").partition("\n")[0].rpartition(", ")
    return f"{first[0]}, driver {first[2]}" if all(first) else _amd_gpu()


def _amd_gpu() -> str | None:
    said = output(["rocm-smi", "--showproductname", "--showdriverversion"]) or ""
    name = re.search(r"Card [Ss]eries:\s*(\S.*)", said)
    driver = re.search(r"Driver version:\s*(\S+)", said)
    return f"{name[1].strip()}, driver {driver[1]}" if name and driver else None


STABLE = re.compile(r"cp3\d{1,2}$")  # the lowest Python of a limited API


def own_python(wheel: str) -> Python | None:
    """Return the Python that can try a wheel with that file name, or None if the one that runs this process can.

    It is the only one that the wheel is for, or the lowest of its limited API where that is newer than this one.
    """
    try:
        tagged = {(tag.interpreter, tag.abi) for tag in parse_wheel_filename(wheel)[3]}
    except ValueError:  # also more digits than Python converts
        return None
    pythons = (Python(Minor(3, minor), free_threaded) for minor in range(100) for free_threaded in (False, True))
    only = next((python for python in pythons if tagged == {(python.interpreter_tag, python.abi_tag)}), None)
    stable = [Python(Minor(3, int(name[3:]))) for name, abi in tagged if abi == "abi3" and STABLE.match(name)]
    lowest = min(stable, default=None)
    return lowest if lowest and lowest.version > Minor(*sys.version_info[:2]) else only


@dataclass(frozen=True, slots=True, kw_only=True)
class Validator:
    """Installs wheels on this machine and tries them."""

    validation: Validation
    interpreter: Path
    logs: Path
    outside: Outside
    gpu: bool
    source: Path | None = None  # the folder of the scripts that the commands run; None: not on this machine
    stock: TorchStock | None = None  # None: each trial installs torch itself
    indexes: tuple[str, ...] = ()  # where a nightly of torch is, beside the places that the installer looks at
    project: str = ""
    own: tuple[str, ...] = ()  # the modules of the wheel, which are imported where the config names none
    is_accelerated: bool = False  # whether the wheel was built for an accelerator
    torch_build: str = ""  # a build of torch, by the version in its file name; "": the installer chooses

    @property
    def where(self) -> str:
        """The name of this place in a receipt: linux-x86_64, Python 3.12."""
        version = name_version(self.interpreter)
        return f"{platform.system().lower()}-{platform.machine().lower()}, Python {version}"

    def key(self, what: str) -> str:
        """Return a hash of `what` and of everything else that decides a trial's outcome."""
        scripts = [sha256_of(path) for path in self._scripts()]
        installer = choose_installer(self.outside.environ).name
        torch = (repr(self.validation), self.is_accelerated, self.torch_build)
        parts = [what, *torch, self.own, str(self.interpreter), self.gpu, installer, *scripts]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _scripts(self) -> Iterator[Path]:
        """Yield the scripts in the source that the commands run."""
        named = (script_of(command.run) for command in self.validation.commands)
        paths = (self.source / script for script in named if script and self.source)
        return (path for path in paths if path.is_file())

    def runs_here(self, wheel: Path) -> bool:
        """Whether the wheel is for this kind of machine."""
        found = open_wheel(wheel)
        found.archive.close()
        wanted = {tag.platform for tag in found.named[2]} if found.named else set()
        return bool(wanted & {"any", *tags.platform_tags()})

    def install_from_file(self, wheel: Path) -> tuple[Trial, ...]:
        """Install the wheel from its file and try it."""
        if not self.runs_here(wheel):
            return (Trial(f"install {wheel.name}", Outcome.NOT_EXERCISED, "its tags are for another machine"),)
        return self._install_and_try(wheel.name, (str(wheel.absolute()),))

    def install_from_index(self, requirement: str, index_url: str) -> tuple[Trial, ...]:
        """Install `requirement` as a user would, with this index added to the default one, and try it."""
        return self._install_and_try("index", ("--extra-index-url", index_url, requirement))

    def _install_and_try(self, name: str, arguments: tuple[str, ...]) -> tuple[Trial, ...]:
        log = self.logs / f"validate-{name}.log"
        log.unlink(missing_ok=True)  # of an earlier trial
        named = (*arguments, *self.validation.requires)
        shown = " ".join(Path(part).name if part.endswith(".whl") else part for part in named)
        what = redact(f"{choose_installer(self.outside.environ).command} {shown}")
        try:
            with self._environment(log) as environment:
                environment.install(*arguments, *self.validation.requires, fresh=self.project)
                return (Trial(what, Outcome.PASSED), *self._try(environment))
        except Rejected as error:
            return (Trial(what, Outcome.FAILED, _describe_failure("cannot be installed", str(error), INSTALL)),)

    def _try(self, environment: Environment) -> Iterator[Trial]:
        modules = self.own if self.validation.imports is None else self.validation.imports
        if not modules and not self.validation.commands:
            yield Trial("import", Outcome.NOT_EXERCISED, "neither the wheel's files nor the config name a module")
        for module in modules:
            yield self._try_import(environment, module)
        for command in self.validation.commands:
            yield self._try_command(environment, command)

    @contextmanager
    def _environment(self, log: Path) -> Iterator[Environment]:
        """Yield a fresh environment with the torch that the config names; it is removed afterwards.

        Raises Rejected if that torch cannot be installed, MachineError if the network or the disk failed.
        """
        if self.stock and self.validation.torch:
            with self.stock.lend(self._torch_key(), log, self._creating_for_stock(log)) as environment:
                yield environment
        else:
            with scratch() as folder:
                yield self._create_with_torch(folder / "env", log)

    def prepare_torch(self) -> None:
        """Begin to install the torch of the trials in the background, if they share one."""
        if self.stock and self.validation.torch:
            self.stock.prepare(self._torch_key(), self._creating_for_stock(self.logs / "validate-torch.log"))

    def _creating_for_stock(self, log: Path) -> Callable[[Path], Environment]:
        """Return a function that creates an environment of several trials, in which torch was imported once.

        The import compiles the modules that torch imports, which takes 2.3 s of CPU time in each trial otherwise.
        """

        def create_and_import(path: Path) -> Environment:
            environment = self._create_with_torch(path, log)
            seconds = self.validation.timeout_seconds  # whether the import fails is shown by the trials
            run([environment.python, "-c", "import torch"], log=log, env=environment.variables, timeout=seconds)
            return environment

        return create_and_import

    def _create_with_torch(self, path: Path, log: Path) -> Environment:
        """Create an environment with the config's torch; if the config names an index, nothing else is asked.

        A variable keeps the index's URL out of logs.
        """
        environ, index = self.outside.environ, self.validation.torch_index
        environment = create(self.interpreter, path, log, environ, add_indexes(environ, self.indexes))
        if self.validation.torch:
            variables = {**NOWHERE_ELSE, "PIP_INDEX_URL": index} if index else {}
            # `==2.13.0` also means 2.13.0+cpu, and prefers it; `===` is only this one (PEP 440)
            named = f"torch==={self.torch_build}" if self.torch_build else f"torch=={self.validation.torch}"
            environment.install(named, variables=variables, fresh="torch" if index else "")
        return environment

    def _torch_key(self) -> str:
        """Return all that decides how torch is installed in a run, whose environment variables stay as they are."""
        asked = (self.validation.torch, self.validation.torch_index, self.torch_build)
        return json.dumps([str(self.interpreter), *asked, self.indexes])

    def _try_import(self, environment: Environment, module: str) -> Trial:
        trial = self._run_import(environment, f"import {module}")
        if needs_torch(trial.detail):  # a module that is linked with torch: its users import that first
            trial = self._run_import(environment, f"import torch, {module}")
        driver = needs_driver(trial.detail)
        if driver and not self.gpu and self.validation.imports is None:  # nobody said that it works without one
            return Trial(trial.what, Outcome.NOT_EXERCISED, f"it needs {driver} of a driver, and no GPU is here")
        folder = environment.packages / module.replace(".", "/")
        runs = (file.suffix for file in (*folder.glob("__init__.*"), *folder.parent.glob(f"{folder.name}.*")))
        if trial.outcome is Outcome.PASSED and folder.is_dir() and not {".py", ".pyc", ".so", ".pyd"} & {*runs}:
            why = f"{module} is only a namespace (PEP 420), whose import runs no file: name a module of it in `imports`"
            return Trial(trial.what, Outcome.NOT_EXERCISED, why)
        return self._excuse(environment, trial)

    def _excuse(self, environment: Environment, trial: Trial) -> Trial:
        """Return a failed trial as not exercised if the torch here has no libraries of the wheel's accelerator."""
        kind, release = needs_accelerator(trial.detail) if self.is_accelerated else ("", "")
        if not kind:
            return trial
        question = f"import torch; print(torch.__version__, getattr(torch.version, '{kind}', None) or '-')"
        torch, _, has = (output([environment.python, "-c", question], env=environment.variables) or "").partition(" ")
        if not torch or (has != "-" and has.startswith(f"{release}." if release else "")):
            return trial
        name = f"{NAMES[kind]}{f' {release}' if release else ''}"
        why = f"the torch of this trial, {torch}, has no {name}: `validate: {{torch-index: …}}` names an index with it"
        return Trial(trial.what, Outcome.NOT_EXERCISED, why)

    def _run_import(self, environment: Environment, statement: str) -> Trial:
        return self._run(environment, statement, ["python", "-c", statement])

    def _try_command(self, environment: Environment, command: Command) -> Trial:
        if command.needs_gpu and not self.gpu:
            return Trial(command.run, Outcome.NOT_EXERCISED, "no GPU here")
        return self._excuse(environment, self._run(environment, command.run, resolve_script(command.run, self.source)))

    def _run(self, environment: Environment, what: str, command: list[str]) -> Trial:
        """Run one command in the environment, outside any source tree."""
        program = shutil.which(command[0], path=environment.variables["PATH"]) or command[0]
        seconds = self.validation.timeout_seconds
        variables = environment.variables
        try:
            ended = run(
                [program, *command[1:]], log=environment.log, cwd=environment.path, env=variables, timeout=seconds
            )
        except MachineError as error:
            return Trial(what, Outcome.FAILED, error.message)
        if ended.timed_out:
            return Trial(what, Outcome.FAILED, f"took over {seconds} seconds")
        if ended.status:
            end = f"exit status {ended.status}{f' ({ended.signal})' if ended.signal else ''}"
            said = tail(ended.log, 40, ended.start)
            missing = explain_missing(said, self.own, self.project)
            return Trial(what, Outcome.FAILED, _describe_failure(end, said, missing=missing))
        return Trial(what, Outcome.PASSED)


def _describe_failure(what: str, printed: str, table: str = TRIAL, missing: str = "") -> str:
    """Return how something failed with its last lines, and the cause and what helps if it is known.

    `missing` is what is known of a module that could not be imported: it comes before what the table knows.
    """
    last = "\n".join(printed.splitlines()[-12:])
    if missing:
        return f"{what}:\n{last}\n{missing}"
    found = explain(printed, table)
    return f"{what}: {found.says}\n{last}\n  hint: {found.hint}" if found else f"{what}:\n{last}"
