"""Says which wheels zig can compile, and for which machine and glibc; refuses those that link with torch.

Its C++ standard library is LLVM's, linked in, while torch has GCC's: an exception that leaves torch cannot be caught
behind zig's, and ends the process. nvcc refuses zig as its host compiler.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_tools.errors import Rejected
from ci_tools.formats.linking import linking
from ci_tools.formats.wheel import open_wheel
from ci_tools.model.pep440 import name_of_required

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ci_tools.model.plan import Job

__all__ = ["PAGE", "RUST", "explain_refusal", "refuse_linked_torch", "refuse_requirements", "target_of"]

PAGE = "how-to/choose-a-toolchain.md#an-older-glibc-than-this-machines"
LEVEL = re.compile(r"manylinux_2_(\d+)_(x86_64|aarch64)")
OLDEST = 17  # the glibc 2.x that zig's headers and symbols start with
TORCH = re.compile(r"lib(torch|c10)\w*\.so.*")
RUST = frozenset({"maturin", "setuptools-rust"})
WHY = "its C++ library lets no exception of torch be caught"


def target_of(wheel_platform: str) -> str:
    """Return zig's name of the machine and glibc of a platform tag, `x86_64-linux-gnu.2.28`; "" if it has none."""
    level = LEVEL.fullmatch(wheel_platform)
    return f"{level[2]}-linux-gnu.2.{level[1]}" if level and int(level[1]) >= OLDEST else ""


def explain_refusal(job: Job) -> str:
    """Return why zig does not compile a job's wheel, or "" if it can."""
    if job.accelerator is not None:
        return f"zig compiles for no GPU, and no compiler for one takes it as host compiler ({job.accelerator.label})"
    if job.torch is not None:
        return f"zig compiles nothing that may link with torch: {WHY}"
    if not target_of(job.wheel_platform):
        return f"zig links with glibc from 2.{OLDEST} on, not {job.wheel_platform}"
    return ""


def refuse_requirements(requirements: Iterable[str]) -> None:
    """Raise Rejected if a build that zig is to compile requires torch, or compiles Rust."""
    named = {name_of_required(one): one for one in requirements}
    if "torch" in named:
        msg = f'the build requires "{named["torch"]}", and zig compiles nothing that may link with torch: {WHY}'
        raise Rejected(msg, hint="name torch in the config, or another `toolchain`", page=PAGE)
    if rust := RUST & named.keys():
        msg = f'the build requires "{named[min(rust)]}": it compiles Rust, and zig takes C and C++ only'
        raise Rejected(msg, hint="choose another `toolchain`; maturin has a `--zig` of its own", page=PAGE)


def refuse_linked_torch(wheel: Path) -> None:
    """Raise Rejected if a library in a wheel that zig has compiled links with torch."""
    opened = open_wheel(wheel)
    with opened.archive:
        for info in opened.libraries:
            with opened.archive.open(info) as library:
                needed = linking(library).needed  # type: ignore[arg-type]  # it can seek
            if name := next(filter(TORCH.fullmatch, needed), None):
                msg = f"{info.filename} links with {name}, and zig has compiled it: {WHY}"
                raise Rejected(msg, hint="choose another `toolchain`", page=PAGE)
