"""docs/reference/*-failures.md: the causes of failures that are known, from the tables in ci_tools/catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.catalog.failures import BUILD, INSTALL, TRIAL, explain, read_causes

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
# Why requirements cannot be installed

What pip and uv say when they cannot install what a build or a trial needs.""",
    TRIAL: """\
# Why trials fail

What a wheel says that is installed and audited, and cannot be used: the imports and commands of `validate`.""",
}


def describe(table: str) -> Iterator[str]:
    """Yield a section for each cause: what it is, what helps, and the words of a real tool."""
    yield HEADS[table]
    for cause in read_causes(table):
        found = explain(cause.example, table)
        if found is None:
            msg = f"{cause.name} does not explain its own example"
            raise ValueError(msg)
        yield from ("", f"## {cause.name}", "", f"{found.says[:1].upper()}{found.says[1:]}. What helps: {found.hint}.")
        yield from ("", "```text", *cause.example.splitlines(), "```", "", f"({cause.tool})")
