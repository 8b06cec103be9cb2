from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools.machine.seals import read_key, seal, unseal

KEY, VALUE = b"k" * 32, {"a": [1, "\u20ac"]}


def key_file(folder: Path) -> Path:
    return folder / ".local/state/fatwheel/key"


def test_a_value_that_was_sealed_is_read_under_its_name_with_its_key() -> None:
    kept = seal("name", VALUE, KEY)
    assert unseal("name", kept, KEY) == VALUE
    assert (unseal("other", kept, KEY), unseal("name", kept, b"o" * 32)) == (None, None)


def test_no_changed_byte_is_believed() -> None:
    kept = seal("name", VALUE, KEY)
    changed = [kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1 :] for at in range(len(kept))]
    assert {str(unseal("name", each, KEY)) for each in changed} <= {"None"}


@pytest.mark.parametrize("content", [b"", b"[]", b"3", b"{}", b'{"value": 3, "seal": 3}', b"\xff", b"[" * 100_000])
def test_what_is_no_entry_is_none(content: bytes) -> None:
    assert unseal("name", content, KEY) is None


def test_a_key_is_made_once_and_is_its_users_alone(tmp_path: Path) -> None:
    first = read_key({"HOME": str(tmp_path)})
    assert (len(first), read_key({"HOME": str(tmp_path)})) == (32, first)
    assert key_file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert list(key_file(tmp_path).parent.iterdir()) == [key_file(tmp_path)]


def test_another_folder_for_state_has_another_key(tmp_path: Path) -> None:
    assert read_key({"HOME": str(tmp_path)}) != read_key({"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "s")})


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_key_that_others_may_know_is_made_anew(tmp_path: Path) -> None:
    first = read_key({"HOME": str(tmp_path)})
    key_file(tmp_path).chmod(0o644)
    second = read_key({"HOME": str(tmp_path)})
    key_file(tmp_path).write_bytes(b"short")
    assert len({first, second, read_key({"HOME": str(tmp_path)})}) == 3
    assert key_file(tmp_path).stat().st_mode & 0o777 == 0o600


def test_a_link_is_no_key(tmp_path: Path) -> None:
    read_key({"HOME": str(tmp_path)})
    key_file(tmp_path).rename(tmp_path / "elsewhere")
    key_file(tmp_path).symlink_to(tmp_path / "elsewhere")
    assert read_key({"HOME": str(tmp_path)}) != (tmp_path / "elsewhere").read_bytes()
    assert not key_file(tmp_path).is_symlink()


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}, {"HOME": "/dev/null"}])
def test_where_no_key_can_be_kept_this_run_has_one(environ: dict[str, str]) -> None:
    assert read_key(environ) == read_key({})
