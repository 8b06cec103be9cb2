"""How long the audit of a 500 MB wheel takes, and how much memory, beside unzipping it and two other tools.

An audit reads all of a wheel, as unzipping does, and may take at most twice its time.
"""

from __future__ import annotations

import csv
import io
import os
import random
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ci_tools.formats.wheel import Hashing
from tests.builders import wheels

NAME = f"demo-1.0-cp310-abi3-linux_{wheels.MACHINE}.whl"
INFO = "demo-1.0.dist-info"
SOURCE = "extern void *PyModule_Create2(void *, int); void *PyInit__C(void) { return PyModule_Create2(0, 3); }"
LIBRARY_BYTES = 1_200_000_000
RANDOM_SHARE = 0.4  # what of device code does not compress, so that the wheel has some 500 MB
SMALL_MEMBERS = 4_000
CHUNK = 1 << 20
UNIT = 4 << 20  # bytes of one compilation unit
AUDIT = """
import resource, sys, tempfile
from pathlib import Path
from ci_tools.verify.audit import audit
with tempfile.TemporaryDirectory() as folder:
    found = audit(Path(sys.argv[1]), job=None, limits={"pypi": 1 << 40, "github": 1 << 40}, work=Path(folder))
print(*found, sep="\\n", file=sys.stderr)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(any(finding.level == "error" for finding in found))
"""


class Cost(NamedTuple):
    """What a command took."""

    seconds: float
    megabytes: float


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, figure, unit, limit); for the two others, our figure as a ratio of theirs."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = _large(Path(folder))
        yield "the wheel to audit", wheel.stat().st_size / 1e6, "MB", 600.0
        seconds, own, children = _ours(wheel)
        yield "audit a 500 MB wheel", seconds, "s", 15.0
        unzipped = _cost([sys.executable, "-m", "zipfile", "-e", str(wheel), str(Path(folder) / "unzipped")])
        yield "audit beside unzipping, ours for one of its seconds", seconds / unzipped.seconds, "x", 2.0
        yield "audit a 500 MB wheel, peak memory", own, "MB", 500.0
        yield "audit a 500 MB wheel, peak memory of abi3audit within", children, "MB", float("inf")
        for tool, command in (("auditwheel", ("auditwheel", "show")), ("abi3audit", ("abi3audit",))):
            theirs = _cost([sys.executable, "-m", *command, str(wheel)])
            yield f"audit beside {tool}, its seconds", theirs.seconds, "s", float("inf")
            yield f"audit beside {tool}, ours for one of its seconds", seconds / theirs.seconds, "x", float("inf")
            yield f"audit beside {tool}, its peak memory", theirs.megabytes, "MB", float("inf")
            yield f"audit beside {tool}, ours for one of its MB", own / theirs.megabytes, "x", float("inf")


def _ours(wheel: Path) -> tuple[float, float, float]:
    started = time.perf_counter()
    ended = subprocess.run([sys.executable, "-c", AUDIT, wheel], check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    own, children = map(int, ended.stdout.split())
    return seconds, own / 1e3, children / 1e3


def _cost(command: list[str]) -> Cost:
    """Run another tool; its verdict does not matter here."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0  # it was waited for here, to learn what it took
    return Cost(time.perf_counter() - started, usage.ru_maxrss / 1e3)


def _large(folder: Path) -> Path:
    """Write a wheel of one large library, its device code a section, and thousands of small files."""
    library = _library(folder)
    small = {f"demo/part{number // 50}/module{number}.py": _module(number) for number in range(SMALL_MEMBERS)}
    wheel, rows = folder / NAME, []
    with zipfile.ZipFile(wheel, "w") as archive, library.open("rb") as content:
        rows.append(("demo/_C.abi3.so", *_add(archive, "demo/_C.abi3.so", content)))
        members = {**small, **wheels.members_of(wheels.make(folder / "small", NAME))}
        for name, data in members.items():
            if not name.endswith("/RECORD"):
                rows.append((name, *_add(archive, name, io.BytesIO(data))))
        record = io.StringIO()
        csv.writer(record, lineterminator="\n").writerows([*rows, (f"{INFO}/RECORD", "", "")])
        archive.writestr(f"{INFO}/RECORD", record.getvalue())
    library.unlink()
    return wheel


def _add(archive: zipfile.ZipFile, name: str, content: BinaryIO) -> tuple[str, str]:
    """Write a member; return its hash and size for RECORD."""
    info, hashing = zipfile.ZipInfo(name, wheels.YESTERDAY), Hashing()
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
    with archive.open(info, "w", force_zip64=True) as sink:
        while chunk := content.read(CHUNK):
            hashing.update(chunk)
            sink.write(chunk)
    return hashing.record_value, str(hashing.size)


def _module(number: int) -> bytes:
    lines = (f"def f{line}(x):\n    return x * {line} + {number}\n" for line in range(20))
    return "".join(lines).encode()


def _library(folder: Path) -> Path:
    """Compile a library of the limited API, and add device code of which a part does not compress."""
    device, library = folder / "device", folder / "library.so"
    library.write_bytes(wheels.library(SOURCE))
    numbers, size = random.Random(0), UNIT - UNIT % 8  # noqa: S311 - the same noise each time
    head = wheels.unit(wheels.entry(wheels.SASS, 90, size=size))[:-size]
    with device.open("wb") as file:
        for _ in range(LIBRARY_BYTES // UNIT):
            file.write(head + numbers.randbytes(int(size * RANDOM_SHARE)).ljust(size, b"\2"))
    subprocess.run(["objcopy", f"--add-section=.nv_fatbin={device}", library], check=True)
    device.unlink()
    return library
