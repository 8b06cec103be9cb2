"""Whatever unpacks an archive that others made writes into its folder, or refuses; no link leads it elsewhere."""

from __future__ import annotations

import io
import re
import stat
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from ci_tools.build import sdist, toolchain
from ci_tools.build.sdk import offers, redist
from ci_tools.build.sdk.offers import WheelOffer
from ci_tools.errors import FatwheelError
from ci_tools.formats.wheel import record_hash
from ci_tools.install import fatwheel_backend
from ci_tools.source import files
from ci_tools.verify import modules

PYTHON = Path(sys.executable)
INFO = "demo-1.0.dist-info"
TARS: Mapping[str, Callable[[Path, Path], object]] = {
    "build.sdist": sdist.unpack_sdist,
    "build.sdk.redist": lambda path, folder: redist.unpack(path, path.name, folder, lambda _: True),
    "source.files": files._extract,  # noqa: SLF001 - what unpacks, without an index before it
}


def copy_parts(path: Path, folder: Path) -> None:
    with offers.open_parts(WheelOffer(path.name, path.as_uri()), requests.Session(), print) as found:
        found.copy(found.names, folder)


ZIPS: Mapping[str, Callable[[Path, Path], object]] = {
    "build.sdk.offers": copy_parts,
    "build.toolchain": toolchain._extract_headers,  # noqa: SLF001
    "install.fatwheel_backend": fatwheel_backend._unpack_metadata,  # noqa: SLF001
    "verify.modules": lambda path, _: modules.explain_failed_import(path, (), PYTHON, {}, path.with_name("log")),
}
VERIFIED = {
    "catalog.pinned_tools": "compares the archive with the catalog's sha256 first",
    "observe.scripts.cmake": "runs confined, in place of cmake, in the copy of the project that is observed",
}
TOPS = {"build.toolchain": toolchain.HEADERS, "install.fatwheel_backend": f"{INFO}/"}
# The members of an archive: what each is called, and where it leads if it is a link; `{out}` is a folder outside.
MEMBERS = {
    "above": [("../../out/evil", "")],
    "from-within": [("a/../../../../out/evil", "")],
    "absolute": [("{out}/evil", "")],
    "backslashes": [("..\\..\\..\\out\\evil", "")],
    "through-a-link": [("link", "../../out"), ("link/evil", "")],
    "through-an-absolute-link": [("link", "{out}"), ("link/evil", "")],
    "over-a-link": [("link", "{out}/kept"), ("link", "")],
    "through-two-links": [("a", "."), ("a/b", "../.."), ("a/b/out/evil", "")],
}  # fmt: skip


def fill_tar(path: Path, members: list[tuple[str, str]], kind: bytes) -> None:
    with tarfile.open(path, "w:xz" if path.suffix == ".xz" else "w:gz") as archive:
        for name, link in [("demo-1.0/PKG-INFO", ""), *members]:
            member = tarfile.TarInfo(name)
            member.linkname, member.type = link, kind if link else tarfile.REGTYPE
            member.size = 0 if link else 4
            archive.addfile(member, io.BytesIO(b"evil"))


def fill_zip(path: Path, members: list[tuple[str, str]], top: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, link in [(f"{top}__init__.py", ""), *members]:
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFLNK if link else stat.S_IFREG) << 16
            archive.writestr(info, link or "evil")
        record = "".join(f"{name},{record_hash(archive.read(name))},\n" for name in archive.namelist())
        archive.writestr(f"{INFO}/RECORD", record)


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder beside the one that is unpacked into: nothing in it changes, and nothing around it is new."""
    (tmp_path / "in/folder").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "in/folder"))
    out = tmp_path / "out"
    out.mkdir()
    (out / "kept").write_text("kept")
    yield out
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("kept", "kept")]
    assert {path.name for path in tmp_path.iterdir()} <= {"in", "out", "log"}
    assert not (tmp_path / "in/evil").exists()


def named(kind: str, top: str, out: Path) -> list[tuple[str, str]]:
    return [(name.format(out=out) if "{out}" in name else top + name, to.format(out=out)) for name, to in MEMBERS[kind]]


@pytest.mark.parametrize("link", [tarfile.SYMTYPE, tarfile.LNKTYPE], ids=["symbolic", "hard"])
@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize("place", TARS)
def test_no_member_of_a_tar_leaves_its_folder(place: str, kind: str, link: bytes, out: Path) -> None:
    path = out.parent / "in" / ("demo-1.0.tar.xz" if "redist" in place else "demo-1.0.tar.gz")
    fill_tar(path, named(kind, "demo-1.0/", out), link)
    with suppress(FatwheelError, OSError):
        TARS[place](path, path.parent / "folder")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize("place", ZIPS)
def test_no_member_of_a_zip_leaves_its_folder(place: str, kind: str, out: Path) -> None:
    path, top = out.parent / "in" / "demo-1.0-py3-none-any.whl", TOPS.get(place, "demo/")
    fill_zip(path, named(kind, top, out), top)
    with suppress(FatwheelError, OSError):
        ZIPS[place](path, path.parent / "folder")


def test_whatever_unpacks_is_tried() -> None:
    package, unpacks = Path(sdist.__file__).parents[1], re.compile(r"\.(extract|extractall|unpack_archive)\(")
    files = [path for kind in ("*.py", "*.sh") for path in package.rglob(kind)]
    found = [path.relative_to(package) for path in files if unpacks.search(path.read_text("utf-8"))]
    tried = (TARS.keys() | ZIPS.keys() | VERIFIED.keys()) - {"build.sdk.offers"}
    assert {".".join(path.with_suffix("").parts) for path in found} == tried
