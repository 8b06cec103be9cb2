"""What pages of others say of a file stays said, whatever kind of file it is, and nothing is laundered."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from ci_tools.errors import RejectedInput
from ci_tools.index import maintain
from ci_tools.index.foreign import adoption
from ci_tools.index.maintain import marks
from ci_tools.publish.targets.addresses import index_of
from tests.builders.forked import OUTSIDE
from tests.builders.wheels import make
from tests.unit.index.foreign.test_adoption import put

AWAY = "http://127.0.0.1:9"
WHEEL = "demo-1.0-py3-none-any.whl"
MD5 = hashlib.md5(b"other", usedforsecurity=False).hexdigest()


def adopt(root: Path) -> adoption.Outline:
    """Adopt a folder, and hold the dry run against what was done."""
    before = adoption.survey(index_of(f"dir:{root}", OUTSIDE), (), OUTSIDE)
    done = adoption.adopt(index_of(f"dir:{root}", OUTSIDE), (), OUTSIDE)
    assert (done.projects, done.pages) == (before.projects, before.pages)
    return done


def links(root: Path, key: str = "demo/index.html") -> dict[str, str]:
    """Return the links of a page by their names: the fragment of each and its attributes."""
    found = re.findall(r'<a href="[^"#]*([^"]*)"([^>]*)>([^<]*)</a>', (root / key).read_text())
    return {name: f"{fragment}{attributes}" for fragment, attributes, name in found}


@pytest.mark.parametrize(
    "name",
    [
        "demo-1.1.tgz",
        "demo-1.1.tar.bz2",
        "demo-1.1.tar.xz",
        "demo-1.1-py3.9.egg",
        "demo-1.1-1.tar.gz",
        "demo-1.1.tar.gz",
    ],
)
def test_every_attribute_and_hash_of_a_link_stays(name: str, tmp_path: Path) -> None:
    said = f'#md5={MD5}" data-gpg-sig="true" data-requires-python="&gt;=3.8" data-yanked="bad &amp; old"'
    put(tmp_path, "demo/index.html", f'<a href="{AWAY}/{name}{said}>x</a>')
    adopt(tmp_path)
    assert links(tmp_path) == {name: said.replace('"', "", 1).replace(MD5, f"{MD5}", 1)}
    (file,) = json.loads((tmp_path / "demo/index.json").read_text())["files"]
    assert (file["hashes"], file["yanked"], file["gpg-sig"]) == ({"md5": MD5}, "bad & old", True)


def test_what_a_document_says_stays(tmp_path: Path) -> None:
    entry = {
        "filename": "demo-1.1.tar.bz2", "url": f"{AWAY}/demo-1.1.tar.bz2", "hashes": {"md5": MD5, "blake2b": "ab" * 64},
        "size": 7, "upload-time": "2026-01-01T00:00:00Z", "core-metadata": True, "yanked": True,
        "provenance": "https://x.example/p",
    }  # fmt: skip
    put(tmp_path, "demo/index.json", json.dumps({"files": [entry], "name": "demo", "meta": {"api-version": "1.1"}}))
    adopt(tmp_path)
    (file,) = json.loads((tmp_path / "demo/index.json").read_text())["files"]
    assert file == entry


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha224", "sha384", "sha512", "blake2b"])
def test_a_file_that_the_hash_of_its_page_refuses_is_named_and_not_laundered(algorithm: str, tmp_path: Path) -> None:
    make(tmp_path / "demo", WHEEL)
    wrong = hashlib.new(algorithm, b"other").hexdigest()
    put(tmp_path, "demo/index.html", f'<a href="{WHEEL}#{algorithm}={wrong}">x</a>')
    assert [(left.where, algorithm in left.why) for left in adopt(tmp_path).left] == [(f"demo/{WHEEL}", True)]
    assert links(tmp_path) == {WHEEL: f"#{algorithm}={wrong}"}


def test_one_name_in_two_folders_is_two_entries(tmp_path: Path) -> None:
    for folder in ("cu128", "cu130"):
        make(tmp_path / folder, WHEEL, {"demo.py": folder.encode()})
        put(tmp_path, f"{folder}/demo/index.html", f'<a href="../{WHEEL}">x</a>')
    put(tmp_path, "demo/index.html", "".join(f'<a href="../{folder}/{WHEEL}">x</a>' for folder in ("cu130", "cu128")))
    assert [(row.files, row.new) for row in adopt(tmp_path).projects] == [(2, 2)]
    pages = {folder: (tmp_path / folder / "demo/index.html").read_text() for folder in ("", "cu128", "cu130")}
    found = {folder: re.findall(r'href="[./]*(?:cu1[23][08]/)?[^"#]*#', page) for folder, page in pages.items()}
    assert [len(found[folder]) for folder in pages] == [2, 1, 1]
    assert pages[""].index("cu130/demo") < pages[""].index("cu128/demo")
    assert maintain.verify(index_of(f"dir:{tmp_path}", OUTSIDE), OUTSIDE) == ()


def test_pages_that_contradict_each_other_each_keep_what_they_say(tmp_path: Path) -> None:
    make(tmp_path, WHEEL)
    put(tmp_path, "demo/index.html", f'<a href="../{WHEEL}#sha256={"ab" * 32}">x</a>')
    put(tmp_path, "cu130/demo/index.html", f'<a href="../../{WHEEL}#sha256={"cd" * 32}" data-yanked="bad">x</a>')
    assert [left.where for left in adopt(tmp_path).left] == [WHEEL]
    assert links(tmp_path) == {WHEEL: f"#sha256={'ab' * 32}"}
    assert links(tmp_path, "cu130/demo/index.html") == {WHEEL: f'#sha256={"cd" * 32} data-yanked="bad"'}


def test_a_link_of_the_front_page_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    make(tmp_path / "demo", WHEEL)
    put(tmp_path, "demo/index.html", f'<a href="{WHEEL}">x</a>')
    put(tmp_path, "index.html", '<a href="demo/">demo</a><a href="ghost/">ghost</a>')
    assert [left.where for left in adopt(tmp_path).left] == ["index.html: ghost/"]


def test_files_in_folders_of_a_flat_index_are_listed_as_pypiserver_does(tmp_path: Path) -> None:
    for name in (WHEEL, "old/demo-0.9-py3-none-any.whl", "a/b/demo-0.8-py3-none-any.whl", ".x/demo-3-py3-none-any.whl"):
        make((tmp_path / name).parent, Path(name).name)
    put(tmp_path, "demo-0.7.tar.bz2", "x")
    put(tmp_path, "nameless.zip", "x")
    assert [left.where for left in adopt(tmp_path).left] == ["nameless.zip"]
    names = ["demo-0.7.tar.bz2", "demo-0.8-py3-none-any.whl", "demo-0.9-py3-none-any.whl", WHEEL]
    assert list(links(tmp_path)) == names


def test_an_adoption_ends_before_it_writes_where_an_installer_would_get_another_file(tmp_path: Path) -> None:
    for version in ("1.0", "1.1"):
        make(tmp_path / "demo", f"demo-{version}-py3-none-any.whl")
    put(tmp_path, "demo/index.html", f'<a href="{WHEEL}">x</a>')
    files = [
        {"filename": f"demo-1.{number}-py3-none-any.whl", "url": f"demo-1.{number}-py3-none-any.whl", "hashes": {}}
        for number in range(2)
    ]
    put(tmp_path, "demo/index.json", json.dumps({"files": files}))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(RejectedInput, match=r"demo/demo-1\.1-py3-none-any\.whl would be listed"):
        adoption.adopt(index_of(f"dir:{tmp_path}", OUTSIDE), (), OUTSIDE)
    assert {path: path.read_bytes() for path in before} == before
    assert not (tmp_path / ".fatwheel/projects").exists()


@pytest.mark.parametrize("names", [["demo-1.0.zip", "demo-1.0.tar.gz"], ["demo-1.0.tar.gz", "demo-1.0.zip"]])
def test_files_of_one_version_keep_their_order(names: list[str], tmp_path: Path) -> None:
    put(tmp_path, "demo/index.html", "".join(f'<a href="{AWAY}/{name}#sha256={"ab" * 32}">x</a>' for name in names))
    adopt(tmp_path)
    assert list(links(tmp_path)) == names


def test_a_link_is_yanked_and_retracted_like_a_file(tmp_path: Path) -> None:
    put(tmp_path, "demo/index.html", f'<a href="{AWAY}/demo-1.0.tgz">x</a><a href="{AWAY}/demo-1.0.tar.xz">x</a>')
    adopt(tmp_path)
    index = index_of(f"dir:{tmp_path}", OUTSIDE)
    assert maintain.yank(index, "demo-1.0.tgz", "bad") == ("demo-1.0.tgz",)
    before = links(tmp_path)
    marks.retract(index, "demo==1.0", "all of it")
    assert list(links(tmp_path).values()) == [' data-yanked="all of it"'] * 2
    marks.restore(index, "demo==1.0")
    assert links(tmp_path) == before
