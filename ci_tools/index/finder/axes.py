"""The machines that a wheel is for by its tags and its folder, where no release says so: of one that others built."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import parse_wheel_filename

from ci_tools.model.versions import Minor, Python

if TYPE_CHECKING:
    from packaging.tags import Tag

    from ci_tools.index.finder.shelf import File


# The machines that a wheel for any platform is offered for.
MACHINES = (
    *(("linux", "x86_64"), ("linux", "aarch64"), ("windows", "amd64"), ("windows", "arm64")),
    *(("macos", "arm64"), ("macos", "x86_64")),
)
PLATFORM = re.compile(r"(?P<os>linux|manylinux|musllinux|macosx|win)[0-9_]*?_?(?P<machine>[a-z][a-z0-9_]*|32)")
OS = {"manylinux": "linux", "musllinux": "linux", "macosx": "macos", "win": "windows"}
INTERPRETER = re.compile(r"(cp|py)(\d)(\d*)")
EITHER = {"universal2": ("arm64", "x86_64")}


class Combination(NamedTuple):
    """A machine as the page's choice has it."""

    os: str
    machine: str
    accelerator: str  # cu130; empty: none
    torch: str  # 2.10; empty: any
    python: str  # 3.14t


def combinations(file: File, torches: Iterable[str], pythons: Iterable[Python]) -> Iterator[Combination]:
    """Yield the machines that a wheel is for: `torches` are those of one that names none, `pythons` all known ones."""
    lock, (_, _, _, tags) = file.lock, parse_wheel_filename(file.name)
    accelerators = [f"cu{version.replace('.', '')}" for version in lock.serves if version] if lock else []
    accelerators += [f"rocm{lock.rocm}"] if lock and lock.rocm else ["xpu"] if lock and lock.xpu else []
    own = [lock.torch[0]] if lock and lock.torch else list(torches)
    exact = (INTERPRETER.fullmatch(tag.interpreter) for tag in tags if tag.abi.startswith("cp"))
    named = {Python(Minor(int(one[2]), int(one[3])), free_threaded=False) for one in exact if one and one[3]}
    known = sorted({*pythons, *named})
    machines = dict.fromkeys(machine for tag in sorted(tags, key=str) for machine in name_machine(tag.platform))
    served = [python for python in known if any(_serves(tag, python) for tag in tags)]
    every = itertools.product(machines, accelerators or [""], own or [""], served)
    for (os, machine), accelerator, torch, python in every:
        yield Combination(os, machine, accelerator, torch, str(python))


def name_machine(platform: str) -> tuple[tuple[str, str], ...]:
    """Return the systems and machines of a platform's tag: all for `any`, none if it is of another kind."""
    if platform == "any":
        return MACHINES
    found = PLATFORM.fullmatch(platform)
    if found is None:
        return ()
    machine = found["machine"]
    return tuple((OS.get(found["os"], found["os"]), one) for one in EITHER.get(machine, (machine,)))


def _serves(tag: Tag, python: Python) -> bool:
    """Return whether a Python loads a wheel of that tag (PEP 425; PEP 803 for abi3t)."""
    found = INTERPRETER.fullmatch(tag.interpreter)
    if found is None:
        return False
    lowest = Minor(int(found[2]), int(found[3] or 0))
    if tag.abi in {"none", "abi3", "abi3t"} and python.version.major == lowest.major:
        is_for_threads = tag.abi != "abi3" if python.free_threaded else tag.abi != "abi3t"
        is_exact = tag.abi == "none" and found[1] == "cp"
        return is_for_threads and (python.version == lowest if is_exact else python.version >= lowest)
    return tag.abi == f"cp{lowest.digits}{'t' if python.free_threaded else ''}" and python.version == lowest
