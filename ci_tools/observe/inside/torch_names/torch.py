"""Shows the project the cell's torch: the names and constants of its release, by the catalog's table.

A name that the cell's torch lacks raises AttributeError, and a module ModuleNotFoundError, as in the real one. A
function or class of torch that is not simulated exists, and to call it is a doubt; of any other value, to ask is one.
The table has no parameters: to read a signature is a doubt, too.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from ci_tools.observe.inside.facts import FACTS, names_of, watch
from ci_tools.observe.inside.shown import Attribute, show_names
from ci_tools.observe.inside.standard_library.equivalents import make_stand_in
from ci_tools.observe.inside.torch_names.table import BETWEEN, HAS, LISTS, MODULES, SAYS, UNSURE, TorchTable, read_table

TOP = "torch"
# Modules that no file of a wheel names: compiled code makes them, or they are folders without Python.
UNLISTED = ("torch._C.", "torch.bin.", "torch.classes.", "torch.include.", "torch.lib.", "torch.ops.", "torch.share.")
SIGNATURES = ("getfullargspec", "signature")


class TorchModules:
    """torch's modules as the cell has them."""

    def __init__(self) -> None:
        self.table = TorchTable({}, {MODULES: {}})
        self.shown: dict[str, dict[str, Any]] = {}  # module → what it held before the project could change it

    def read(self, path: str) -> None:
        """Read the table's file."""
        with open(path, encoding="utf-8") as file:
            self.table = read_table(file.read())

    def show(self) -> None:
        """Let the modules of torch that were imported since the last call show the cell's names to the project."""
        if TOP not in sys.modules:
            return
        for name in [one for one in sys.modules if one.partition(".")[0] == TOP and one not in self.shown]:
            module = sys.modules[name]
            if isinstance(module, ModuleType) and self.table.has(name):
                self._show(name, module)

    def _show(self, name: str, module: ModuleType) -> None:
        inside = names_of(module)
        for row in self.table.names[name].keys() & inside.keys():
            text = self._guess(name, row) or ""
            if text.startswith("="):
                inside[row] = ast.literal_eval(text[1:])
        own = {one for one in inside if not one.startswith("__")}
        rows = {row: _Row(name, row) for row in {*self.table.names[name], *own} if "." not in row}
        if "__getattr__" in inside:
            inside["__getattr__"] = _LateTorchName(inside["__getattr__"], name, module)
        self.shown[name] = dict(inside)
        show_names(module, rows, functools.partial(self.list_names, name))

    # -- what the cell's torch has

    def has(self, name: str, module: ModuleType, row: str) -> bool:
        """Whether the cell's torch may have a name of a module, or the project has given it one."""
        return self.is_changed(name, module, row) or bool(self.find(name, row))

    def is_changed(self, name: str, module: ModuleType, row: str) -> bool:
        """Whether the project has put a value of its own under a name."""
        missing = object()
        return names_of(module).get(row, missing) is not self.shown[name].get(row, missing)

    def find(self, module: str, name: str) -> str:
        """Return the row of a name in the cell's torch, and record the question; a doubt if nobody knows."""
        FACTS.note(f"{HAS}{module}{BETWEEN}{name}")
        if self.table.find(FACTS.known["torch_names"], module, name) is None:
            kinds = {row[:1] for row in self.table.find_all(module, name)}
            if kinds == {""}:
                self._doubt(f"asks for {_join(module, name)}, which no torch up to {self.table.releases[-1]} has")
            elif len(kinds) > 1:
                what = "not every torch has" if "" in kinds else "is not the same in every torch"
                self._doubt(f"asks for {_join(module, name)}, which {what}")
        return self._guess(module, name) or ""

    def _guess(self, module: str, name: str) -> str | None:
        """Return the row of a name in the cell's torch, or in the newest one that is known."""
        row = self.table.find(FACTS.known["torch_names"], module, name)
        return self.table.find(self.table.releases[-1], module, name) if row is None else row

    def _doubt(self, what: str) -> None:
        version = FACTS.known["torch"].partition("+")[0]
        FACTS.doubt(f"{what}, and the catalog does not say which names torch {version} has")

    def value(self, name: str, module: ModuleType, row: str) -> Any:
        """Return what the cell's torch has under a name that is there."""
        inside = names_of(module)
        if self.is_changed(name, module, row):
            return inside[row]
        text = self.find(name, row)
        if text.startswith("="):
            self.note_value(name, row)
            if row not in inside:
                inside[row] = self.shown[name][row] = ast.literal_eval(text[1:])
        if row in inside:
            return inside[row]
        if text[:1] in {"c", "f"}:
            return make_stand_in(name, row)
        if row in sys.stdlib_module_names and f"{name}.{row}" not in self.table.names[MODULES]:
            return importlib.import_module(row)  # torch's own import of it
        if "__getattr__" in inside:
            return inside["__getattr__"].real(row)
        return FACTS.unknown(f"{name}.{row}")

    def note_value(self, module: str, name: str) -> None:
        """Record that the build depends on a constant; a doubt if nobody knows the cell's."""
        FACTS.note(f"{SAYS}{module}{BETWEEN}{name}")
        is_known = self.table.find(FACTS.known["torch_names"], module, name) is not None
        if not is_known and len({*self.table.find_all(module, name)}) > 1:
            self._doubt(f"uses {_join(module, name)}, which is not the same in every torch")

    def constant(self, module: str, name: str) -> Any:
        """Return a constant in the text of the cell's torch, and record that the build depends on it; None without.

        It is for what torch does by itself: a torch whose names nobody has read does it as the newest known one.
        """
        FACTS.note(f"{SAYS}{module}{BETWEEN}{name}")
        text = self._guess(module, name) or ""
        return ast.literal_eval(text[1:]) if text.startswith("=") else None

    # -- lists of names

    def list_names(self, name: str, module: ModuleType) -> list[str]:
        """Return the names of a module that the cell's torch has; a doubt where not all of them are known."""
        FACTS.note(f"{LISTS}{name}")
        torch = FACTS.known["torch_names"]
        if not torch:
            self._doubt(f"lists the names of {name}")
        names = self.table.list_names(torch or self.table.releases[-1], name) or ()
        inner = {one.rpartition(".")[2] for one in self.table.names[MODULES] if one.rpartition(".")[0] == name}
        if inner - {*names} or "*" in names or any(self._guess(name, one) == UNSURE for one in names):
            FACTS.doubt(f"lists the names of {name}, of which not all are known")
        special = [one for one in names_of(module) if one.startswith("__")]
        return [*special, *(one for one in names if one not in special)]

    # -- signatures

    def watch_signatures(self) -> None:
        """Record a doubt when the project reads the signature of one of torch's functions."""
        for function in SIGNATURES:
            setattr(inspect, function, watch(getattr(inspect, function), _doubt_signature))

    # -- modules

    def is_missing(self, name: str) -> bool:
        """Whether the cell's torch lacks a module; records the question. Private ones may be there without a row."""
        is_listed = "._" not in name or name in self.table.names[MODULES] or self.table.has(name.rpartition(".")[0])
        if name == TOP or not is_listed or f"{name}.".startswith(UNLISTED):
            return False
        return not self.find(MODULES, name)


