from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ci_tools.formats import receipts
from ci_tools.formats.json_file import sealed, unsealed
from ci_tools.index.manifest import Directory, Manifest, parse_directory, parse_manifest
from ci_tools.machine.storage import sha256_of
from ci_tools.model.files import Receipt

TABLE = {"file": "demo.whl", "seconds": 1.5, "trials": [["import demo", "passed", ""]]}


def damaged(data: bytes) -> list[bytes]:
    """Return some data with each byte another, with each end cut off, and empty."""
    changed = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    return [*changed, *(data[:at] for at in range(len(data.rstrip())))]


def outcome(parse: Callable[[bytes], object], data: bytes) -> object:
    """Return what is read, None where it is refused."""
    try:
        return parse(data)
    except (ValueError, KeyError, TypeError):
        return None


def test_a_sealed_object_is_what_was_written() -> None:
    assert unsealed(sealed(TABLE)) == TABLE


def test_no_byte_of_a_sealed_object_can_be_another() -> None:
    # A byte of the line ends may be another one that means the same.
    assert [found for data in damaged(sealed(TABLE)) if (found := outcome(unsealed, data)) not in (None, TABLE)] == []


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"[" * 100_000, b'{"seal": 1}'])
def test_what_is_not_sealed_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"Expecting|its content has changed|nested too deeply"):
        unsealed(data)


@pytest.mark.parametrize(
    ("data", "parse"),
    [
        pytest.param(Manifest("demo", 3).dumps(), lambda data: parse_manifest(data, "demo"), id="manifest"),
        pytest.param(Directory(3, frozenset({"demo"})).dumps(), parse_directory, id="directory"),
    ],
)
def test_no_byte_of_what_an_index_keeps_can_be_another(data: bytes, parse: Callable[[bytes], object]) -> None:
    whole = parse(data)
    # Without a seal, of whose own name a letter is another, it is whole all the same.
    assert [found for other in damaged(data) if (found := outcome(parse, other)) not in (None, whole)] == []


def test_a_receipt_of_which_a_byte_is_another_is_none(tmp_path: Path) -> None:
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    known = {"project": "demo", "version": "1.0", "job": "pure", "source": "s", "key": "k", "seconds": 1.0}
    receipt = receipts.save(wheel, Receipt(file=wheel.name, sha256=sha256_of(wheel), size=5, **known))  # type: ignore[arg-type]
    path = receipts.path_of(wheel)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"1.0"', b'"1.1"'))
    assert receipts.load(wheel) is None
    path.write_bytes(whole)
    assert receipts.load(wheel) == receipt
