"""Shows the project the cell's standard library: the modules and names that the cell's system and Python have.

The table is the catalog's; most of it comes from typeshed. A name that the cell lacks raises AttributeError, and a
module ModuleNotFoundError. A name that the cell has, and not every Python that Fatwheel runs on, is an equivalent
function or a stand-in whose use is a doubt, so that each host gives the same answer.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from ci_tools.observe.inside.facts import FACTS, names_of
from ci_tools.observe.inside.shown import ModuleName, list_visible, show_names
from ci_tools.observe.inside.standard_library.equivalents import EQUIVALENTS, make_stand_in
from ci_tools.observe.inside.standard_library.values import list_numbers

SYSTEMS = ("linux", "macos", "windows")
MODULE = ""  # the name that stands for the module itself
NEWEST = (3, 15)  # the last column of the table: a Python after it is taken for that
UNWATCHED = frozenset({"importlib.metadata"})  # its classes read all their own attributes
# The name under which the table has more rows of a module.
ALSO = {"posixpath": "os.path"}


class Condition(NamedTuple):
    """For which cells a name is there: the Pythons, by system."""

    systems: Mapping[str, tuple[tuple[str, tuple[int, int]], ...]]

    @property
    def by_system(self) -> bool:
        """Whether it depends on the system."""
        return len(set(self.systems.values())) > 1 or set(self.systems) != set(SYSTEMS)

    def holds(self) -> bool:
        """Whether the cell has the name; asks for nothing that does not decide it."""
        system = FACTS.ask("os") if self.by_system else SYSTEMS[0]
        bounds = self.systems.get(system)
        if not bounds:
            return bounds is not None
        major, minor = map(int, FACTS.ask("python").split("."))
        return _is_within(min((major, minor), NEWEST), bounds)

    def is_of_linux(self) -> bool:
        """Whether Linux has the name with any Python."""
        return SYSTEMS[0] in self.systems

    def holds_on_each_host(self) -> bool:
        """Whether Linux has the name with each Python: Fatwheel runs on any of them."""
        return self.systems.get(SYSTEMS[0]) == ()


def _is_within(python: tuple[int, int], bounds: tuple[tuple[str, tuple[int, int]], ...]) -> bool:
    answers = {">=": python.__ge__, "<": python.__lt__, "!=": python.__ne__}
    return all(answers[sign](version) for sign, version in bounds)


@functools.cache
def parse(text: str) -> Condition:
    """Parse the table's notation: `linux macos <3.14; windows >=3.12`."""
    found: dict[str, tuple[tuple[str, tuple[int, int]], ...]] = {}
    for part in text.split("; "):
        words = part.split()
        systems = [word for word in words if word.isalpha()] or SYSTEMS
        bounds = tuple(_parse_bound(word) for word in words if not word.isalpha())
        found.update(dict.fromkeys(systems, bounds))
    return Condition(found)


def _parse_bound(word: str) -> tuple[str, tuple[int, int]]:
    sign = word.rstrip("0123456789.")
    major, minor = map(int, word.removeprefix(sign).split("."))
    return sign, (major, minor)


