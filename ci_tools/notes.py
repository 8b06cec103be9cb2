"""The notes of a release as Markdown: how to install it, and what each file is."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from ci_tools import markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_tools.release import Item, Unit

__all__ = ["MOST_CHARACTERS", "notes"]

MOST_CHARACTERS = 125_000  # that GitHub takes as the notes of a release
HEAD = (
    "| File | Platform | Accelerator | Python | torch | Architectures | Size |",
    "|---|---|---|---|---|---|--:|",
)
REST = "\nAnd {count:,} more: every file is among the assets below, and its sha256 in their `fatwheel-*.json`.\n"
UNATTESTED = "The files are not attested: nothing that GitHub signed says which run made them."
FENCE = "`" * 3


def notes(unit: Unit, index_addresses: Sequence[str] = (), *, links: str = "", most: int = MOST_CHARACTERS) -> str:
    """Return a release's notes, of at most `most` characters: a table that is longer ends with where the rest is.

    They are empty where not even the commands fit. `links` is the address of a page that has a link to every file, for
    those who install without an index.
    """
    head = "\n".join([*_installing(unit, index_addresses, links), "### Files", "", *HEAD, ""])
    sums = (f"\n<details><summary>sha256</summary>\n\n{FENCE}\n", f"{FENCE}\n\n</details>\n")
    tail = "\n".join(["", *_origin(unit)])
    items = sorted(unit.items, key=lambda item: (item.made is None, item.name))
    lines = [(_row(item), f"{item.sha256}  {markdown.one_line(item.name).replace('`', ' ')}\n") for item in items]
    room = most - len(head) - len("".join(sums)) - len(tail) - len(REST) - len(str(len(items)))
    shown = _fitting(lines, room)
    rest = REST.format(count=len(items) - len(shown)) if len(shown) < len(items) else ""
    rows, hashes = ("".join(column) for column in zip(*shown, strict=True)) if shown else ("", "")
    whole = "".join([head, rows, rest, sums[0], hashes, sums[1], tail])
    return whole if len(whole) <= most else ""


def _fitting(lines: Sequence[tuple[str, str]], room: int) -> Sequence[tuple[str, str]]:
    """Return the first lines that fit into `room` characters."""
    ends = accumulate(len(row) + len(sha256) for row, sha256 in lines)
    return lines[: sum(end <= room for end in ends)]


def _installing(unit: Unit, index_addresses: Sequence[str], links: str) -> list[str]:
    """Return the commands that install the release."""
    commands = [f'pip install "{unit.project}=={unit.version}" --extra-index-url {one}' for one in index_addresses]
    if links:
        commands += [f'pip install "{unit.project}=={one}" --find-links {links}' for one in _versions(unit)]
    if not commands:
        return []
    lines = (markdown.one_line(command).replace("`", "%60") for command in commands)
    return ["### Install", "", f"{FENCE}sh", *lines, FENCE, ""]


def _versions(unit: Unit) -> list[str]:
    """Return what a user may choose from: each local version, since pip prefers any of them to none."""
    wheels = (item.name for item in unit.items if item.made)
    return sorted({name.split("-")[1] for name in wheels if "+" in name.partition("-")[2].partition("-")[0]}) or [
        unit.version
    ]


def _row(item: Item) -> str:
    """Return one line of the table."""
    made = item.made
    cells = (
        markdown.code(item.name),
        markdown.text(made.platform or "any" if made else "source"),
        markdown.text(_accelerators(item)),
        markdown.text(_pythons(item)),
        markdown.text(made.torch if made else ""),
        markdown.text(" ".join(made.archs) if made else ""),
        markdown.size(item.size).replace(" ", "&nbsp;"),
    )
    return f"| {' | '.join(cells)} |\n"


def _accelerators(item: Item) -> str:
    """Return what an item was built for, and what else lists it."""
    own = item.made.accelerator if item.made else ""
    return " ".join(dict.fromkeys(filter(None, (own, *item.also))))


def _pythons(item: Item) -> str:
    """Return which Python it is for, a plus where newer ones take it as well."""
    if not item.made:
        return ""
    tags = item.name.removesuffix(".whl").rsplit("-", 3)[1:3]
    newer = "abi3" in tags or tags[:1] == ["py3"]
    return f"{item.made.python}{'+' if newer and item.made.python else ''}"


def _origin(unit: Unit) -> list[str]:
    """Return what the files were built from, and with what."""
    native = (item.made for item in unit.items if item.made and item.made.kind == "native")
    toolchains = sorted({f"{made.accelerator or 'CPU'} by the toolchain {made.toolchain}" for made in native})
    built = [f"Compiled for {markdown.text(', '.join(toolchains))}."] if toolchains else []
    commit = [f"Commit {markdown.text(unit.commit)}."] if unit.commit else []
    signed = [UNATTESTED] if unit.unattested else []
    return [" ".join([*commit, *built, *signed]), ""] if commit or built or signed else []
