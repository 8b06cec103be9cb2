"""Wheels to audit: what a good one is called, and how to spoil it in a single way."""

from __future__ import annotations

import zipfile
from pathlib import Path

from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.model.files import Finding, Level
from ci_tools.model.plan import Job, JobKind
from ci_tools.model.platforms import Accelerator, Platform
from ci_tools.model.request import ToolchainKind
from ci_tools.model.versions import Minor, Python
from ci_tools.verify.audit import audit
from tests.builders import wheels
from tests.builders.wheels import LINUX, MACHINE, edited, make
from tests.builders.windows import dll

LIMITS = {"pypi": 100_000, "github": 200_000}
INFO = "demo-1.0.dist-info"
SBOM = f"{INFO}/sboms/fatwheel.cdx.json"
PE = dll(exports=("PyInit__C", "PyInit_c"))  # for Windows on x86-64
MANYLINUX = f"demo-1.0-py3-none-manylinux2014_{MACHINE}.manylinux_2_17_{MACHINE}.whl"
WINDOWS = "demo-1.0-cp312-cp312-win_amd64.whl"
MACOS = "demo-1.0-cp312-cp312-macosx_11_0_universal2.whl"
OLD = "int getpid(void); int ours(void) { return getpid(); }"
NEWER = "int getrandom(void *, unsigned long, unsigned); int ours(void) { return getrandom(0, 0, 0); }"  # glibc 2.25
TORCH_FIELD = "Requires-Dist: torch\n"


def planned(wheel: str, *archs: str) -> Job:
    """The plan's job for a wheel: pure, or for CUDA where it names architectures."""
    return Job(
        name="job",
        kind=JobKind.NATIVE if archs else JobKind.PURE,
        platform=Platform.LINUX_CUDA if archs else None,
        python=Python(Minor(3, 10)),
        python_stays=False,
        torch=None,
        accelerator=Accelerator(CUDA, Minor(13, 0)) if archs else None,
        archs=archs,
        runner="",
        owner=None,
        wheel=wheel,
        wheel_platform="",
        requires_torch="",
        toolchain=ToolchainKind.AUTO,
        env=(),
        covers=(),
    )


def findings(wheel: Path, job: Job | None = None) -> tuple[Finding, ...]:
    return audit(wheel, job=job, limits=LIMITS, work=wheel.parent / "work")


def raw(wheel: Path, name: str, data: bytes = b"", mode: int = 0o100644) -> Path:
    """Append a member as it is, RECORD with it."""
    info = zipfile.ZipInfo("placeholder" if "\\" in name else name)
    info.filename, info.external_attr = name, mode << 16
    record = f"{INFO}/RECORD"
    rows = wheels.members_of(wheel)[record] + f"{name},{wheels.digest(data)},{len(data)}\n".encode()
    edited(wheel, {record: rows}, record=False)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(info, data)
    return wheel


def rewritten(wheel: Path, file: str, old: str, new: str) -> Path:
    """Replace text in a file of dist-info, and mend RECORD."""
    content = wheels.members_of(wheel)[f"{INFO}/{file}"].decode()
    assert old in content
    return edited(wheel, {f"{INFO}/{file}": content.replace(old, new).encode()}, record=file != "RECORD")


def native(folder: Path, library: bytes, name: str = LINUX, file: str = "demo/_C.so") -> Path:
    return make(folder, name, {"demo/__init__.py": b"", file: library})


def seen(found: tuple[Finding, ...]) -> set[tuple[str, str, Level]]:
    return {(finding.rule, finding.found, finding.level) for finding in found}
