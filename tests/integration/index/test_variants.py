"""Wheel variants in an index, wherever publishing stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_tools.index.objects.store import FolderStore
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Silent
from tests.builders.releases import folder_index, publish
from tests.builders.wheels import Links
from tests.unit.index.test_variants import release, root

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.index.objects.store import Content, Found
    from ci_tools.index.units import Unit


__all__ = ["release", "root"]  # fixtures

pytestmark = pytest.mark.slow


class Breaking(FolderStore):
    """A folder that breaks down when so many things have been written to it."""

    def __init__(self, root: Path, writes: int) -> None:
        super().__init__(root, Silent())
        self.left = writes

    def put(self, key: str, content: Content, *, instead_of: Found | None, generation: int = 0) -> bool:
        """Put content at a key, unless it is one too many."""
        self.left -= 1
        if self.left < 0:
            raise OSError(key)
        return super().put(key, content, instead_of=instead_of, generation=generation)


def test_wherever_publishing_stops_no_page_names_what_is_not_there_and_a_retry_finishes(
    release: Unit, tmp_path: Path
) -> None:
    publish(folder_index(tmp_path / "whole"), release)
    for writes in range(100):
        root = tmp_path / str(writes)
        try:
            publish(WheelIndex(Breaking(root, writes), order=0), release)
        except OSError:
            assert missing(root) == []
        else:
            break
        publish(folder_index(root), release)
        assert names_in(root) == names_in(tmp_path / "whole")
    assert writes > 20


def missing(root: Path) -> list[Path]:
    """Return what the variants' page names and is not there."""
    page = root / "variants" / "demo" / "index.html"
    return [file for file, _ in Links(page).found if not file.is_file()] if page.exists() else []


def names_in(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
