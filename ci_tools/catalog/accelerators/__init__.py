"""The accelerators: each is the one value of `model.platforms.AcceleratorKind` in a module of this folder.

A module here is all that an accelerator needs: `discover` finds it.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from contextlib import suppress

from ci_tools.model.platforms import Accelerator, AcceleratorKind

KINDS = AcceleratorKind.known  # by name


def discover() -> None:
    """Add the accelerator of each module in the folders of this package."""
    for one in sorted(pkgutil.iter_modules(__path__), key=lambda one: one.name):
        values = vars(importlib.import_module(f"{__name__}.{one.name}")).values()
        KINDS.update({str(value): value for value in values if isinstance(value, AcceleratorKind)})


def read_label(label: str) -> Accelerator | None:
    """Return the accelerator of a label such as cu130, rocm7.1 or xpu; None for any other text."""
    for kind in KINDS.values():
        with suppress(ValueError):
            return Accelerator(kind, kind.read_label(label))
    return None


def list_compilers() -> frozenset[str]:
    """Return the programs by which a CPU build would compile for a GPU, or fail because its torch has none."""
    programs = {program for kind in KINDS.values() for program in (*kind.tools, *kind.hides)}
    return frozenset({*programs, *(f"{program}.{suffix}" for program in programs for suffix in ("exe", "bat"))})


discover()


NUMBER = r"[0-9]+(\.[0-9]+)*"
LABELS = "|".join(f"{kind.label_start or kind}{NUMBER if kind.is_versioned else ''}" for kind in KINDS.values())
# Such as `cu130torch2.10`; `variants` has the wheel variants (PEP 825). The empty one is the root: every folder lists
# its files.
FOLDER = re.compile(rf"((cpu|{LABELS})(torch{NUMBER}(\.dev[0-9]+)?)?|variants)?")
