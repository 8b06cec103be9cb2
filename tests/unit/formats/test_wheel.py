from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_tools.errors import Rejected
from ci_tools.formats.relabel import Label, relabel
from ci_tools.formats.wheel import open_wheel
from tests.builders import wheels
from tests.builders.installers import run_client

CUDA = "demo-1.0+cu130-py3-none-any.whl"


def label(wheel: Path, *, local: str = "cu130", requires_torch: str = "") -> Path:
    relabel(wheel, wheel.parent / "out" / CUDA, Label(local, requires_torch))
    return wheel.parent / "out" / CUDA


def metadata(wheel: Path) -> bytes:
    return next(data for name, data in wheels.members_of(wheel).items() if name.endswith("/METADATA"))


def with_metadata(folder: Path, content: bytes) -> Path:
    return wheels.edited(wheels.make(folder), {"demo-1.0.dist-info/METADATA": content})


# ---------------------------------------------------------------- the local version


def test_the_local_version_is_in_every_place(tmp_path: Path) -> None:
    files = {"demo/a.py": b"", "demo-1.0.data/scripts/demo": b"#!python\n"}
    found = wheels.members_of(label(wheels.make(tmp_path, files=files)))
    assert list(found) == [
        "demo-1.0+cu130.data/scripts/demo",
        "demo/a.py",
        "demo-1.0+cu130.dist-info/METADATA",
        "demo-1.0+cu130.dist-info/WHEEL",
        "demo-1.0+cu130.dist-info/sboms/fatwheel.cdx.json",
        "demo-1.0+cu130.dist-info/RECORD",
    ]
    assert found["demo-1.0+cu130.dist-info/RECORD"] == wheels.recorded(found)["demo-1.0+cu130.dist-info/RECORD"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n", id="no-description"),
        pytest.param(
            b"Name: demo\nVersion: 1.0\nSummary: \xc3\xa9\n\nVersion: 1.0\n\n\n", id="a-description-like-a-field"
        ),
        pytest.param(b"Name: demo\r\nVersion: 1.0\r\nSummary: x\r\n\r\nVersion: 1.0\r\n", id="crlf"),
        pytest.param(
            b"Name: demo\nversion:1.0 \nLicense: a\n  Version: 1.0\n\nx", id="another-spelling-and-a-folded-field"
        ),
    ],
)
def test_the_rest_of_metadata_is_unchanged(content: bytes, tmp_path: Path) -> None:
    assert metadata(label(with_metadata(tmp_path, content))) == content.replace(b"1.0", b"1.0+cu130", 1)


def test_without_a_label_only_the_dress_changes(tmp_path: Path) -> None:
    wheel = wheels.make(tmp_path, fields="Requires-Dist: torch\n")
    assert wheels.members_of(label(wheel, local="")) == wheels.members_of(wheel)


def test_what_may_be_executed_still_may(tmp_path: Path) -> None:
    with zipfile.ZipFile(label(wheels.make(tmp_path))) as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    assert modes["demo/run.sh"] == 0o100755
    assert modes["demo/__init__.py"] == 0o100644


def test_the_same_members_give_the_same_bytes(tmp_path: Path) -> None:
    first = wheels.make(tmp_path / "first")
    members = dict(reversed(wheels.members_of(first).items()))
    second = wheels.pack(tmp_path / "second" / first.name, members, time=(1999, 1, 1, 0, 0, 0))
    assert first.read_bytes() != second.read_bytes()
    assert label(first).read_bytes() == label(second).read_bytes()


@pytest.mark.parametrize("signature", ["RECORD.jws", "RECORD.p7s"])
def test_a_signature_of_the_old_record_is_dropped(signature: str, tmp_path: Path) -> None:
    wheel = wheels.edited(wheels.make(tmp_path), {f"demo-1.0.dist-info/{signature}": b"{}"})
    assert not [name for name in wheels.members_of(label(wheel)) if signature in name]


def test_a_vendored_dist_info_is_no_second_one(tmp_path: Path) -> None:
    wheel = wheels.make(tmp_path, files={"demo/_vendor/other-2.dist-info/METADATA": b"Name: other\n"})
    assert open_wheel(wheel).dist_info == "demo-1.0.dist-info"
    assert "demo/_vendor/other-2.dist-info/METADATA" in wheels.members_of(label(wheel))


# ---------------------------------------------------------------- torch


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("torch", "torch>=2.10,<2.11", id="bare"),
        pytest.param("torch (>=2.0)", "torch>=2.0,>=2.10,<2.11", id="old-parentheses"),
        pytest.param("torch[opt,mkl]!=2.10.1", "torch[mkl,opt]!=2.10.1,>=2.10,<2.11", id="extras"),
        pytest.param("torch>=2,\n      <3", "torch<3,>=2,>=2.10,<2.11", id="folded"),
        pytest.param("torch<2.11", "torch>=2.10,<2.11", id="the-same-clause"),
    ],
)
def test_torch_is_narrowed(before: str, after: str, tmp_path: Path) -> None:
    wheel = wheels.make(tmp_path, fields=f"Requires-Dist: {before}\nRequires-Dist: numpy>=1\n")
    narrowed = metadata(label(wheel, local="", requires_torch=">=2.10,<2.11")).decode()
    assert narrowed == metadata(wheel).decode().replace(before, after)


