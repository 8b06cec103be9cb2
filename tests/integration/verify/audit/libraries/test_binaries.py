"""What the audit finds in Windows wheels for the limited API, of which another Python tells what it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_tools.model.files import Level
from tests.builders.audited import findings
from tests.unit.verify.audit.libraries.test_binaries import wheel

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

LIMITED = "demo-1.0-cp310-abi3-win_amd64.whl"


@pytest.mark.parametrize("libraries", [pytest.param(("python3.dll",), id="abi3")])
def test_libraries_that_users_have_are_good(libraries: tuple[str, ...], tmp_path: Path) -> None:
    assert findings(wheel(tmp_path, *libraries, name=LIMITED)) == ()


@pytest.mark.parametrize("library", [pytest.param("python312.dll", id="abi3-by-its-name-only")])
def test_the_dll_of_another_python_is_found(library: str, tmp_path: Path) -> None:
    found = [each for each in findings(wheel(tmp_path, library, name=LIMITED)) if each.rule == "python-library"]
    assert [(each.found, each.expected, each.level) for each in found] == [(library, "python3.dll", Level.ERROR)]
