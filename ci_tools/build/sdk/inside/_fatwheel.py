"""The facts that this torch answers with: those of the build it is part of, on a machine without a GPU.

It holds torch's headers, its CMake files and what builds ask it; it cannot compute. Fatwheel puts it in place of an
installed torch. Everything else that is asked of it raises NotInBuildTorch.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).parent
WAY_OUT = "set `build: {torch: full}` in the config to build with an installed torch"


class NotInBuildTorch(RuntimeError):
    """A build asks for a part of torch that is not here.

    It derives neither from AttributeError nor from ImportError: a build that asks with hasattr() or `except
    ImportError` would conclude that torch does not have it, and make another wheel.
    """


class _Facts:
    """The same interface as the facts of a cell that is observed: see `ci_tools.observe.inside.facts`."""

    def __init__(self) -> None:
        self.known = json.loads((HERE / "_fatwheel.json").read_text(encoding="utf-8"))
        self.modules = frozenset(self.known["modules"])

    def ask(self, name: str) -> object:
        """Return this build's answer."""
        return self.known.get(name)

    def variable(self, name: str) -> str:
        """Return an environment variable."""
        return os.environ.get(name, "")

    def note(self, *_: object) -> None:
        """Record nothing: only an observed build keeps notes."""

    doubt = note

    def unknown(self, name: str) -> NoReturn:
        """Raise NotInBuildTorch for an attribute; AttributeError for what Python asks for by itself."""
        module, _, attribute = name.rpartition(".")
        if attribute.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {attribute!r}")
        raise self.missing(name)

    def missing(self, name: str) -> NotInBuildTorch:
        """Return the error for what the real torch may have."""
        return NotInBuildTorch(f"the build asks for {name}, which the build torch does not have: {WAY_OUT}")


FACTS = _Facts()


class _Missing:
    """The last finder of modules: names a module that the real torch has and this one has not."""

    def find_spec(self, name: str, *_: object) -> None:
        """Raise NotInBuildTorch for such a module."""
        if name.startswith(("torch.", "torchgen", "functorch")) and name in FACTS.modules:
            raise FACTS.missing(name)


sys.meta_path.append(_Missing())