@pytest.mark.parametrize("marker", ['python_version < "3.13"', 'extra == "all"'])
def test_torch_is_required_where_it_was_not_always(marker: str, tmp_path: Path) -> None:
    wheel = wheels.make(tmp_path, fields=f"Requires-Dist: torch!=2.10.1; {marker}\n")
    requires = [
        line for line in metadata(label(wheel, requires_torch=">=2.10,<2.11")).decode().splitlines() if "torch" in line
    ]
    narrowed = f"Requires-Dist: torch!=2.10.1,>=2.10,<2.11 ; {marker}"
    assert requires == [narrowed, "Requires-Dist: torch>=2.10,<2.11"]


@pytest.mark.parametrize("other", ["torchvision>=0.1", "pytorch", "torch-scatter ; python_version < '4'", "numpy"])
def test_only_torch_is_narrowed(other: str, tmp_path: Path) -> None:
    wheel = wheels.make(tmp_path, fields=f"Requires-Dist: {other}\nRequires-Dist: torch\n")
    narrowed = metadata(label(wheel, local="", requires_torch="==2.10.*")).decode()
    assert narrowed == metadata(wheel).decode().replace("Dist: torch\n", "Dist: torch==2.10.*\n")


@pytest.mark.parametrize("line_end", [pytest.param(b"\n", id="lf"), pytest.param(b"\r\n", id="crlf")])
def test_torch_is_required_where_nothing_requires_it(line_end: bytes, tmp_path: Path) -> None:
    fields = line_end.join([b"Name: demo", b"Version: 1.0", b""])
    wheel = with_metadata(tmp_path, fields + line_end + b"x")
    narrowed = metadata(label(wheel, local="", requires_torch="==2.10.*"))
    assert narrowed == fields + b"Requires-Dist: torch==2.10.*" + line_end * 2 + b"x"


def test_crlf_stays_around_a_narrowed_field(tmp_path: Path) -> None:
    wheel = with_metadata(tmp_path, b"Name: demo\r\nRequires-Dist: torch>=2\r\nVersion: 1.0\r\n")
    narrowed = metadata(label(wheel, local="", requires_torch="==2.10.*"))
    assert narrowed == b"Name: demo\r\nRequires-Dist: torch>=2,==2.10.*\r\nVersion: 1.0\r\n"


# ---------------------------------------------------------------- hostile wheels


def truncated(wheel: Path) -> Path:
    wheel.write_bytes(wheel.read_bytes()[:-30])
    return wheel


def patched(wheel: Path, old: bytes, new: bytes) -> Path:
    content = wheel.read_bytes()
    assert content.count(old) >= 1
    wheel.write_bytes(content.replace(old, new))
    return wheel


def flipped(wheel: Path) -> Path:
    """Turn over a byte in the first member's content."""
    content = bytearray(wheel.read_bytes())
    content[30 + len("demo/__init__.py") + 3] ^= 0xFF
    wheel.write_bytes(content)
    return wheel


def central(wheel: Path, offset: int, value: bytes) -> Path:
    """Change what the central directory says of the first member."""
    content = bytearray(wheel.read_bytes())
    start = content.index(b"PK\x01\x02") + offset
    content[start : start + len(value)] = value
    wheel.write_bytes(content)
    return wheel


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        pytest.param(truncated, "is not a wheel: ", id="truncated"),
        pytest.param(lambda wheel: patched(wheel, wheel.read_bytes(), b""), "is not a wheel: ", id="empty"),
        pytest.param(flipped, "demo/__init__.py cannot be read: ", id="damaged-member"),
        pytest.param(lambda wheel: central(wheel, 16, bytes(4)), "cannot be read: Bad CRC-32", id="another-crc"),
        pytest.param(
            lambda wheel: central(wheel, 24, b"\x03\0\0\0"), "cannot be read: Bad CRC-32", id="claims-fewer-bytes"
        ),
        pytest.param(lambda wheel: central(wheel, 24, b"\xff\xff\0\0"), "it claims", id="claims-more-bytes"),
        pytest.param(
            lambda wheel: central(wheel, 24, b"\xf0\xff\xff\xff"), "bytes, over 100 times its size", id="zip-bomb"
        ),
        pytest.param(lambda wheel: central(wheel, 8, b"\x01"), "cannot be read: ", id="encrypted"),
        pytest.param(lambda wheel: central(wheel, 10, b"\x63"), "cannot be read: ", id="unknown-compression"),
        pytest.param(
            lambda wheel: patched(wheel, b".dist-info", b".dist-inf0"), "no dist-info folder", id="no-dist-info"
        ),
        pytest.param(
            lambda wheel: wheels.edited(wheel, {"a-1.dist-info/METADATA": b""}),
            "folder or several",
            id="two-dist-infos",
        ),
        pytest.param(
            lambda wheel: wheels.edited(wheel, {"demo-1.0.dist-info/METADATA": None}),
            "has no METADATA",
            id="no-metadata",
        ),
        pytest.param(
            lambda wheel: with_metadata(wheel.parent, b"Name: demo\nVersion: 1.0\nSummary: \xe9\n"),
            "METADATA is not UTF-8: ",
            id="latin-1",
        ),
        pytest.param(
            lambda wheel: with_metadata(wheel.parent, b"Name: demo\n"),
            "0 Version fields, expected one",
            id="no-version",
        ),
        pytest.param(
            lambda wheel: with_metadata(wheel.parent, b"Version: 1\nVersion: 2\n"),
            "2 Version fields",
            id="two-versions",
        ),
        pytest.param(
            lambda wheel: with_metadata(wheel.parent, b"Version: 1.0\nRequires-Dist: ???\n"),
            "an invalid Requires-Dist",
            id="no-requirement",
        ),
        pytest.param(
            lambda wheel: with_metadata(wheel.parent, b"Version: 1.0\nRequires-Dist: torch @ https://host/t.whl\n"),
            "gives an address, expected a specifier",
            id="torch-from-an-address",
        ),
        pytest.param(
            lambda wheel: wheels.edited(wheel, {"demo/a\x1b[2J.py": b""}), "holds a control character", id="control"
        ),
        pytest.param(lambda wheel: label(wheel).rename(wheel), "has a local version already", id="labelled-twice"),
    ],
)
def test_a_wheel_that_cannot_be_trusted_is_rejected(
    spoil: Callable[[Path], Path], sentence: str, tmp_path: Path
) -> None:
    wheel = spoil(wheels.make(tmp_path))
    with pytest.raises(Rejected) as refused:
        label(wheel, requires_torch="==2.10.*")
    assert sentence in refused.value.message
    assert wheel.name in refused.value.message
    assert not list(tmp_path.glob(f"out/{CUDA}"))


