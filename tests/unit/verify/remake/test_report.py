"""What is said of a wheel that cannot be made again, or was changed after it was built."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from ci_tools.errors import InputError, MachineError
from ci_tools.formats.wheel import record_hash
from ci_tools.verify.remake.attested import WheelAttestation
from ci_tools.verify.remake.difference import list_changes, list_different_members
from ci_tools.verify.remake.replay import Named, replay
from ci_tools.verify.remake.report import WheelVerdict, list_lines
from ci_tools.verify.remake.stated import read_stated
from tests.builders.remade import write_stating_wheel
from tests.builders.sources import committed, world, write

NAME = "demo-1.0-py3-none-any.whl"


def write_wheel(folder: Path, content: bytes, recorded: bytes) -> Path:
    """Write a wheel whose one module has this content, and a RECORD of another."""
    folder.mkdir()
    with zipfile.ZipFile(write_stating_wheel(folder / NAME)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    said = {**members, "demo.py": recorded}
    rows = [f"{name},{record_hash(said[name])},{len(said[name])}\n" for name in said if not name.endswith("RECORD")]
    record = "demo-1.0.dist-info/RECORD"
    with zipfile.ZipFile(folder / NAME, "w") as archive:
        for name, data in {**members, "demo.py": content, record: "".join([*rows, f"{record},,\n"])}.items():
            archive.writestr(name, data)
    return folder / NAME


@pytest.mark.parametrize(
    ("content", "raw", "what"),
    [
        pytest.param(b"x = 2\n", b"x = 2\n", "demo.py is not what its RECORD says", id="packed-again"),
        pytest.param(b"x = 1\n", b"x = 3\n", "demo.py cannot be read: Bad CRC-32 for file 'demo.py'", id="raw-byte"),
    ],
)
def test_a_wheel_that_was_changed_after_its_build_is_said_to_be(
    content: bytes, raw: bytes, what: str, tmp_path: Path
) -> None:
    own, wheel = (write_wheel(tmp_path / name, data, b"x = 1\n") for name, data in (("a", b"x = 1\n"), ("b", content)))
    wheel.write_bytes(wheel.read_bytes().replace(content, raw))
    assert list_changes(own, tmp_path / "work") == ()
    verdict = WheelVerdict(
        read_stated(wheel), "", own, "", list_changes(wheel, tmp_path / "work"), list_different_members(wheel, own), (),
        WheelAttestation(), (),
    )  # fmt: skip
    assert list_lines(verdict)[1:3] == [f"it was changed after it was built: {what}", "  first in demo.py: line 1"]


def test_a_wheel_of_no_commit_gets_the_way_to_one_that_can_be_made_again(tmp_path: Path) -> None:
    def change(sbom: dict[str, Any]) -> None:
        sbom["metadata"]["component"]["properties"][1]["name"] = "fatwheel:none"

    stated = read_stated(write_stating_wheel(tmp_path / NAME, change))
    with pytest.raises(InputError, match="states no commit") as caught:
        replay(stated, Named(), tmp_path, world(tmp_path))
    assert "commit the source and its config, `git tag`" in caught.value.hint


def test_a_commit_without_the_config_says_that_it_was_not_committed(tmp_path: Path) -> None:
    commit = committed(write(tmp_path / "source", {"demo.py": ""}))

    def change(sbom: dict[str, Any]) -> None:
        own = sbom["metadata"]["component"]
        own["properties"] = [one for one in own["properties"] if one["name"] != "fatwheel:tag"]
        own["properties"][1]["value"] = commit

    stated = read_stated(write_stating_wheel(tmp_path / NAME, change))
    with pytest.raises(InputError, match=r"has no fatwheel\.yml of demo") as caught:
        replay(stated, Named(str(tmp_path / "source")), write(tmp_path / "fetched", {"none": ""}), world(tmp_path))
    assert "commit it, tag that commit" in caught.value.hint


def test_a_repository_that_does_not_answer_says_why_and_that_a_clone_will_do(tmp_path: Path) -> None:
    stated = read_stated(write_stating_wheel(tmp_path / NAME))._replace(address="git://127.0.0.1:9/demo")
    with pytest.raises(MachineError, match="errno=Connection refused") as caught:
        replay(stated, Named(), tmp_path, world(tmp_path))
    assert "`--source` names a clone of it" in caught.value.hint
