from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ci_tools import receipts
from ci_tools.model import Finding, Level, Outcome, Receipt, Trial
from ci_tools.storage import sha256_of

if TYPE_CHECKING:
    from pathlib import Path

TRIALS = (Trial("import demo", Outcome.PASSED), Trial("demo --gpu", Outcome.NOT_EXERCISED, "no GPU here"))


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    (tmp_path / "demo.whl").write_bytes(b"bytes")
    return tmp_path / "demo.whl"


def receipt(wheel: Path) -> Receipt:
    return Receipt(
        file=wheel.name,
        sha256=sha256_of(wheel),
        size=wheel.stat().st_size,
        project="demo",
        version="1.0",
        job="pure",
        folder="",
        key="k",
        seconds=1.5,
        findings=(Finding(wheel.name, "size", Level.WARNING, "large", "2", "1"),),
        audited=True,
        trials=TRIALS,
        trials_key="t",
    )


def test_a_receipt_is_read_as_it_was_written(wheel: Path) -> None:
    saved = receipts.save(wheel, receipt(wheel))
    assert receipts.load(wheel) == saved == receipt(wheel)


def test_a_changed_file_has_no_receipt(wheel: Path) -> None:
    receipts.save(wheel, receipt(wheel))
    wheel.write_bytes(b"Bytes")
    assert receipts.load(wheel) is None


def test_a_file_that_is_gone_has_no_receipt(wheel: Path) -> None:
    receipts.save(wheel, receipt(wheel))
    wheel.unlink()
    assert receipts.load(wheel) is None


def test_no_receipt_is_none(wheel: Path) -> None:
    assert receipts.load(wheel) is None


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="half"),
        pytest.param(b"\xff", id="not-text"),
        pytest.param(b"[]", id="a-list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{}", id="nothing-in-it"),
        pytest.param(b'{"findings": [], "trials": [], "sha": 1}', id="other-fields"),
        pytest.param(b'{"findings": [["a"]], "trials": []}', id="half-a-finding"),
        pytest.param(b'{"findings": [], "trials": [["a", "perhaps", ""]]}', id="no-outcome"),
    ],
)
def test_a_damaged_receipt_is_none(content: bytes, wheel: Path) -> None:
    receipts.save(wheel, receipt(wheel))
    receipts.path_of(wheel).write_bytes(content)
    assert receipts.load(wheel) is None


def test_another_field_makes_a_receipt_another_version_s(wheel: Path) -> None:
    receipts.save(wheel, receipt(wheel))
    entry = json.loads(receipts.path_of(wheel).read_text())
    receipts.path_of(wheel).write_text(json.dumps({**entry, "new": 1}))
    assert receipts.load(wheel) is None


def test_trials_are_kept_for_their_key(tmp_path: Path) -> None:
    receipts.save_trials(tmp_path / "index", "key", TRIALS)
    assert receipts.load_trials(tmp_path / "index", "key") == TRIALS
    assert receipts.load_trials(tmp_path / "index", "another") == ()


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"trials": [[1]]}'])
def test_damaged_trials_are_none(content: bytes, tmp_path: Path) -> None:
    receipts.save_trials(tmp_path / "index", "key", TRIALS)
    receipts.path_of(tmp_path / "index").write_bytes(content)
    assert receipts.load_trials(tmp_path / "index", "key") == ()
