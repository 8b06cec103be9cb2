"""Reads the tables of torch's names, with constants, and headers: which release has which. It asks nothing of a cell.

A row is a text as `ci_tools.config.upstream.module_names` writes it, the same for all releases or by their range:
`{"2.6-2.13": "=(19, 0)", "2.14-2.15": "=(19, 20)"}`. The module "" has the names of all modules. A torch is named by
its release, `2.10`; by `{"base": "2.15", "rows": {"torch.xpu:f": "f"}}` for one that a project's catalog adds; or by ""
where nobody has read its names.

A build's questions are texts too, such as `torch has torch.xpu:is_available`: whether there is such a name and of which
kind, which constant it is (`torch says …`), and which names a module has (`torch lists torch.xpu`).
"""

from __future__ import annotations

import functools
import json
import lzma
import posixpath
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    Rows: TypeAlias = dict[str, dict[str, str]]  # of one torch: module → name → row

ABSENT, UNSURE = "", "~"
MODULES = ""  # the module that stands for the list of modules
OTHERS = "*"  # the name that stands for all others: with it, a module may have more than its rows
BETWEEN = ":"  # module and name, in questions and in the rows of a project's torch
QUESTIONS = HAS, SAYS, LISTS = ("torch has ", "torch says ", "torch lists ")


class TorchTable(NamedTuple):
    """The names of every torch that was read."""

    patches: Mapping[str, str]  # release → its patch release; oldest first
    names: Mapping[str, Mapping[str, str | Mapping[str, str]]]

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases in the table, oldest first."""
        return tuple(self.patches)

    def has(self, module: str) -> bool:
        """Whether the table has the names of a module."""
        return module in self.names and module != MODULES

    def find(self, torch: str, module: str, name: str) -> str | None:
        """Return the row of a name in a torch; "" if that lacks it, `~` where it may have it, None if nobody knows."""
        if not torch:
            return None
        if torch in self.patches:
            return self._find(torch, module, name)
        said = _read_torch(torch)
        rows: Mapping[str, str] = said["rows"]
        row = rows.get(f"{module}{BETWEEN}{name}")
        if row == ABSENT and f"{MODULES}{BETWEEN}{module}.{name}" not in rows:
            return UNSURE if self._is_unsure(said["base"], module, name) else ABSENT
        return self._find(said["base"], module, name) if row is None else row

    def _find(self, release: str, module: str, name: str) -> str:
        row = self.said(release, module, name)
        return UNSURE if row == ABSENT and self._is_unsure(release, module, name) else row

    def _is_unsure(self, release: str, module: str, name: str) -> bool:
        """Whether a torch may have a name that its text does not bind: as a module in it, or by other ways."""
        if module == MODULES:
            return False
        inner = self.names[MODULES].get(f"{module}.{name}")
        if inner is not None:
            return bool(self.said(release, MODULES, f"{module}.{name}"))
        return bool(self.said(release, module, OTHERS))

    def said(self, release: str, module: str, name: str) -> str:
        """Return the row of a name as the file has it; "" if it has none."""
        row = self.names.get(module, {}).get(name, ABSENT)
        if isinstance(row, str):
            return row
        return next((text for part, text in row.items() if release in split_ranges(part, self.releases)), ABSENT)

    def find_all(self, module: str, name: str) -> tuple[str, ...]:
        """Return the rows of a name in every release, oldest first."""
        return tuple(self._find(release, module, name) for release in self.releases)

    def list_names(self, torch: str, module: str) -> tuple[str, ...] | None:
        """Return the names of a module that a torch has, or may have; None if nobody knows."""
        if not torch:
            return None
        added = () if torch in self.patches else (key.partition(BETWEEN) for key in _read_torch(torch)["rows"])
        names = {*self.names[module], *(name for one, _, name in added if one == module)}
        return tuple(sorted(name for name in names if "." not in name and self.find(torch, module, name)))

    def answer(self, torch: str, question: str) -> object:
        """Return the answer to one of the questions; None if nobody knows."""
        kind = next(one for one in QUESTIONS if question.startswith(one))
        module, _, name = question.removeprefix(kind).partition(BETWEEN)
        if kind == LISTS:
            return self.list_names(torch, module)
        row = self.find(torch, module, name)
        return row and (row[0] if kind == HAS else row)

    def differs(self, question: str) -> bool:
        """Whether releases answer a question in more than one way."""
        return len({self.answer(release, question) for release in self.releases}) > 1


def read_table(text: str) -> TorchTable:
    """Return the table in the text of its file."""
    said: dict[str, Any] = json.loads(text)
    return TorchTable(said["releases"], said["names"])


def _read_torch(text: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(text)
    return said


def split_ranges(text: str, releases: tuple[str, ...]) -> Iterator[str]:
    """Yield the releases in a text such as `2.6-2.8,2.10`."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from releases[releases.index(first) : releases.index(last or first) + 1]


# ---------------------------------------------------------------- headers

OF_HEADER = "torch's header "  # the start of a build's question: `torch's header ATen/CUDAGeneratorImpl.h`


class TorchHeaders:
    """The headers of every torch that was read.

    The first line of the table has the releases. Each other line is a header below `torch/include`, with a 1 for each
    release that has it and a 0 for the others.
    """

    def __init__(self) -> None:
        self.packed = b""

    def read(self, path: str) -> None:
        """Read the table's file, which is unpacked once somebody asks."""
        with open(path, "rb") as file:
            self.packed = file.read()

    @functools.cached_property
    def rows(self) -> dict[str, str]:
        """The rows, under "" the releases; a folder has a row as well."""
        first, *lines = lzma.decompress(self.packed).decode().splitlines()
        rows = dict(line.split("\t") for line in lines)
        for name, row in list(rows.items()):
            while name := posixpath.dirname(name):
                rows[name] = "".join(map(max, zip(row, rows.get(name, row), strict=True)))
        return {**rows, "": first}

    def has(self, torch: str, header: str) -> bool | None:
        """Whether a torch has a header or a folder of them; None if nobody knows."""
        releases = self.rows[""].split()
        row = self.rows.get(header, "0" * len(releases))
        if torch in releases:
            return row[releases.index(torch)] == "1"
        return row[0] == "1" if len({*row}) == 1 else None


HEADERS = TorchHeaders()
