"""docs/reference/*-failures.md: the causes of failures that are known, from the tables in ci_tools/catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.catalog.failures import BUILD, INSTALL, TRIAL, explain, read_causes
from ci_tools.catalog.tables import read
from ci_tools.index.finder import causes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HEADS: Mapping[str, str] = {
    BUILD: """\
# Why builds fail

When a build fails, `fatwheel build` and `fatwheel release` look for the first of these causes in what the compilers and
the backend printed. The error names it, quotes the line that shows it, and says what helps. What comes after that line
is mostly its consequence. An error that none of these explains has the log's last lines and no hint. An error in a
program that a build only tries (of CMake, Meson, autoconf or setuptools) counts for nothing.

A build that takes longer than its time limit is ended: `timeout-minutes` in the config allows more.""",
    INSTALL: """\
# Why packages cannot be installed or loaded

What `fatwheel install explain` and the [page of an index](../how-to/install-from-the-index.md#when-it-does-not-work)
answer to what pip, uv, compilers and Python's loader print. The first line that one of these causes knows decides, an
error before a warning and a cause before its usual consequences; if several know it, the first of this page does. An
answer has what mends it, or, where more than one thing could, what to look at. Where none knows a line, the first with
an error in it is the answer, as [compiler-error](#compiler-error) and those after it say. What Fatwheel itself installs
for a build or a trial is explained like this, with what a config can do.""",
    TRIAL: """\
# Why trials fail

What a wheel says that is installed and audited, and cannot be used: the imports and commands of `validate`.""",
}


def describe(table: str) -> Iterator[str]:
    """Yield a section for each cause: what it is, what helps, and the words of a real tool."""
    yield HEADS[table]
    if table == INSTALL:
        yield from describe_answers()
        return
    for cause in read_causes(table):
        found = explain(cause.example, table)
        if found is None:
            raise ValueError(f"{cause.name} does not explain its own example")
        yield from ("", f"## {cause.name}", "", f"{found.says[:1].upper()}{found.says[1:]}. What helps: {found.hint}.")
        yield from ("", "```text", *cause.example.splitlines(), "```", "", f"({cause.tool})")


def describe_answers() -> Iterator[str]:
    """Yield a section for each cause: what is wrong, what mends it or what to look at, and the words of a real tool."""
    for name, row in read(INSTALL).items():
        answer = causes.explain(row["example"])
        if answer is None or answer.name != name:
            raise ValueError(f"{name} does not explain its own example")
        says, helps = causes.describe(answer)
        hint = f" In a config: {row['hint']}." if "hint" in row else ""
        yield from ("", f"## {name}", "", says, "", f"{helps}{hint}")
        yield from ("", "```text", *row["example"].strip("\n").splitlines(), "```", "", f"({row['tool']})")
