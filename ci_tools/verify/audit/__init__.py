"""Static checks on a finished wheel: one generator per rule, and what a user meets where it does not hold."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ci_tools.errors import Rejected
from ci_tools.formats.wheel import open_wheel
from ci_tools.machine.workplace import workplace
from ci_tools.model.files import Finding, Level
from ci_tools.model.plan import Job
from ci_tools.verify.audit.archive import container, content, files, foreign, hidden
from ci_tools.verify.audit.libraries import binaries, device, extensions, instructions, macos, system, torch
from ci_tools.verify.audit.metadata import entry_points, labels
from ci_tools.verify.audit.subject import DATA, Flaw, Subject


def audit(
    path: Path,
    *,
    job: Job | None,
    limits: Mapping[str, int],
    work: Path,
    to_pypi: bool | None = None,
    only: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Return everything wrong with the wheel at `path`, in the order of `RULES`; an empty result means it is good.

    `job` is the plan's; without one, only the rules that hold for every wheel are checked. `to_pypi` says whether the
    wheel goes to PyPI (None: it does unless it has a local version). The members are unpacked below `work` during the
    audit. `only` names the rules to check; empty means all. A file that is not a wheel has one finding.
    """
    try:
        wheel = open_wheel(path)
    except Rejected as error:
        said = (
            error.message,
            "another file",
            "a zip file (PEP 427)",
            "no installer can read it",
            f"unzip -t {path.name}",
        )
        return (Finding(path.name, "archive", Level.ERROR, *said),)
    with wheel.archive, workplace(work) as folder:  # another run may audit the same wheel at once
        could = wheel.named is not None and not wheel.named[1].local  # PyPI takes no local version (PEP 440)
        subject = Subject(wheel, job, limits, could if to_pypi is None else to_pypi, folder)
        return tuple(
            Finding(path.name, name, flaw.level, flaw.message, flaw.found, flaw.expected, effect, command)
            for name, rule in RULES.items()
            if not only or name in only
            for flaw in _flaws(rule.check, subject)
            for effect, command in [_explain(rule, flaw, subject)]
        )


def device_images(path: Path, work: Path) -> tuple[str, ...]:
    """Return the device images in the wheel's own members, such as sm_90 and compute_100, sorted.

    Raises Rejected if the wheel at `path`, or a library in it, cannot be read.
    """
    wheel = open_wheel(path)
    with wheel.archive, workplace(work) as folder:
        return device.held_images(Subject(wheel, None, {}, to_pypi=False, work=folder))


def _explain(rule: AuditRule, flaw: Flaw, subject: Subject) -> tuple[str, str]:
    """Return what a flaw does to a user, and a command that shows it."""
    wheel = shlex.quote(subject.wheel.path.name)
    module = _name_module(flaw, subject) if "{module}" in rule.command else ""
    return flaw.effect or rule.effect, rule.command.replace("{wheel}", wheel).replace("{module}", module)


def _name_module(flaw: Flaw, subject: Subject) -> str:
    """Return the module that a flaw is about: that of its words or of a library in them, else the first package."""
    if stated := re.search(r"`import ([\w.]+)`", flaw.effect):
        return stated[1]
    tops = (member.name.partition("/") for member in subject.members)
    named = next((top for top, within, _ in tops if within and top.isidentifier()), "MODULE")  # unlike demo-1.0.data
    with suppress(Rejected):  # a damaged library, which has a flaw of its own
        of_flaw = (one.module for one in extensions.find_extensions(subject) if one.member.name in flaw.message)
        named = next(of_flaw, named)
    return DATA.sub("", named).replace("/", ".")


def _flaws(rule: Callable[[Subject], Iterator[Flaw]], subject: Subject) -> Iterator[Flaw]:
    """Yield a rule's flaws; a member that cannot be read counts as a flaw."""
    try:
        yield from rule(subject)
    except Rejected as error:
        yield Flaw(error.message, "unreadable", "a whole file")


class AuditRule(NamedTuple):
    """A rule: its check, what a user meets where it does not hold, and a command that shows it."""

    check: Callable[[Subject], Iterator[Flaw]]
    effect: str
    command: str  # with {wheel} and {module} in it


