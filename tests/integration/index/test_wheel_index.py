"""Bad wheels, which an index rejects before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_tools.errors import Rejected
from tests.builders.wheels import edited
from tests.unit.index.test_wheel_index import files, publish, root, state

if TYPE_CHECKING:
    from pathlib import Path


__all__ = ["files", "root"]  # fixtures

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        pytest.param(None, "has no METADATA", id="no-metadata"),
        pytest.param(b"Name: \xff\n", "METADATA is not UTF-8", id="not-text"),
        pytest.param(b"Name: demo\n\n" + bytes(64 << 20), r"METADATA has 67,\d{3},\d{3} bytes, expected", id="huge"),
    ],
)
def test_a_bad_wheel_is_rejected_and_nothing_written(
    metadata: bytes | None, sentence: str, root: Path, files: list[tuple[Path, str]]
) -> None:
    edited(files[1][0], {"demo-1.0+cu130.dist-info/METADATA": metadata})
    with pytest.raises(Rejected, match=sentence):
        publish(root, files)
    assert state(root) == {}