def test_a_member_that_is_there_twice_is_rejected(tmp_path: Path) -> None:
    wheel = wheels.make(tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("demo/run.sh", b"")
    with pytest.raises(Rejected, match=r"demo/run\.sh is in the archive 2 times"):
        label(wheel)


def test_a_wheel_that_is_not_there_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"^demo.whl is not a wheel: .*No such file"):
        open_wheel(tmp_path / "demo.whl")


# ---------------------------------------------------------------- what is compiled

PE = b"MZ" + bytes(0x3A) + (0x48).to_bytes(4, "little") + bytes(8) + b"PE\0\0"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(b"\x7fELF\x02\x01\x01", "ELF", id="elf"),
        pytest.param(PE, "PE", id="pe"),
        pytest.param(b"MZ is how this text begins" + bytes(80), "", id="text-that-begins-with-mz"),
        pytest.param(b"MZ", "", id="mz-alone"),
        pytest.param(b"MZ" + bytes(0x3A) + b"\xff\xff\xff\xff", "", id="mz-with-a-header-beyond-its-end"),
        pytest.param(b"\xcf\xfa\xed\xfe\x0c\0\0\x01", "Mach-O", id="mach-o"),
        pytest.param(b"\xca\xfe\xba\xbe\0\0\0\x02", "Mach-O universal", id="mach-o-universal"),
        pytest.param(b"\xca\xfe\xba\xbe\0\0\0\x41", "", id="java-class"),
        pytest.param(b"!<arch>\nfoo.o/", "static library", id="static-library"),
        pytest.param(b"\x50\xed\x55\xba\x01\0", "CUDA fatbinary", id="fatbinary"),
        pytest.param(b"", "", id="empty"),
        pytest.param(b"import torch\n", "", id="python"),
    ],
)
def test_compiled_files_are_known_by_their_first_bytes(content: bytes, found: str, tmp_path: Path) -> None:
    wheel = open_wheel(wheels.make(tmp_path, files={"demo/a.py": content}))
    assert wheel.binary_format(wheel.archive.getinfo("demo/a.py")) == found
    wheel.archive.close()


# ---------------------------------------------------------------- installers


@pytest.mark.slow
def test_pip_and_uv_take_the_result(tmp_path: Path) -> None:
    wheel = label(wheels.make(tmp_path, files={"demo.py": b"x = 1\n", "demo-1.0.data/scripts/demo": b"#!python\n"}))
    environ = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache"), "UV_NO_CONFIG": "1"}
    there, env = tmp_path / "there", tmp_path / "env"
    by_pip = run_client("pip", ["install", "--no-deps", "--no-index", "--target", there, wheel], environ)
    assert by_pip.returncode == 0, by_pip.stderr
    frozen = run_client("pip", ["freeze", "--path", there], environ).stdout
    for words in (["venv", env], ["pip", "install", "--no-deps", wheel], ["pip", "check"], ["pip", "freeze"]):
        python = sys.executable if words[0] == "venv" else env / "bin" / "python"
        by_uv = run_client("uv", [*words, "--python", python], environ)
        assert by_uv.returncode == 0, by_uv.stderr
    for listed, folder in ((frozen, there), (by_uv.stdout, env)):
        assert listed.split()[0].startswith("demo")
        assert (folder / "bin" / "demo").is_file()