class StandardLibrary:
    """The standard library as the cell has it."""

    def __init__(self) -> None:
        self.table: Mapping[str, Mapping[str, str]] = {}
        self.answers: Mapping[str, Mapping[str, Callable[[], Any]]] = {}
        self.shown: set[str] = set()
        self.unwatched: list[tuple[ModuleType, str, str]] = []  # modules with members that are not watched yet

    def read(self, table: str) -> None:
        """Read the table's file."""
        with open(table, encoding="utf-8") as file:
            self.table = json.load(file)

    def prepare(self, answers: Mapping[str, Mapping[str, Callable[[], Any]]]) -> None:
        """Let the modules imported so far show the cell's names, before any cell is known: it is the same for all.

        `answers` are the cell's values of names that this machine has too, by module.
        """
        self.answers = answers
        self._show_imported()

    def show(self) -> None:
        """Let the modules that were imported since the last call show the cell's names to the project."""
        self._show_imported()
        for member in self.unwatched:
            _watch_member(*member)
        self.unwatched.clear()

    def _show_imported(self) -> None:
        for name in (self.table.keys() | self.answers.keys()) - self.shown:
            module = sys.modules.get(name)
            if isinstance(module, ModuleType):
                self.shown.add(name)
                if name not in ALSO.values():
                    self._show(name, module)

    def _show(self, name: str, module: ModuleType) -> None:
        rows = {**self.table.get(name, {}), **self.table.get(ALSO.get(name, name), {})}
        names = {row: self._name(module, row, rows) for row in self._names(name, rows)}
        for row, give in list_numbers(module).items():
            names[row] = ModuleName(row, names[row].condition if row in names else None, give)
        inside = names_of(module)
        if "__getattr__" in inside:
            inside["__getattr__"] = _Late(inside["__getattr__"], names, module.__name__)
        show_names(module, names, functools.partial(list_visible, names=names))
        members = () if name in UNWATCHED else rows.items()
        self.unwatched += [(module, row, condition) for row, condition in members if "." in row]

    def _names(self, module: str, rows: Mapping[str, str]) -> set[str]:
        return {row for row in rows if row and "." not in row} | {*self.answers.get(module, ())}

    def _name(self, module: ModuleType, name: str, rows: Mapping[str, str]) -> ModuleName:
        text = rows.get(name, "")
        answer = self.answers.get(str(names_of(module)["__name__"]), {}).get(name)
        condition = parse(text).holds if text else None
        return ModuleName(name, condition, answer or functools.partial(_find_value, module, name, text))

    def is_missing(self, name: str) -> bool:
        """Whether the cell lacks a module, or the package that it is in."""
        parts = name.split(".")
        names = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
        conditions = [self.table[one][MODULE] for one in names if MODULE in self.table.get(one, ())]
        return not all(parse(condition).holds() for condition in conditions)

    def is_of_some_hosts(self, name: str) -> bool:
        """Whether only some Pythons that Fatwheel runs on have a module."""
        condition = self.table.get(name, {}).get(MODULE)
        return condition is not None and not parse(condition).holds_on_each_host()

    def knows(self, name: str) -> bool:
        """Whether a module is in the table: some Python has it."""
        return name in self.table


# ---------------------------------------------------------------- names of modules


def _find_value(module: ModuleType, name: str, text: str) -> Any:
    """Return what the cell has under a name: this Python's own if each host has it, else what all hosts can give."""
    full = f"{module.__name__}.{name}"
    if full in EQUIVALENTS:
        return EQUIVALENTS[full]
    if parse(text).holds_on_each_host() and name in names_of(module):
        return names_of(module)[name]
    return make_stand_in(module.__name__, name)


class _Late:
    """A module's own `__getattr__` (PEP 562); it gives the project no name for which the table has answered."""

    def __init__(self, real: Callable[[str], Any], names: Mapping[str, ModuleName], module: str) -> None:
        self.real, self.names, self.module = real, names, module

    def __call__(self, name: str) -> Any:
        if name in self.names and FACTS.asks():
            raise AttributeError(f"module {self.module!r} has no attribute {name!r}")
        return self.real(name)


# ---------------------------------------------------------------- methods of classes


class _Member:
    """A method that not every cell's class has, or one of a class above that it hides."""

    def __init__(self, kind: type, name: str, condition: Condition, full: str) -> None:
        self.kind, self.name, self.condition, self.full = kind, name, condition, full
        self.real = next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        asked = FACTS.is_asked_by(sys._getframe(1))  # noqa: SLF001 - the only way to see who asks
        found = self._answer() if asked else self.real
        if found is None:
            raise AttributeError(f"type object {self.kind.__name__!r} has no attribute {self.name!r}")
        return found.__get__(instance, owner) if hasattr(found, "__get__") else found

    def _answer(self) -> Any:
        if not self.condition.holds():
            return None
        if self.full in EQUIVALENTS:
            return EQUIVALENTS[self.full]
        if self.condition.holds_on_each_host():
            return self.real
        FACTS.doubt(f"uses {self.full}, which not every Python has that Fatwheel runs on")
        return self.real


def _watch_member(module: ModuleType, row: str, condition: str) -> None:
    """Watch a method of a class, where Python lets the class be changed: not for classes that are written in C."""
    name, _, method = row.partition(".")
    kind = names_of(module).get(name)
    if not inspect.isclass(kind):
        return
    try:
        setattr(kind, method, _Member(kind, method, parse(condition), f"{module.__name__}.{row}"))
    except TypeError:
        return


LIBRARY = StandardLibrary()
