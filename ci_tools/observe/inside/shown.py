"""Shows the project a module as the cell has it, and all other code the module as it is here.

A module gets a class of its own whose properties ask who reads them: so a name is the same by whatever way it is read.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from types import FrameType, ModuleType
from typing import Any

from ci_tools.observe.inside.facts import FACTS, names_of


class Attribute:
    """An attribute of a module with the cell's value for the project and this machine's value for all other code."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def exists(self) -> bool:
        """Whether the cell has the name."""
        raise NotImplementedError

    def value(self) -> Any:
        """Return the cell's value of a name that is there."""
        raise NotImplementedError

    def asks(self, frame: FrameType) -> bool:
        """Whether the project asks for it."""
        return FACTS.is_asked_by(frame)

    def __get__(self, module: ModuleType, _: Any = None) -> Any:
        inside = names_of(module)
        if self.asks(sys._getframe(1)):  # noqa: SLF001 - the only way to see who asks
            if self.exists():
                return self.value()
        elif self.name in inside:
            return inside[self.name]
        elif "__getattr__" in inside:
            late = inside["__getattr__"]
            return getattr(late, "real", late)(self.name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {self.name!r}")

    def __set__(self, module: ModuleType, value: Any) -> None:
        names_of(module)[self.name] = value

    def __delete__(self, module: ModuleType) -> None:
        names_of(module).pop(self.name, None)


class ModuleName(Attribute):
    """A name of a module: whether the cell has it, and its value there."""

    __slots__ = ("condition", "give")

    def __init__(self, name: str, condition: Callable[[], bool] | None, give: Callable[[], Any]) -> None:
        super().__init__(name)
        self.condition = condition  # None: each cell has what this machine has
        self.give = give

    def exists(self) -> bool:
        """Whether the cell has the name."""
        return self.condition is None or self.condition()

    def value(self) -> Any:
        """Return the cell's value."""
        return self.give()


def show_names(module: ModuleType, names: Mapping[str, Attribute], listed: Callable[[ModuleType], list[str]]) -> None:
    """Let a module show these names to the project; `listed` returns all that the cell has."""
    fields: dict[str, Any] = dict(names)
    fields["__dict__"] = property(functools.partial(_read_dict, names=names, listed=listed))
    fields["__dir__"] = functools.partialmethod(_list_names, listed=listed)
    fields["__new__"] = _ordinary_module
    if "__all__" in names_of(module):
        fields["__all__"] = property(functools.partial(_read_all, names=names, listed=listed))
    module.__class__ = type("Shown", (ModuleType,), fields)


def _ordinary_module(_: type, *args: Any) -> ModuleType:
    """Make an ordinary module: Python's import creates every new module as `type(sys)(name)`."""
    return ModuleType(*args)


# ---------------------------------------------------------------- lists of names


class _Names(dict):  # type: ignore[type-arg]
    """The dictionary of a module: the names that the cell has, each with its value once it is asked for."""

    def __init__(self, module: ModuleType, names: Mapping[str, Attribute], visible: list[str]) -> None:
        self.real, self.late = names_of(module), names
        super().__init__({name: self.real.get(name) for name in visible})

    def __getitem__(self, name: str) -> Any:
        return self.late[name].value() if name in self.late and name in self else super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - that is this method

    def items(self) -> Any:
        return {name: self[name] for name in self}.items()

    def values(self) -> Any:
        return {name: self[name] for name in self}.values()

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __setitem__(self, name: str, value: Any) -> None:
        self.real[name] = value
        super().__setitem__(name, value)


def list_visible(module: ModuleType, names: Mapping[str, ModuleName]) -> list[str]:
    """Return the names of a module that the cell has."""
    mine = names_of(module)
    there = {name for name, one in names.items() if (name in mine or one.condition) and one.exists()}
    return [*(name for name in mine if name not in names or name in there), *sorted(there - mine.keys())]


def _read_dict(
    module: ModuleType, *, names: Mapping[str, Attribute], listed: Callable[[ModuleType], list[str]]
) -> dict[str, Any]:
    asked = FACTS.is_asked_by(sys._getframe(1))  # noqa: SLF001 - the only way to see who asks
    return _Names(module, names, listed(module)) if asked else names_of(module)


def _list_names(module: ModuleType, *, listed: Callable[[ModuleType], list[str]]) -> list[str]:
    asked = FACTS.is_asked_by(sys._getframe(1))  # noqa: SLF001 - the only way to see who asks
    return sorted(listed(module) if asked else names_of(module))


def _read_all(module: ModuleType, *, names: Mapping[str, Attribute], listed: Callable[[ModuleType], list[str]]) -> Any:
    public = names_of(module)["__all__"]
    if not FACTS.is_asked_by(sys._getframe(1)):  # noqa: SLF001 - the only way to see who asks
        return public
    visible = listed(module)
    added = [name for name in names if not name.startswith("_")]
    return [name for name in dict.fromkeys([*public, *added]) if name in visible]