PIP = "pip install --no-deps --target there {wheel}"
UV = "uv pip install --no-deps --target there {wheel}"
IMPORT = f"{PIP} && PYTHONPATH=there python -c 'import {{module}}'"
TWINE = "twine check --strict {wheel}"
LIST = "unzip -Zv {wheel}"
UNPACKED = "unzip -d there {wheel} && cd there && "
SAY = "unzip -p {wheel} '*.dist-info/"
ELF = f"{UNPACKED}find . -name '*.so*' -exec readelf "
RULES: Mapping[str, AuditRule] = {
    "container": AuditRule(
        container.container, "uv or pip refuses it, or installs another file than was audited", LIST
    ),
    "paths": AuditRule(files.paths, "installers refuse it, or one file takes the place of another", UV),
    "record": AuditRule(files.record, "an installer or an index refuses it, or warns of a changed file", UV),
    "members": AuditRule(files.members, "users get files that nobody wants, or cannot use", LIST),
    "names": AuditRule(labels.names, "pip and uv refuse it", PIP),
    "tags": AuditRule(labels.tags, "installers refuse it, or take it for another Python or system", f"{SAY}WHEEL'"),
    "requires-python": AuditRule(labels.requires_python, "pip refuses it, or passes over it", PIP),
    "requires-torch": AuditRule(
        labels.requires_torch, "it is installed beside a torch it was not built for", f"{SAY}METADATA'"
    ),
    "metadata": AuditRule(labels.metadata, "installers or indexes refuse it", TWINE),
    "index": AuditRule(labels.index, "PyPI refuses the upload, or shows the page badly", TWINE),
    "entry-points": AuditRule(
        entry_points.entry_points, "a command fails, or pip refuses the wheel", f"{SAY}entry_points.txt'"
    ),
    "licence": AuditRule(
        labels.licence, "users cannot tell whether they may use it, and an index may refuse it", TWINE
    ),
    "sbom": AuditRule(labels.sbom, "scanners of dependencies read a wrong name", f"{SAY}sboms/*'"),
    "secrets": AuditRule(
        hidden.secrets,
        "everybody who downloads it has the secret",
        f"{UNPACKED}grep -rlE 'PRIVATE KEY|pypi-|gh[ps]_' .",
    ),
    "startup": AuditRule(hidden.startup, "its code runs whenever Python starts, in every program", LIST),
    "overwritten": AuditRule(foreign.overwritten, "installing or removing it breaks another project", LIST),
    "pure": AuditRule(content.pure, "users of other systems get code that they cannot run, or some get none", LIST),
    "hidden": AuditRule(hidden.hidden, "code runs that no scanner has seen", LIST),
    "bundled": AuditRule(foreign.bundled, "a process has two copies of one library, and may crash", LIST),
    "prediction": AuditRule(content.prediction, "it is not the wheel that was planned", LIST),
    "text": AuditRule(content.text, "the import or the script fails", f"{PIP} && python -m compileall -q there"),
    "own-imports": AuditRule(entry_points.own_imports, "the import fails", IMPORT),
    "libraries": AuditRule(
        content.libraries,
        "it cannot be loaded, or is loaded twice",
        f"{UNPACKED}find . -name '*.so*' -exec file {{}} +",
    ),
    "pointers": AuditRule(
        content.pointers, "users get the pointer in place of the data", f"{UNPACKED}grep -rl git-lfs.github.com ."
    ),
    "build-paths": AuditRule(
        content.build_paths,
        "it names a person, or a path that users do not have",
        rf"{UNPACKED}grep -raoE '[/\](home/|root/|builds/|tmp/(pip-|build-|tmp)|[Uu]sers.|actions.)[[:graph:]]+' .",
    ),
    "python-symbols": AuditRule(
        binaries.python_symbols, "it cannot be loaded on every Python of its tag", f"{ELF}-Ws {{}} +"
    ),
    "suffix": AuditRule(extensions.suffix, "the import fails: Python looks for another file", IMPORT),
    "init": AuditRule(extensions.init, "the import fails", IMPORT),
    "python-versions": AuditRule(extensions.python_versions, "the import fails: undefined symbol", IMPORT),
    "undefined": AuditRule(extensions.undefined, "the import fails: undefined symbol", IMPORT),
    "needed": AuditRule(extensions.needed, "the import fails: cannot open shared object file", IMPORT),
    "platform": AuditRule(
        system.platform, "the import fails on systems that the tag promises", "auditwheel show {wheel}"
    ),
    "imports": AuditRule(binaries.imports, "the import fails: DLL load failed", f"{UNPACKED}dumpbin /dependents *.pyd"),
    "python-library": AuditRule(
        binaries.python_library, "the import fails: DLL load failed", f"{UNPACKED}dumpbin /dependents *.pyd"
    ),
    "macos": AuditRule(macos.macos, "the import fails on a macOS that the tag promises", f"{UNPACKED}otool -L -l *.so"),
    "rpath": AuditRule(
        system.rpath,
        "another library is loaded than the wheel's, perhaps one that anybody may place",
        f"{ELF}-d {{}} +",
    ),
    "stack": AuditRule(system.stack, "the import fails with glibc 2.41 and later", f"{ELF}-Wl {{}} +"),
    "text-relocations": AuditRule(
        system.text_relocations, "the import fails with musl, and under SELinux", f"{ELF}-d {{}} +"
    ),
    "instructions": AuditRule(
        instructions.instructions, "it crashes on older CPUs: illegal instruction", f"{ELF}-n {{}} +"
    ),
    "debug": AuditRule(system.debug, "every user downloads what only a debugger reads", f"{ELF}-WS {{}} +"),
    "abi3": AuditRule(
        binaries.abi3, "the import fails on a Python that the tag promises", "abi3audit --strict {wheel}"
    ),
    "fatbinary": AuditRule(
        device.fatbinary, "a GPU that the plan promises has no kernel image", f"{UNPACKED}cuobjdump --list-elf *.so"
    ),
    "kernels": AuditRule(
        device.kernels, "a call fails on some GPUs: no kernel image", f"{UNPACKED}cuobjdump --list-elf *.so"
    ),
    "torch-requirement": AuditRule(
        torch.torch_requirement, "the import fails where torch is not installed", f"{SAY}METADATA'"
    ),
    "torch-registrations": AuditRule(
        torch.torch_registrations, "the second library fails to load, or a call finds no kernel", IMPORT
    ),
    "torch-symbols": AuditRule(torch.torch_symbols, "the import fails with that torch: undefined symbol", IMPORT),
    "sycl-runtime": AuditRule(torch.sycl_runtime, "a process has two runtimes of SYCL", f"{ELF}-d {{}} +"),
    "size": AuditRule(files.size, "the index refuses the upload", "ls -l {wheel}"),
}
