"""Every rule has a wheel that breaks it alone, a good one but for a single edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_tools.model.files import Level
from tests.builders.audited import findings
from tests.builders.wheels import LINUX, linked, make

if TYPE_CHECKING:
    from pathlib import Path

OLD = "int getpid(void); int ours(void) { return getpid(); }"
ERROR, WARNING = Level.ERROR, Level.WARNING


def native(folder: Path, library: bytes, name: str = LINUX, file: str = "demo/_C.so") -> Path:
    return make(folder, name, {"demo/__init__.py": b"", file: library})


@pytest.mark.slow
def test_much_debug_information_is_found(tmp_path: Path) -> None:
    source = '__asm__(".section .debug_info\\n.zero 20000000\\n");'
    wheel = native(tmp_path, linked(f"{source} {OLD}"))
    assert {(one.rule, one.level) for one in findings(wheel)} == {("debug", WARNING)}
