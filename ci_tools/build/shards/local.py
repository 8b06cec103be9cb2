"""Compiles the shards of a job on this machine, each in a process of its own.

The build's folder has the same path everywhere, as the bytes depend on it. So each process gets a /tmp of its own from
the kernel (unshare(1)); where there is none to be had, the shards take turns.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.build.folders import base_folder, own_compilers
from ci_tools.build.shards.assignment import ShardNumber
from ci_tools.build.shards.handover import SHARDS
from ci_tools.build.shards.parts import list_units
from ci_tools.machine.context import Outside
from ci_tools.machine.process import Ended, complaint, output, run, start_module
from ci_tools.machine.storage import write_atomically
from ci_tools.plan import plan_file

if TYPE_CHECKING:
    from ci_tools.plan.make import Planned

WAYS = (("unshare", "--mount"), ("unshare", "--map-root-user", "--mount"))  # for root, and for other users
# All but the folder by which the compilers of every build share the machine's memory (`units.gate`).
OWN = 'mkdir -p "$0/${2##*/}" && mount --bind "$2" "$0/${2##*/}" && mount --rbind "$0" "$1" && shift 2 && exec "$@"'


def compile_here(planned: Planned, name: str, total: int, out: Path, outside: Outside) -> None:
    """Compile the shards of a job side by side; report one that fails: the link compiles its units."""
    ShardNumber.parse(f"1/{total}")  # refuses what --shard would
    listed = list_units(planned, name, out, outside)
    outside.reporter.say(listed.describe())
    if listed.whole:
        return
    config = (planned.config or planned.tree.root / planned.plan.request.config).absolute()
    folder = (out / SHARDS / name).absolute()
    with write_atomically(folder / plan_file.PLAN) as file:
        file.write(plan_file.dumps(planned.plan).encode())
    way = _find_way((config, planned.tree.root.absolute(), out.absolute(), outside.cache, Path(sys.prefix)))
    if not way:
        outside.reporter.say("the shards take turns: this machine gives them no /tmp of their own")
    command = [*start_module("ci_tools"), "build", str(config), "--plan", str(folder / plan_file.PLAN), "--job", name]
    command += ["--out", str(out.absolute()), *(["--trust-source"] if outside.trusts_source else [])]

    def compile_one(number: int) -> Ended:
        shard = ShardNumber(number, total)
        with tempfile.TemporaryDirectory(dir=folder, prefix="tmp", ignore_cleanup_errors=True) as own:
            shared = (own, str(base_folder()), str(own_compilers(base_folder())))
            words = [*way, "sh", "-c", OWN, *shared] if way else []
            log = folder / f"{shard.folder}.log"
            return run([*words, *command, "--shard", f"{number}/{total}"], log=log, env=outside.environ)

    with ThreadPoolExecutor(total if way else 1) as pool:
        for number, ended in enumerate(pool.map(compile_one, range(1, total + 1)), 1):
            if ended.status:
                outside.reporter.say(f"shard {number}/{total} failed: {complaint(ended)}; log: {ended.log}")


def _find_way(places: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the command that gives a process a /tmp of its own; () if none does, or if one of the places is there."""
    if any(place.resolve().is_relative_to(base_folder()) for place in places):  # a mount would hide it
        return ()
    return next((way for way in WAYS if output([*way, "true"]) is not None), ())  # containers often forbid it
