"""The tables of a search: every package for a machine, from whom its wheel is, and the recipe where there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ci_tools.cli.tables.layout import Table, add_row, new_table
from ci_tools.errors import count
from ci_tools.index.finder.search import Match, Shelves, UserMachine, ask_by

ATTESTED = {"yes": "yes", "no": "no", "": "not known"}  # the words of an index


class SearchResult(NamedTuple):
    """The result of a search, and what it was for."""

    matches: Sequence[Match]
    machine: UserMachine
    shelves: Shelves


def found_tables(found: SearchResult) -> Iterator[Table]:
    """Yield the packages with a wheel, then those without one: why, and the recipe that makes it."""
    with_wheel = [match for match in found.matches if match.file]
    title = f"{count(len(with_wheel), 'package')} with a wheel for {_describe(found.machine)}"
    table = new_table(title, "package", "version", "wheel", "from", "attested")
    for match in with_wheel:
        version = f"{match.version} (newest: {match.newest})" if match.newest else match.version
        if match.file:
            whose = match.file.repository or "this index"
            add_row(table, match.project, version, match.file.name, whose, ATTESTED.get(match.file.attested, "no"))
    yield table
    without = [match for match in found.matches if not match.file]
    if without:
        table = new_table(f"{count(len(without), 'package')} without", "package", "why", "the recipe that makes it")
        for match in without:
            lines = [one["command"] or f"{one['recipe']} cannot: {one['cannot']}" for one in _recipes(match, found)]
            add_row(table, match.project, match.why, "\n".join(lines) or "none")
        yield table
    if found.shelves.form and without:
        yield new_table("", "", "", rows=[("ask for one of them", found.shelves.form)])


def _describe(machine: UserMachine) -> str:
    cuda = f"CUDA {machine.cuda}" if machine.cuda else machine.accelerator
    torch = f"torch {machine.torch}" if machine.torch else "no torch"
    return ", ".join(filter(None, (machine.system, cuda, torch, f"Python {machine.python}")))


def found_values(found: SearchResult) -> dict[str, Any]:
    """Return the result of a search as JSON values."""
    machine = found.machine
    return {
        "machine": {
            "system": machine.system,
            "accelerator": machine.accelerator,
            "torch": machine.torch,
            "python": machine.python,
        },
        "form": found.shelves.form,
        "packages": [_value(match, found) for match in found.matches],
    }


def _value(match: Match, found: SearchResult) -> dict[str, Any]:
    attested = {"yes": True, "no": False}
    return {
        "project": match.project,
        "version": match.version,
        "newest": match.newest or match.version,
        "wheel": match.file.name if match.file else None,
        "address": match.file.address if match.file else None,
        "sha256": match.file.sha256 if match.file else None,
        "repository": (match.file.repository or None) if match.file else None,  # JSON's null
        "attested": attested.get(match.file.attested) if match.file else None,
        "why": match.why,
        "recipes": _recipes(match, found),
    }


def _recipes(match: Match, found: SearchResult) -> list[dict[str, str]]:
    """Return each recipe of a package that has no wheel: its command, or why it cannot make one either."""
    makers = {maker.recipe: maker for maker in found.shelves.makers}
    return [
        {"recipe": name, "command": "" if cannot else ask_by(makers[name], found.machine), "cannot": cannot}
        for name, cannot in match.recipes
    ]
