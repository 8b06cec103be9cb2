"""A store of objects, and a build that takes from it, for the tests of one file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ci_tools.build.units.store import UnitStore
from tests.builders.units import Units, open_units


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> UnitStore:
    return UnitStore(folder=tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def units(store: UnitStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Units]:
    with open_units(tmp_path_factory.mktemp("build"), store) as units:
        yield units
