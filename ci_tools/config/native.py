"""Reads the GPU architectures of this machine, for a wheel that is built where it is used."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ci_tools.errors import InputError
from ci_tools.machine.context import Outside
from ci_tools.machine.process import output

NATIVE = "native"
CAPABILITY = re.compile(r"[0-9]{1,2}\.[0-9]")  # as nvidia-smi prints it: 8.9, 12.0
ASK = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")


def read_archs(archs: Sequence[str], outside: Outside | None, where: str = "--archs") -> tuple[str, ...]:
    """Return architectures with those of this machine's GPUs in the place of `native`.

    Raises InputError if no GPU answers: what a config writes must not depend on luck. `where` says who names them.
    """
    if NATIVE not in archs:
        return tuple(archs)
    if outside is None:
        raise InputError(f"{where} native: this reads the config for no machine, expected architectures such as 8.9")
    answer = output(ASK, env=dict(outside.environ)) or ""  # None without a driver
    known = {line.strip() for line in answer.splitlines() if CAPABILITY.fullmatch(line.strip())}
    found = sorted(known, key=lambda arch: [int(part) for part in arch.split(".")])  # 12.0 is above 8.9
    if not found:
        msg = f"{where} native: no GPU of this machine answers (nvidia-smi), expected architectures such as 8.9"
        hint = f"`{' '.join(ASK)}` prints them on the machine that is to run the wheel; write them in its place"
        raise InputError(msg, hint=hint)
    outside.reporter.say(f"{where} native: {', '.join(found)}")
    return tuple(dict.fromkeys(one for arch in archs for one in (found if arch == NATIVE else [arch])))


def resolve_native(root: Mapping[str, Any], config: str, outside: Outside | None) -> dict[str, Any]:
    """Return the values of a config with this machine's architectures where a platform says `archs: native`.

    Raises InputError if no GPU answers, or if no machine is asked (`outside` is None).
    """
    spelled = spell_native(root)
    tables = spelled.get("platforms")
    if not isinstance(tables, dict):
        return spelled
    for name, table in tables.items():
        archs = table.get("archs") if isinstance(table, dict) else None
        if isinstance(archs, list) and NATIVE in archs:
            tables[name] = {**table, "archs": list(read_archs(archs, outside, f"{config}: {name}: archs:"))}
    return spelled


def spell_native(root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a config with a list of one where a platform says `archs: native`."""
    tables = root.get("platforms")
    if not isinstance(tables, dict):
        return dict(root)
    spelled = {
        name: {**table, "archs": [NATIVE]} if isinstance(table, dict) and table.get("archs") == NATIVE else table
        for name, table in tables.items()
    }
    return {**root, "platforms": spelled}
