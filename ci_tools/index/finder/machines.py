"""The machine that a search is for: this one, or another by the names of the finder's choice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.catalog.accelerators import read_label
from ci_tools.errors import InputError, nearest
from ci_tools.index.finder.search import UserMachine
from ci_tools.model.versions import Python

if TYPE_CHECKING:
    from ci_tools.install.fatwheel_backend import Facts

# As in the page's script/machine.js: the tag of each system's wheels.
SYSTEMS = {
    "linux-x86_64": "linux_x86_64",
    "linux-arm64": "linux_aarch64",
    "windows-x86_64": "win_amd64",
    "windows-arm64": "win_arm64",
    "macos-arm64": "macosx_26_0_arm64",
    "macos-x86_64": "macosx_26_0_x86_64",
}
GLIBC = "glibc 2.39"  # of a Linux elsewhere: nobody is asked for its version, so it is that of a present one
NONE = "none"
TORCH = re.compile(r"(\d{1,4}\.\d{1,4})(\.\d{1,4})?")
MINOR = re.compile(r"\d{1,4}\.\d{1,2}")


class GivenMachine(NamedTuple):
    """Values of a machine that are given to a search; an empty field is taken from this machine."""

    system: str = ""
    torch: str = ""
    cuda: str = ""
    python: str = ""
    gpu: str = ""


def describe_machine(facts: Facts, wanted: GivenMachine) -> UserMachine:
    """Return a machine: `facts` with what is wanted in their place; raise InputError for a value that none can have.

    The GPUs and the driver of this machine count only where nothing but them decides: another system or CUDA is
    another machine's.
    """
    _refuse_wrong(wanted)
    if wanted.system and wanted.system != _system_of(facts):
        libc = (facts.libc or GLIBC) if wanted.system.startswith("linux") else ""
        facts = facts._replace(platform=SYSTEMS[wanted.system], libc=libc)
    if wanted.system or wanted.cuda:
        facts = facts._replace(driver=None, driver_cuda=None, gpus=())
    if wanted.gpu:
        facts = facts._replace(gpus=(wanted.gpu,))
    if wanted.python:
        facts = facts._replace(python=wanted.python.rstrip("t"), free_threaded=wanted.python.endswith("t"))
    facts = _with_torch(facts, wanted)
    torch = facts.torch or ""
    return UserMachine(
        facts,
        _system_of(facts),
        _accelerator_of(facts),
        ".".join(torch.partition("+")[0].split(".")[:2]),
        f"{facts.python}{'t' * facts.free_threaded}",
    )


def _refuse_wrong(wanted: GivenMachine) -> None:
    if wanted.system and wanted.system not in SYSTEMS:
        raise InputError(f'--system: "{wanted.system}" is not known, {nearest(wanted.system, SYSTEMS)}')
    if wanted.python:
        try:
            Python.parse(wanted.python)
        except ValueError as error:
            raise InputError(f"--python: {error}") from error
    forms = (("torch", TORCH, "2.10"), ("cuda", MINOR, "13.0, or none"), ("gpu", MINOR, "9.0"))
    for name, form, example in forms:
        text = getattr(wanted, name)
        if text and not form.fullmatch(text) and (name, text) != ("cuda", NONE):
            raise InputError(f'--{name}: "{text}" is not a version, expected one such as {example}')


def _with_torch(facts: Facts, wanted: GivenMachine) -> Facts:
    """Return the facts with the torch that is named, for the CUDA that is named or else for this machine's."""
    cuda = wanted.cuda or facts.torch_cuda or (facts.driver_cuda if wanted.torch else None) or ""
    cuda = "" if cuda == NONE else cuda
    if wanted.torch or (wanted.cuda and facts.torch):
        version = wanted.torch or str(facts.torch).partition("+")[0]
        text = f"{version}+cu{cuda.replace('.', '')}" if cuda else version
        plain = facts._replace(torch_rocm=None, torch_xpu=None, cxx11abi=None, asked_cuda=None)
        return plain._replace(torch=text, torch_cuda=cuda or None)
    return facts._replace(asked_cuda=wanted.cuda) if wanted.cuda else facts


def _system_of(facts: Facts) -> str:
    """Return the finder's name of a system: linux-arm64 for linux_aarch64."""
    for name, tag in SYSTEMS.items():
        os, machine = name.split("-")
        if facts.platform == tag or (os == "macos" and re.fullmatch(rf"macosx_\d+_\d+_{machine}", facts.platform)):
            return name
    return facts.platform.replace("_", "-", 1)


def _accelerator_of(facts: Facts) -> str:
    """Return the label of what is accelerated: cu130, rocm7.1, xpu; "" for nothing."""
    label = (facts.torch or "").partition("+")[2]
    if (found := read_label(label)) and not (facts.torch_cuda or facts.torch_rocm or facts.torch_xpu):
        return found.label
    cuda = facts.torch_cuda if facts.torch else facts.asked_cuda or facts.driver_cuda
    if facts.torch_rocm:
        return f"rocm{'.'.join(facts.torch_rocm.split('.')[:2])}"
    if facts.torch_xpu:
        return "xpu"
    return f"cu{cuda.replace('.', '')}" if cuda and cuda != NONE else ""
