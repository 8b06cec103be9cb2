"""The notes of a release in Markdown: how to install it, and a table of its files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import count
from ci_tools.formats import markdown

if TYPE_CHECKING:
    from ci_tools.index.units import Item, Unit

MAX_CHARACTERS = 125_000  # GitHub's limit for the notes of a release
HEAD = ("| File | Platform | Accelerator | Python | torch | Architectures | Size |", "|---|---|---|---|---|---|--:|")
BUILT_HEAD = ("| Files | Compiler | Toolkit | Device code | torch | Python | Image |", "|---|---|---|---|---|---|---|")
FEW = 3  # names in one sentence
MAX_LINES = 40  # of the tables of builds and of trials
REST = "\nAnd {count:,} more: every file is among the assets below, and its sha256 in their `fatwheel-*.json`.\n"
UNATTESTED = "The files are not attested: nothing that GitHub signed says which run made them."
FENCE = "`" * 3  # of a block of code


def notes(unit: Unit, index_addresses: Sequence[str] = (), *, links: str = "", most: int = MAX_CHARACTERS) -> str:
    """Return a release's notes, at most `most` characters long: a table that is too long is cut and refers to the rest.

    They are empty if even the install commands do not fit. `links` is the address of a page with a link to every file,
    for users who install without an index.
    """
    added = [f"## Added: {markdown.text(unit.added)}", ""] if unit.added else []
    head = "\n".join([*added, *_installing(unit, index_addresses, links), "### Files", "", *HEAD, ""])
    sums = (f"\n<details><summary>sha256</summary>\n\n{FENCE}\n", f"{FENCE}\n\n</details>\n")
    tail = "\n".join(["", *_aliases(unit), *_trials(unit), *_building(unit), *_origin(unit)])
    items = sorted(unit.items, key=lambda item: (item.made is None, item.name))  # the sdist last
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
    return lines[: sum(end <= room for end in ends)]  # ends grow, so this counts the first ones


def _installing(unit: Unit, index_addresses: Sequence[str], links: str) -> list[str]:
    """Return the commands that install the release."""
    commands = [f'pip install "{unit.project}=={unit.version}" --extra-index-url {one}' for one in index_addresses]
    if links:
        commands += [f'pip install "{unit.project}=={one}" --find-links {links}' for one in _versions(unit)]
    if not commands:
        return []
    lines = (markdown.one_line(command).replace("`", "%60") for command in commands)  # it would end the block
    return ["### Install", "", f"{FENCE}sh", *lines, FENCE, ""]


def _versions(unit: Unit) -> list[str]:
    """Return the versions to choose from: each local version, since pip prefers any of them to none."""
    wheels = (item.name for item in unit.items if item.made)
    versions = {name.split("-")[1] for name in wheels}
    return sorted(version for version in versions if "+" in version) or [unit.version]


def _row(item: Item) -> str:
    """Return an item's line in the table."""
    made = item.made
    own = item.made.accelerator if item.made else ""
    cells = (
        markdown.code(item.name),
        markdown.text(made.platform or "any" if made else "source"),
        markdown.text(" ".join(dict.fromkeys(filter(None, (own, *item.also))))),
        markdown.text(_pythons(item)),
        markdown.text(made.torch if made else ""),
        markdown.text(" ".join(made.archs) if made else ""),
        markdown.size(item.size).replace(" ", "&nbsp;"),
    )
    return f"| {' | '.join(cells)} |\n"


def _pythons(item: Item) -> str:
    """Return the Python of an item, with a plus if newer ones can use it too."""
    if not item.made:
        return ""
    tags = item.name.removesuffix(".whl").rsplit("-", 3)[1:3]
    newer = "abi3" in tags or tags[:1] == ["py3"]  # PEP 384's ABI is that of every later Python
    return f"{item.made.python}{'+' if newer and item.made.python else ''}"


def _aliases(unit: Unit) -> list[str]:
    """Return the line on the files that have second names of wheels."""
    if not unit.aliases:
        return []
    name = markdown.code(min(alias.name for alias in unit.aliases))
    line = f"{count(len(unit.aliases), 'more file')} for a `setup.py` that asks for such names, as {name}."
    return [f"{line} Other installers refuse them, and nothing attests them.", ""]


def _trials(unit: Unit) -> list[str]:
    """Return the lines on which wheels were tried on a GPU, and which were not."""
    found: dict[str, list[str]] = {}
    for item in sorted(unit.items, key=lambda item: item.name):
        if item.gpu:
            found.setdefault(item.gpu, []).append(item.name)
    if not found:
        return []
    whole = sum(map(len, found.values()))
    told = ((f"{words[:1].upper()}{words[1:]}", names) for words, names in sorted(found.items()))
    lines = [f"- {markdown.text(sentence)}: {_counted(names, whole)}" for sentence, names in told]
    return ["### Trials", "", *_first(lines, "- {}"), ""]


def _first(lines: list[str], form: str) -> list[str]:
    """Return the first lines of a long list, and the number of the others."""
    more = [form.format(f"And {len(lines) - MAX_LINES:,} more.")] if len(lines) > MAX_LINES else []
    return [*lines[:MAX_LINES], *more]


def _counted(names: Sequence[str], whole: int) -> str:
    """Return the names of a few wheels, or the number of many out of the whole."""
    if len(names) > FEW:
        number = len(names)
        return f"all {number} wheels for GPUs" if number == whole else f"{number} wheels for GPUs of {whole}"
    return ", ".join(map(markdown.code, names))


class _Same(NamedTuple):
    """The build properties that the wheels of one row share; their Python and torch may differ."""

    platform: str
    accelerator: str
    compiler: str
    toolkit: str
    archs: str
    image: str


def _building(unit: Unit) -> list[str]:
    """Return the table of the tools that the files were built with: one row for all files with the same tools."""
    rows: dict[_Same, list[Item]] = {}
    for item in unit.items:
        if any(item.built_with):
            rows.setdefault(_same(item), []).append(item)
    if not rows:
        return []
    lines = [_built_row(same, rows[same]) for same in sorted(rows)]
    return ["### Built with", "", *BUILT_HEAD, *_first(lines, "| {} |"), ""]


def _same(item: Item) -> _Same:
    made, by = item.made, item.built_with
    platform = made.platform or "any" if made else "source"
    return _Same(platform, made.accelerator if made else "", by.compiler, by.toolkit, by.archs, by.image)


def _built_row(same: _Same, items: Sequence[Item]) -> str:
    what = f"{' '.join(filter(None, (same.platform, same.accelerator)))}: {count(len(items), 'file')}"
    pythons, torches = (
        ", ".join(sorted({getattr(item.built_with, name) for item in items} - {""}, key=_as_numbers))
        for name in ("python", "torch")
    )
    cells = (what, same.compiler, same.toolkit, same.archs, torches, pythons, same.image)
    return f"| {' | '.join(map(markdown.text, cells))} |"


def _as_numbers(text: str) -> list[tuple[bool, int, str]]:
    """Return a sort key for a text with versions: 3.9 comes before 3.10."""
    parts = re.split(r"([0-9]{1,9})", text)  # no more digits than int() takes quickly
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def _origin(unit: Unit) -> list[str]:
    """Return the lines on the source of the files, and on their attestations."""
    commit = [f"Commit {markdown.text(unit.commit)}."] if unit.commit else []
    signed = [UNATTESTED] if unit.unattested else []
    return [" ".join([*commit, *signed]), ""] if commit or signed else []
