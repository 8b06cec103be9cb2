"""docs/reference/compile-units.md: what builds took that had a store of compile units, as measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from docs.pages import REPOSITORY
from docs.pages.markdown import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WHAT = """\
# What compile units save

Projects built for CUDA 13.0 by `python -m tests.proof.compile_once`, for compute capability 8.0, one of them for 9.0 as
well, each with a [store of compile units](../explanation/same-bytes.md#compile-units) that is empty at first. Some are
generated: `torch_free` has 64 kernels that know no torch, `with_c10` one that includes `c10`, and `with_shims` one that
includes what [shims](../explanation/same-bytes.md#shims) stand for, and is built for each of their torches. The others
are other people's, through their own setup.py, with the edits that
[`compile_once.toml`](../../tests/proof/compile_once.toml) names. Each build's figures are in
[`compile_once.json`](../../tests/proof/compile_once.json).

*Another commit* has a comment at the end of each `.cu`, and *a line before each kernel* moves all others, which counts
where the text has its line in it. *Keys* and *compilers* are seconds of processor time: what it took to know whether
the store has a unit, and what was compiled. *Others* is the time of the units that read none of Python's headers, as a
share of their time in the first build; *for options* counts what was compiled because
[Python's own options](../explanation/same-bytes.md#compile-units) differ. *Command* is the whole command's processor
time, with the environment, the plan and the link. Builds of equal text, Python and torch gave one wheel, byte for byte.
The machine had other work, so the seconds are more than an idle one takes. The builds of causal-conv1d without a store
and of another commit are of a later run with less beside it: its first build took 349 seconds of compilers and
made the same wheel. With its `-lineinfo`, a comment is enough for a kernel to be compiled again."""
WAYS = ("alone", "launched")
ALONE = """\
Without a store, a launcher adds to a compiler what it takes itself. One unit that sorts by CUB took nvcc
{alone} seconds of processor time, and with the launcher {launched}: the medians differ by {over:.1%}."""
RELEASE = """\
## A release

From these figures, a release for 11 torches, 4 CUDAs and 5 Pythons, whose compiler calls take as long for each: how
often all units are compiled, and the hours of runners with 4 cores. Where the second torch was not measured, or shares
nothing, torches share nothing here."""


def describe() -> Iterator[str]:
    """Give the record, one line a build."""
    record = json.loads((REPOSITORY / "tests" / "proof" / "compile_once.json").read_text(encoding="utf-8"))
    alone = record.pop("nvcc alone")
    yield WHAT
    yield from ("", ALONE.format(**{name: ", ".join(map(str, alone[name])) for name in WAYS}, over=alone["over"]))
    for name, found in record.items():
        first = found["builds"]["first"]
        units = f"{first['compiled'] + first['plain']} units, {first['of Python']} of them with Python's headers"
        yield from ("", f"## {name}", "", f"{units}; measured on {found['date']}.")
        heads = ("build", "taken", "compiled", "for options", "keys", "compilers", "share", "others", "command")
        yield from table(heads, (_row(step, row) for step, row in found["builds"].items()))
    yield from ("", RELEASE)
    heads = ("project", *(f"{what} shared" for what in next(iter(record.values()))["release"]))
    yield from table(heads, ((name, *map(_sets, found["release"].values())) for name, found in record.items()))


def _row(step: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    taken, share = row["unchanged"] + row["same text"], row["share of others"]
    seconds = (f"{row['asking']:.1f} s", f"{row['compiling']:.1f} s")
    shares = (f"{row['share']:.1%}", "" if share is None else f"{share:.1%}", f"{row['command']:.0f} s")
    counts = (taken, row["compiled"] + row["plain"], row.get("options", 0))
    return (step, *map(str, counts), *seconds, *shares)


def _sets(found: Mapping[str, float]) -> str:
    return f"{found['sets']} sets, {found['runner hours']:.2f} h"
