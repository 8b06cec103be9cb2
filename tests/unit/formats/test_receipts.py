from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.formats import receipts
from ci_tools.formats.json_file import sealed, unsealed
from ci_tools.machine.storage import sha256_of
from ci_tools.model.files import BuiltWith, Finding, Level, Outcome, Receipt, Trial, Validated

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
        source="0" * 64,
        key="k",
        seconds=1.5,
        findings=(Finding(wheel.name, "size", Level.WARNING, "large", "2", "1"),),
        audited=True,
        validated=(Validated("linux-x86_64, Python 3.12", "t", TRIALS, "NVIDIA H200, driver 580.65.06"),),
        built_with=BuiltWith(compiler="g++ 14", python="CPython 3.12.4", image="Debian 12"),
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
        pytest.param(b'{"findings": [], "validated": [], "sha": 1}', id="other-fields"),
        pytest.param(b'{"findings": [["a"]], "validated": []}', id="half-a-finding"),
        pytest.param(b'{"findings": [], "validated": [["here", "", [["a", "perhaps", ""]]]]}', id="no-outcome"),
    ],
)
def test_a_damaged_receipt_is_none(content: bytes, wheel: Path) -> None:
    receipts.save(wheel, receipt(wheel))
    receipts.path_of(wheel).write_bytes(content)
    assert receipts.load(wheel) is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"new": 1}, id="a-field-of-another-version"),
        pytest.param({"size": "x"}, id="size-as-text"),
        pytest.param({"audited": "yes"}, id="audited-as-text"),
        pytest.param({"validated": [["here", "", [[1, "passed", ""]]]]}, id="trial-of-a-number"),
        pytest.param({"validated": [["here", 1, []]]}, id="key-of-a-number"),
        pytest.param({"validated": [["here", ""]]}, id="half-a-place"),
        pytest.param({"findings": [["w", "r", "warning", "m", 2, "1"]]}, id="finding-of-a-number"),
    ],
)
def test_a_receipt_that_says_something_else_is_none(change: dict[str, object], wheel: Path) -> None:
    receipts.save(wheel, receipt(wheel))
    entry = unsealed(receipts.path_of(wheel).read_bytes())
    receipts.path_of(wheel).write_bytes(sealed({**entry, **change}))
    assert receipts.load(wheel) is None


@pytest.mark.parametrize(
    ("outcomes", "is_good"),
    [
        pytest.param(("passed",), True, id="passed"),
        pytest.param(("passed", "not exercised"), True, id="a-part-not-exercised"),
        pytest.param(("not exercised",), False, id="none-exercised"),
        pytest.param(("passed", "failed"), False, id="one-failed"),
        pytest.param((), False, id="none-tried"),
    ],
)
def test_a_file_is_good_once_something_passed_and_nothing_failed(
    outcomes: tuple[str, ...],
    is_good: bool,  # noqa: FBT001
    wheel: Path,
) -> None:
    trials = tuple(Trial("import demo", Outcome(outcome)) for outcome in outcomes)
    assert replace(receipt(wheel), validated=(Validated("here", "", trials),)).is_good is is_good


def test_trials_are_kept_for_their_key(tmp_path: Path) -> None:
    receipts.save_trials(tmp_path / "index", "key", TRIALS)
    assert receipts.load_trials(tmp_path / "index", "key") == TRIALS
    assert receipts.load_trials(tmp_path / "index", "another") == ()


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"trials": [[1]]}', sealed({"trials": [[1]]}), sealed({})])
def test_damaged_trials_are_none(content: bytes, tmp_path: Path) -> None:
    receipts.save_trials(tmp_path / "index", "key", TRIALS)
    receipts.path_of(tmp_path / "index").write_bytes(content)
    assert receipts.load_trials(tmp_path / "index", "key") == ()
