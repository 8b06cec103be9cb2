"""What the build of a CUDA extension fetches and takes, beside an installed torch and its CUDA: from the package index.

Of the usual way only the sizes are read: what pip would fetch for torch, with its CUDA libraries, and for a compiler.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ci_tools import catalog
from ci_tools.build.sdk.cuda_libraries import fetch_libraries
from ci_tools.build.sdk.offers import find_offers, open_parts
from ci_tools.build.sdk.torch_choice import Wanted, find_torch
from ci_tools.catalog.providers import parts_for
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.remote_wheel import RemoteFile
from ci_tools.machine.runner import host
from ci_tools.model.versions import Minor

CUDA, MB = Minor(13, 0), 1e6
FIRST, FURTHER = "==2.13.*", "==2.14.*"
COMPILER = ("nvcc", "cudart", "cccl")
PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"


@dataclass
class Counter(Silent):
    """A reporter that adds up the megabytes that steps say they have fetched."""

    fetched: list[float] = field(default_factory=list)

    def result(self, text: str) -> None:
        self.fetched.append(float(text.split(" MB", maxsplit=1)[0]))


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, figure, unit, limit), with an empty cache; the aims are those of the build torch."""
    toolkit = catalog.load().cuda[CUDA].pypi
    compiler, unpacked = _add_up(f"cuda-toolkit[{','.join(COMPILER)}]=={toolkit}")
    torch, installed = _add_up("torch==2.13.0")
    usual = compiler + torch
    with tempfile.TemporaryDirectory() as folder:
        counter = Counter()
        outside = Outside(environ=os.environ, cache=Path(folder), reporter=counter)
        began = _processor()
        _fetch(FIRST, outside)
        fetch_libraries(toolkit, parts_for((), torch=True), outside)
        seconds, parts = _processor() - began, sum(counter.fetched)
        disk = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / MB
        counter.fetched.clear()
        _fetch(FURTHER, outside)
        further = sum(counter.fetched)
        began = _processor()
        _fetch(FIRST, outside)
        warm = _processor() - began
    yield "a CUDA wheel: fetched, with the compiler", compiler + parts, "MB", 150
    yield "the same with an installed torch and its CUDA", usual, "MB", 10_000
    yield "a CUDA wheel: fetched, beside the usual way", (compiler + parts) / usual, "x", 0.1
    yield "a further torch: fetched", further, "MB", 45
    yield "torch and CUDA's libraries: set up, without the compiler", seconds, "s", 15
    yield "torch and CUDA's libraries: set up, from the cache", warm, "s", 5
    yield "torch and CUDA's libraries: on the disk", disk, "MB", 150
    yield "the same with an installed torch and its CUDA: on the disk", installed, "MB", 20_000
    yield (
        "a CUDA wheel: on the disk, with the compiler, beside the usual way",
        (unpacked + disk) / (unpacked + installed),
        "x",
        0.1,
    )


def _processor() -> float:
    """Return the processor's seconds of this process and of those it started: other work takes nothing away."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _fetch(version: str, outside: Outside) -> None:
    wanted = Wanted(SpecifierSet(version), CUDA_LABEL, PYTHON)
    find_torch(wanted, catalog.load(), outside, outside.environ)


CUDA_LABEL = f"cu{CUDA.digits}"


def _add_up(text: str) -> tuple[float, float]:
    """Return the megabytes that pip would fetch for a requirement, and those of the files it would write."""
    fetched, written = zip(*_sizes(text), strict=True)
    return sum(fetched) / MB, sum(written) / MB


def _sizes(text: str, seen: set[str] | None = None) -> Iterator[tuple[int, int]]:
    """Yield the bytes of each wheel that pip would fetch, and of its files: NVIDIA's, triton and the named one."""
    seen = set() if seen is None else seen
    wanted = Requirement(text)
    with find_offers(wanted.name, {**os.environ, "PIP_FIND_LINKS": os.devnull}) as offers:
        fitting = [
            one
            for one in offers.wheels
            if one.is_for(host()) and one.is_for_python(PYTHON) and wanted.specifier.contains(one.version)
        ]
        offer = max(fitting, key=lambda one: one.version)
        seen.add(wanted.name)
        size = RemoteFile(offers.session, offer.url).size
        with open_parts(offer, offers.session, print) as parts:
            member = next(name for name in parts.names if name.endswith(".dist-info/METADATA"))
            said = message_from_bytes(parts.peek(member)).get_all("Requires-Dist") or []
            yield size, sum(info.file_size for info in parts.archive.infolist())
    for one in _asked_for(map(Requirement, said), wanted.extras):
        if one.name not in seen or one.extras:
            yield from _sizes(f"{one.name}[{','.join(one.extras)}]{one.specifier}", seen)


def _asked_for(requirements: Iterable[Requirement], extras: set[str]) -> Iterator[Requirement]:
    for one in requirements:
        is_cuda = one.name.startswith(("nvidia-", "cuda-", "triton"))
        if is_cuda and (not one.marker or any(one.marker.evaluate({"extra": extra}) for extra in extras or {""})):
            yield one


if __name__ == "__main__":
    for figure in measure():
        print(*figure)  # noqa: T201 - it is what was asked for
