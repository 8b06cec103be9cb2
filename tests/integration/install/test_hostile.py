"""Wheels and sdists that would write elsewhere than they may: nothing of them is installed."""

from __future__ import annotations

import hashlib
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from ci_tools.install import fatwheel_backend as backend
from tests.builders.hooks import call_hooks
from tests.builders.smart_sdists import CUDA, install, release, release_of
from tests.builders.wheels import make
from tests.servers.assets import assets

pytestmark = pytest.mark.slow

CLIENTS = ("pip-21.3.1", "pip", "uv")


# ---------------------------------------------------------------- the wheel


def hostile(name: str, mode: int = 0o100644) -> zipfile.ZipInfo:
    """Return a member of a wheel; those of a link have the mode 0o120777."""
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


HOSTILE = [
    pytest.param(hostile("../../evil.py"), "leaves its folder", id="above"),
    pytest.param(hostile("evil.py", 0o120777), "is a link", id="link"),
    pytest.param(hostile("/tmp/evil.py"), "leaves its folder", id="absolute"),  # noqa: S108 - a name in an archive
    pytest.param(hostile("demo\\..\\..\\evil.py"), "leaves its folder", id="backslashes"),
    pytest.param(hostile("C:/evil.py"), "leaves its folder", id="drive"),
]
both = pytest.mark.parametrize("name", [CUDA, "demo-1.0-py3-none-any.whl"])


def hostile_wheel(folder: Path, name: str, member: zipfile.ZipInfo) -> Path:
    wheel = make(folder, name, {"demo.py": b""})
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(member, "../../secret")
    return wheel


def evil_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*evil*") if path.name == "evil.py"]


@both
@pytest.mark.parametrize(("member", "what"), HOSTILE)
def test_a_wheel_that_writes_elsewhere_is_refused(
    name: str, member: zipfile.ZipInfo, what: str, tmp_path: Path
) -> None:
    wheel = hostile_wheel(tmp_path / "assets", name, member)
    with pytest.raises(SystemExit) as refused:
        backend.relabel(wheel, {"file": name}, tmp_path)
    assert f"{name} has {member.filename!r}, which {what}. Nothing is installed." in str(refused.value)
    assert {path.name for path in tmp_path.rglob("*")} == {"assets", name}


def test_a_wheel_that_writes_elsewhere_ends_an_installation(tmp_path: Path) -> None:
    member = hostile("../../evil.py")
    with assets(tmp_path / "assets") as server:
        made = release_of(hostile_wheel(tmp_path / "assets", CUDA, member), tmp_path, server.url)
        done = install("uv", made.sdist, tmp_path, DEMO_FOR_CUDA="13.0")
    said = done.stdout + done.stderr
    assert done.returncode, said
    assert f"{CUDA} has {member.filename!r}, which leaves its folder. Nothing is installed." in said
    assert "Traceback" not in said
    assert evil_files(tmp_path) == []


def test_a_release_whose_wheel_cannot_be_read_is_refused(tmp_path: Path) -> None:
    wheel = make(tmp_path / "assets", CUDA, {"demo.py": b""})
    wheel.write_bytes(b"<html>not found</html>")
    made = release_of(wheel, tmp_path, wheel.parent.as_uri())
    found = call_hooks(made.sdist, tmp_path, DEMO_FOR_CUDA="13.0")
    assert found.wheel is None
    assert f"{CUDA} has the bytes of the release and cannot be read as a wheel: " in found.said


def test_a_wheel_gets_its_public_version_and_keeps_every_byte(tmp_path: Path) -> None:
    big = os.urandom(3 << 20)
    files = {"demo/big.so": big, "demo-1.0+cu130.data/data/x.txt": b"x", "demo/__init__.py": b"a = 1\n" * 500}
    source = make(tmp_path, "demo-1.0+cu130-cp312-cp312-linux_x86_64.whl", files)
    name = backend.relabel(source, {"file": source.name, "archs": ["9.0", "10.0+PTX"]}, tmp_path)
    assert name == "demo-1.0-cp312-cp312-linux_x86_64.whl"
    with zipfile.ZipFile(tmp_path / name) as archive:
        assert archive.testzip() is None
        assert archive.read("demo/big.so") == big
        assert "demo-1.0.data/data/x.txt" in archive.namelist()
        assert not [one for one in archive.namelist() if "cu130" in one]
        assert "\nVersion: 1.0\n" in archive.read("demo-1.0.dist-info/METADATA").decode()
        notes = [archive.read(f"demo-1.0.dist-info/{note}").decode() for note in (backend.LABEL, backend.ARCHS)]
        assert notes == ["cu130", "9.0 10.0+PTX"]
        record = archive.read("demo-1.0.dist-info/RECORD").decode().splitlines()
        rows = {row.split(",")[0]: row.split(",")[1:] for row in record}
        assert {*rows} == {*archive.namelist()}
        for member, (digest, size) in rows.items():
            if digest:
                data = archive.read(member)
                assert len(data) == int(size)
                found = backend.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                assert digest == f"sha256={found}"


# ---------------------------------------------------------------- the sdist


def member(name: str, link: str = "") -> tarfile.TarInfo:
    """Return a member of an sdist: an empty file, or a link."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = (tarfile.SYMTYPE, link) if link else (tarfile.REGTYPE, "")
    return info


LINK = member("demo-1.0/_fatwheel/said", "../../../evil.py")


@pytest.mark.parametrize(
    ("client", "hostile_member"),
    [  # what is above its folder is refused by installers alone; a link, where it is unpacked, by the backend
        pytest.param("pip", member("../../evil.py"), id="above-pip"),
        pytest.param("uv", member("demo-1.0/../../evil.py"), id="above-from-within-uv"),
        *(pytest.param(client, LINK, id=f"a-link-to-what-the-backend-writes-{client}") for client in CLIENTS),
    ],
)
def test_an_sdist_writes_nothing_elsewhere(client: str, hostile_member: tarfile.TarInfo, tmp_path: Path) -> None:
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url, cuda="13.0")
        with tarfile.open(made.sdist) as archive:
            members = [(one, archive.extractfile(one)) for one in archive]
            changed = tmp_path / "changed" / made.sdist.name
            changed.parent.mkdir()
            with tarfile.open(changed, "w:gz") as written:
                for info, file in members:
                    written.addfile(info, file)
                written.addfile(hostile_member)
        (tmp_path / "t").mkdir()
        done = install(client, changed, tmp_path, DEMO_FOR_CUDA="13.0", TMPDIR=str(tmp_path / "t"))
    said = done.stdout + done.stderr
    assert evil_files(tmp_path) == [], said
    assert "Traceback" not in said
    is_link_to_old_pip = hostile_member.issym() and client == "pip-21.3.1"  # which unpacks links as they are
    assert bool(done.returncode) != is_link_to_old_pip, said
