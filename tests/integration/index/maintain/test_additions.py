"""Files of others, audited, labelled and added to an index."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from ci_tools.publish.additions import Addition, add
from tests.builders.indexes import entry, found, root
from tests.builders.wheels import listed, make
from tests.unit.publish.test_additions import FLASH

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.index.wheel_index import WheelIndex
    from ci_tools.machine.context import Outside


pytestmark = pytest.mark.slow


SDIST = "flash_attn-2.8.tar.gz"


def sdist(path: Path) -> Path:
    """Write an sdist of the project and version in its name."""
    data = b"Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.8\n"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo(f"{path.name.removesuffix('.tar.gz')}/PKG-INFO")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return path


def test_files_of_others_are_added_and_labelled(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    files = (make(tmp_path, FLASH), sdist(tmp_path / SDIST), make(tmp_path, "more-1.0-py3-none-any.whl"))
    added = add([index], Addition(files), outside)
    assert sorted(file.file for shown in added.shown for file in shown.files) == sorted(path.name for path in files)
    assert listed(root(index), "cu130", "flash-attn") == [SDIST, FLASH]
    assert listed(root(index), "cpu", "flash-attn") == [SDIST]
    assert entry(index, FLASH, "flash-attn")["origin"] == "added"
    assert '"origin":"added"' in (root(index) / "finder/flash-attn.js").read_text()
    assert found(index, outside) == []
