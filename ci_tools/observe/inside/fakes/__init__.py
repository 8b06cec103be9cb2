"""Packages that build code asks about the machine, each answering for the cell and for nothing it does not know.

A fake is a file below this folder, or a row of MODULES with constants and names of other fakes, or both. To ask one of
them for a name that it lacks is a doubt, unless it has a `__getattr__` of its own.
"""

from __future__ import annotations

import functools
import importlib
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.observe.inside.facts import FACTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

FOLDER = Path(__file__).parent


class Same(NamedTuple):
    """A name of another fake; without `name`, that fake itself, which is imported once it is asked for."""

    module: str
    name: str = ""


CYTHONIZE, COMMAND = Same("Cython.Build", "cythonize"), Same("Cython.Build", "build_ext")
MODULES: dict[str, dict[str, Any]] = {
    "Cython": {
        "__version__": "3.2.0",
        **{name: Same(f"Cython.{name}") for name in ("Build", "Compiler", "Distutils", "Tempita")},
    },
    "Cython.Build.Cythonize": {"cythonize": CYTHONIZE, "main": Same("Cython.Build", "translate")},
    "Cython.Build.Dependencies": {"cythonize": CYTHONIZE},
    "Cython.Compiler": {"Options": Same("Cython.Compiler.Options")},
    # The values are not known, and those that a build sets change no file that is compiled.
    "Cython.Compiler.Options": {"get_directive_defaults": dict},
    "Cython.Compiler.Version": {"version": "3.2.0"},
    "Cython.Distutils": {"Extension": Same("Cython.Distutils.extension", "Extension"), "build_ext": COMMAND},
    "Cython.Distutils.build_ext": dict.fromkeys(("build_ext", "new_build_ext", "old_build_ext"), COMMAND),
    "Cython.Distutils.old_build_ext": {"old_build_ext": COMMAND},
    "cython": {"compiled": False},  # as Python itself imports it: nothing of it is compiled
    "ninja": {"__version__": "1.13.0", "BIN_DIR": str(FOLDER / "ninja" / "bin")},
    "numpy": {"__version__": "2.4.0", "get_include": lambda: str(FOLDER / "numpy" / "include")},
}
FAKED = MODULES.keys() | {
    ".".join(path.relative_to(FOLDER).with_suffix("").parts).removesuffix(".__init__") for path in FOLDER.rglob("*.py")
}


class FakesFinder:
    """Finds the fakes, unless the project has a module of that name."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, _: object = None) -> ModuleSpec | None:
        if name not in FAKED:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec and spec.origin and not spec.origin.startswith(f"{FOLDER}/"):
            return spec
        folder = FOLDER.joinpath(*name.split("."))
        file = spec.origin if spec and spec.origin else str(folder / "__init__.py")
        return spec_from_file_location(name, file, loader=_FakeLoader(name, file))


class _FakeLoader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        """Give the module the names of its row, and those of its file."""
        names = vars(module)
        for name, value in MODULES.get(module.__name__, {}).items():
            if not isinstance(value, Same):
                names[name] = value
            elif value.name:
                names[name] = getattr(importlib.import_module(value.module), value.name)
        if Path(self.path).is_file():
            super().exec_module(module)
        names.setdefault("__getattr__", functools.partial(_import_late, module.__name__))  # only now: `from` asks it


def _import_late(module: str, name: str) -> Any:
    """Return a fake that is a name of another; a doubt if the module has no such name."""
    value = MODULES.get(module, {}).get(name)
    return importlib.import_module(value.module) if isinstance(value, Same) else FACTS.unknown(f"{module}.{name}")
