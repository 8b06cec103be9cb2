"""The facts by which a wheel is chosen, for a CUDA that only the project's own catalog has."""

from __future__ import annotations

import json

import pytest

from ci_tools import catalog
from ci_tools.index.manifest import ManifestTable, manifest_of
from ci_tools.index.pages import IndexedFile
from ci_tools.index.wheel_facts import WheelMachines, add_facts, drivers_of
from ci_tools.install.lock import LockedWheel
from ci_tools.model.names import FileName, Sha256
from ci_tools.model.request import CatalogRow

ROW = {
    "archs": ["9.0"],
    "arch_specific": [],
    "family_specific": [],
    "driver": "999.10",
    "sass_driver": "900",
}
ROWS = (CatalogRow("cuda", "99.9", json.dumps(ROW), "fatwheel.catalog.toml:1"),)
WHEEL = LockedWheel(FileName("demo-1.0+cu999-py3-none-manylinux_2_28_x86_64.whl"), (), Sha256("ab" * 32), 7)


def test_a_lock_has_the_drivers_of_a_new_cuda() -> None:
    found = add_facts(WHEEL, WheelMachines("cu999", "linux-cuda", ("cu999", "cu998")), catalog.load(ROWS))
    assert (found.cuda, found.serves) == ("99.9", ("99.9", "99.8"))
    assert (found.driver_sass, found.driver_ptx) == ("900", "999.10")


@pytest.mark.parametrize(
    ("label", "drivers"),
    [
        pytest.param("cu999", ("900", "999.10"), id="of-the-project"),
        pytest.param("cu130", (), id="ours"),
        pytest.param("cu998", (), id="of-nobody"),
        pytest.param("rocm7.1", (), id="no-cuda"),
        pytest.param("", (), id="no-accelerator"),
    ],
)
def test_an_index_keeps_the_drivers_that_only_the_project_knows(label: str, drivers: tuple[str, ...]) -> None:
    assert drivers_of(label, ROWS) == drivers


@pytest.mark.parametrize("drivers", [("900",), ("900", "999.1", "1"), ("900", "<b>"), ("", "")])
def test_a_manifest_with_other_drivers_is_refused(drivers: tuple[str, ...]) -> None:
    file = IndexedFile(WHEEL.file, "cu999", "ab" * 32, 7, "2026-01-02T03:04:05Z", drivers=("900", "999.1"))
    assert len(manifest_of(ManifestTable(0, (file,)), "demo").files) == 1
    with pytest.raises(ValueError, match="expected two versions or none"):
        manifest_of(ManifestTable(0, (file._replace(drivers=drivers),)), "demo")
