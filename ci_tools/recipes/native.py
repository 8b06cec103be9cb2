"""Reads the GPU architectures of this machine, for a wheel that is built where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.errors import InputError
from ci_tools.machine.process import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_tools.machine.context import Outside

__all__ = ["read_archs"]

NATIVE = "native"
ASK = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")


def read_archs(archs: Sequence[str], outside: Outside) -> tuple[str, ...]:
    """Return architectures with those of this machine's GPUs in the place of `native`.

    Raises InputError if no GPU answers: what a config writes must not depend on luck.
    """
    if NATIVE not in archs:
        return tuple(archs)
    answer = output(ASK, env=dict(outside.environ)) or ""
    found = sorted({line.strip() for line in answer.splitlines() if line.strip()}, key=_by_number)
    if not found:
        msg = "--archs native: no GPU of this machine answers (nvidia-smi), expected architectures such as 8.9"
        raise InputError(msg)
    outside.reporter.say(f"--archs native: {', '.join(found)}")
    return tuple(dict.fromkeys(one for arch in archs for one in (found if arch == NATIVE else [arch])))


def _by_number(arch: str) -> tuple[int, ...]:
    return tuple(int(part) for part in arch.split(".") if part.isdigit())