class _Row(Attribute):
    """A name in the table, as an attribute of its module."""

    __slots__ = ("module",)

    def __init__(self, module: str, name: str) -> None:
        super().__init__(name)
        self.module = module

    def exists(self) -> bool:
        """Whether the cell's torch may have it."""
        return TORCH.has(self.module, sys.modules[self.module], self.name)

    def value(self) -> Any:
        """Return what it has."""
        return TORCH.value(self.module, sys.modules[self.module], self.name)

    def asks(self, frame: FrameType) -> bool:
        """Whether the project asks, also by an import."""
        return _asks(frame)


class _LateTorchName:
    """A module's own `__getattr__` (PEP 562): of a name in no row, the project hears what the table says of others."""

    def __init__(self, real: Callable[[str], Any], name: str, module: ModuleType) -> None:
        self.real, self.name, self.module = real, name, module

    def __call__(self, name: str) -> Any:
        if not name.startswith("__") and _asks(sys._getframe(1)):  # noqa: SLF001 - the only way to see who asks
            if not TORCH.has(self.name, self.module, name):
                raise AttributeError(f"module {self.name!r} has no attribute {name!r}")
            return TORCH.value(self.name, self.module, name)
        return self.real(name)


def _asks(frame: FrameType) -> bool:
    """Whether the project asks: by its own line, or by `from torch import NAME`, which Python looks up first."""
    is_import = frame.f_code.co_name == "_handle_fromlist" and "importlib" in frame.f_code.co_filename
    return FACTS.imports_itself() if is_import else FACTS.is_asked_by(frame)


def _doubt_signature(subject: Any, *_: Any, **__: Any) -> None:
    module = str(getattr(subject, "__module__", ""))
    if module.partition(".")[0] == TOP:
        FACTS.doubt(f"reads the parameters of {module}.{subject.__name__}, which are not those of every torch")


def _join(module: str, name: str) -> str:
    return f"{module}.{name}" if module != MODULES else name


TORCH = TorchModules()
