"""Entry points are read once for all builds, and those that come later are found nevertheless."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import Distribution, DistributionFinder, EntryPoints, MetadataPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from ci_tools.observe.inside.modules import remember_all

if TYPE_CHECKING:
    Find: TypeAlias = Callable[..., EntryPoints]

GROUP = "demo.group"


@pytest.fixture
def find() -> Find:
    found: Find = remember_all(importlib.metadata.entry_points)
    return found


def install(folder: Path) -> None:
    info = folder / "demo-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nname = module:function\n")


def test_what_is_there_at_first_is_looked_for_once(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = importlib.metadata.entry_points(group="console_scripts", name="pytest")
    monkeypatch.setattr(importlib.metadata, "distributions", None)
    assert [one.value for one in find(group="console_scripts", name="pytest")] == [one.value for one in expected]
    assert [*expected]


def test_a_folder_that_comes_later_is_looked_through(
    find: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    assert not find(group=GROUP)
    install(tmp_path)
    assert [one.name for one in find(group=GROUP)] == ["name"]


def test_what_is_taken_from_the_path_is_no_longer_found(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    assert not find(group="console_scripts")


def test_what_another_finder_finds_is_found(find: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        def find_distributions(self, _: object) -> Iterable[Distribution]:
            return MetadataPathFinder.find_distributions(DistributionFinder.Context(path=[str(tmp_path)]))

        def find_spec(self, *_: object) -> None:
            return None

    install(tmp_path)
    monkeypatch.setattr("sys.meta_path", [*sys.meta_path, Finder()])
    assert [one.name for one in find(group=GROUP)] == ["name"]
