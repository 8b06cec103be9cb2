"""Which wheels are tried with a nightly of torch, and from where."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ci_tools.model.request import CatalogRow, Validation
from ci_tools.verify.accelerated_torch import lend_nightly
from ci_tools.verify.validator import Validator
from tests.builders.sources import world
from tests.builders.wheels import make

TORCH = "9.9.0.dev20261125"
INDEX = "http://127.0.0.1:9/whl/nightly"
ROW = CatalogRow("torch", TORCH, f'{{"indexes": ["{INDEX}"], "pythons": {{"linux-x86_64": ["3.12"]}}}}', "torch.toml:1")


@pytest.mark.parametrize(
    ("requires", "tried", "expected"),
    [
        pytest.param(f"torch=={TORCH}", "2.13.0+cpu", (f"{TORCH}+cpu", (INDEX,)), id="of-the-same-accelerator"),
        pytest.param(f"torch=={TORCH}", "2.13.0", (None, (INDEX,)), id="of-any"),
        pytest.param("torch==9.9.0.dev20261124", "2.13.0", ("2.13.0", ()), id="another-day"),
        pytest.param("torch>=2.10", "2.13.0", ("2.13.0", ()), id="a-release"),
        pytest.param("torch==2.13.0", "2.13.0", ("2.13.0", ()), id="a-patch-release"),
        pytest.param("other==1", "2.13.0", ("2.13.0", ()), id="another-project"),
        pytest.param("not a requirement!", "2.13.0", ("2.13.0", ()), id="no-requirement"),
    ],
)
def test_a_wheel_for_a_nightly_is_tried_with_it(
    tmp_path: Path, requires: str, tried: str, expected: tuple[str | None, tuple[str, ...]]
) -> None:
    wheel = make(tmp_path, "demo-1.0-py3-none-any.whl", {"demo.py": b""}, f"Requires-Dist: {requires}\n")
    outside, python = world(tmp_path), Path(sys.executable)
    own = Validator(validation=Validation(torch=tried), interpreter=python, logs=tmp_path, outside=outside, gpu=False)
    found = lend_nightly(own, wheel, (ROW,))
    assert (found.validation.torch, found.indexes) == expected
