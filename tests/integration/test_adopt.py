"""Indexes that other people's tools made are adopted, published into in turns, and installed from all the while."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from ci_tools.errors import InputError, MachineError
from ci_tools.index.foreign import adoption
from ci_tools.machine.context import Outside, Silent
from ci_tools.publish.targets.addresses import index_of
from tests.builders import releases
from tests.builders.foreign_indexes import dumb_pypi_build, s3pypi_upload, upload_tree
from tests.builders.hand_made_index import by_hand, find_links
from tests.builders.index_listing import Listed, listed, lost
from tests.builders.installers import take
from tests.builders.wheels import hexdigest, make
from tests.integration.conftest import CommandLine
from tests.servers.bucket_site import website
from tests.servers.buckets import BUCKET, Bucket, copy, keys, objects
from tests.servers.package_index import over_http

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("index_makers", "bucket_variables")]

OUTSIDE = Outside(environ=os.environ, cache=Path(os.devnull), reporter=Silent())


def publish(target: str, folder: Path, version: str, project: str = "demo") -> str:
    """Publish one version as the toolkit does, and return the name of its wheel."""
    wheel = make(folder / "ours", f"{project.replace('-', '_')}-{version}-py3-none-any.whl")
    release = releases.unit(project, releases.item(wheel), version=version)
    releases.publish(index_of(target, OUTSIDE), release)
    return wheel.name


# ---------------------------------------------------------------- trees of other tools


class Tree(NamedTuple):
    """An index of others: as a user names it, where it is read, and how its own tool adds a version."""

    target: str
    url: str
    folders: tuple[str, ...]
    theirs: Callable[[str], object]
    content: Callable[[], Mapping[str, bytes]]

    def listed(self) -> Listed:
        """Return what it lists."""
        return listed(self.url, *self.folders)


def _files(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file() and path.suffix != ".lock"}


@pytest.fixture(scope="module")
def uploaded(bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What s3pypi makes of two versions, one after the other, which is only copied; its prefix."""
    folder = tmp_path_factory.mktemp("uploaded")
    for version in ("1.0", "1.1"):
        s3pypi_upload(bucket, folder.name, [make(folder, f"demo-{version}-py3-none-any.whl")])
    return folder.name


@pytest.fixture
def s3pypi(bucket: Bucket, uploaded: str, tmp_path: Path) -> Tree:
    prefix = tmp_path.name

    def theirs(version: str) -> None:
        s3pypi_upload(bucket, prefix, [make(tmp_path / "theirs", f"demo-{version}-py3-none-any.whl")])

    copy(bucket.client(), f"{uploaded}/", f"{prefix}/")
    return Tree(bucket.target(prefix), bucket.url(f"{prefix}/"), (), theirs, lambda: objects(bucket.client(), prefix))


@contextmanager
def _dumb(out: Path, *, details: bool) -> Iterator[Tree]:
    """Serve what dumb-pypi makes of a pool, told of hashes and the like, or of file names only."""

    def theirs(*versions: str) -> None:
        for version in versions:
            make(out / "pool", f"demo-{version}-py3-none-any.whl", fields="Requires-Python: >=3.8\n")
        dumb_pypi_build(out, out / "pool", details=details)  # which writes every page anew

    theirs("1.0", "1.1")
    with over_http(out) as address:
        yield Tree(f"dir:{out}/simple", f"{address}/simple/", (), theirs, lambda: _files(out))


@pytest.fixture
def dumb(tmp_path: Path) -> Iterator[Tree]:
    with _dumb(tmp_path / "site", details=True) as tree:
        yield tree


@pytest.fixture
def dumber(tmp_path: Path) -> Iterator[Tree]:
    with _dumb(tmp_path / "site", details=False) as tree:
        yield tree


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[Tree]:
    root, elsewhere = tmp_path / "lab", tmp_path / "elsewhere"
    elsewhere.mkdir()

    def theirs(version: str) -> None:
        wheel = make(root / "demo", f"demo-{version}-py3-none-any.whl")
        page = (root / "demo" / "index.html").read_text()
        (root / "demo" / "index.html").write_text(page.replace("</body>", f"<a href={wheel.name}>x</a></body>"))

    with over_http(elsewhere) as other, over_http(tmp_path) as address:
        by_hand(root, elsewhere, other, mount="/lab")
        yield Tree(f"dir:{root}", f"{address}/lab", ("cu118", "cu121"), theirs, lambda: _files(root))


@pytest.fixture(params=["s3pypi", "dumb", "dumber", "hand"])
def tree(request: pytest.FixtureRequest) -> Tree:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Tree)
    return found


def test_a_tree_is_shown_then_adopted_then_there_is_nothing_to_do(
    tree: Tree, tmp_path: Path, fatwheel: CommandLine
) -> None:
    before, content = tree.listed(), tree.content()
    shown = fatwheel("index", "adopt", tree.target, COLUMNS="200")
    assert (shown.status, "to adopt" in shown.stdout, "--yes does it" in shown.stderr) == (0, True, True)
    assert tree.content() == content
    done = fatwheel("index", "adopt", tree.target, "--yes", COLUMNS="200")
    assert (done.status, done.stdout.count("adopted")) == (0, 1), done.stderr
    assert lost(before, tree.listed()) == []
    after = tree.content()
    assert {key: data for key, data in after.items() if key in content and not _is_page(key)} == {
        key: data for key, data in content.items() if not _is_page(key)
    }
    again = adoption.survey(index_of(tree.target, OUTSIDE), (), OUTSIDE)
    assert again.is_done
    assert take(tmp_path, "-i", tree.url, "demo<1.2")


def _is_page(key: str) -> bool:
    return key.endswith(("index.html", "index.json", "/"))


def test_both_tools_publish_in_turns_and_nothing_is_lost(tree: Tree, tmp_path: Path) -> None:
    before = tree.listed()
    with pytest.raises(InputError, match="that Fatwheel did not put there"):
        publish(tree.target, tmp_path, "3.0")
    adoption.adopt(index_of(tree.target, OUTSIDE), (), OUTSIDE)
    for number in (3, 5):
        tree.theirs(f"{number}.0")
        theirs = tree.listed()
        publish(tree.target, tmp_path, f"{number + 1}.0")
        ours = tree.listed()
        assert lost(before, ours) + lost(theirs, ours) == []
        assert {f"demo-{number}.0-py3-none-any.whl", f"demo-{number + 1}.0-py3-none-any.whl"} <= {
            name for _, name in ours
        }
        before = ours
    assert take(tmp_path, "-i", tree.url, "demo") == {"demo-6.0-py3-none-any.whl"}


def test_a_folder_without_pages_is_adopted(tmp_path: Path) -> None:
    root = find_links(tmp_path / "wheels")
    names = {path.name for path in root.iterdir()}
    adoption.adopt(index_of(f"dir:{root}", OUTSIDE), (), OUTSIDE)
    publish(f"dir:{root}", tmp_path, "3.0")
    with over_http(root) as address:
        assert names < {name for _, name in listed(address)}
        assert take(tmp_path, "-i", address, "demo", "under-score") == {
            "demo-3.0-py3-none-any.whl",
            "Under_Score-1.0-py3-none-any.whl",
        }


def test_a_tree_by_hand_is_adopted_in_a_bucket(bucket: Bucket, tmp_path: Path) -> None:
    prefix, elsewhere = f"{tmp_path.name}/lab", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with over_http(elsewhere) as other, website(bucket) as site:
        upload_tree(bucket, prefix, by_hand(tmp_path / "lab", elsewhere, other, mount=f"/{prefix}"))
        before = listed(f"{site}/{prefix}", "cu118", "cu121")
        adoption.adopt(index_of(bucket.target(prefix), OUTSIDE), (), OUTSIDE)
        publish(bucket.target(prefix), tmp_path, "3.0")
        after = listed(f"{site}/{prefix}", "cu118", "cu121")
        assert lost(before, after) == []
        assert ("demo/", "demo-3.0-py3-none-any.whl") in after


# ---------------------------------------------------------------- what can be wrong with it


@pytest.fixture
def place(bucket: Bucket, tmp_path: Path) -> tuple[str, Callable[..., None]]:
    """A part of the bucket, and how something is put there."""
    prefix = tmp_path.name

    def put(key: str, data: bytes, **more: str) -> None:
        kind = "text/html" if _is_page(key) else "binary/octet-stream"
        bucket.client().put_object(Bucket=BUCKET, Key=f"{prefix}/{key}", Body=data, ContentType=kind, **more)

    return prefix, put


def page_of(*names: str) -> bytes:
    return "".join(f'<a href="{name}">x</a>\n' for name in names).encode()


def test_pages_that_are_packed_are_read(bucket: Bucket, place: tuple[str, Callable[..., None]], tmp_path: Path) -> None:
    prefix, put = place
    wheel = make(tmp_path, "demo-1.0-py3-none-any.whl")
    put(f"demo/{wheel.name}", wheel.read_bytes())
    put("demo/index.html", gzip.compress(page_of(wheel.name)), ContentEncoding="gzip")
    put("index.html", gzip.compress(page_of("demo/")), ContentEncoding="gzip")
    with pytest.raises(InputError, match=r"is compressed \(gzip\)"):
        publish(bucket.target(prefix, root="shared"), tmp_path, "1.0", "other")
    assert not [key for key in keys(bucket.client(), prefix) if "other" in key]
    adoption.adopt(index_of(bucket.target(prefix), OUTSIDE), (), OUTSIDE)
    with website(bucket) as site:
        assert {name for _, name in listed(f"{site}/{prefix}")} == {wheel.name}


def test_a_page_that_is_packed_otherwise_is_refused(bucket: Bucket, place: tuple[str, Callable[..., None]]) -> None:
    prefix, put = place
    put("demo/index.html", b"\x1b\x03", ContentEncoding="br")
    with pytest.raises(InputError, match=r"is compressed \(br\)"):
        adoption.survey(index_of(bucket.target(prefix), OUTSIDE), (), OUTSIDE)


NAMES = ["a b/demo-1.0-py3-none-any.whl", "50%/demo-1.1-py3-none-any.whl", "é/demo-1.2-py3-none-any.whl"]


def test_keys_of_every_spelling_are_adopted(
    bucket: Bucket, place: tuple[str, Callable[..., None]], tmp_path: Path
) -> None:
    prefix, put = place
    for name in (*NAMES, "demo-1.3+cu130-py3-none-any.whl"):
        put(f"demo/{name}", make(tmp_path, name.rpartition("/")[2]).read_bytes())
    names = ["a%20b/demo-1.0-py3-none-any.whl", "50%25/demo-1.1-py3-none-any.whl", "%C3%A9/demo-1.2-py3-none-any.whl"]
    put("demo/index.html", page_of(*names, "demo-1.3%2Bcu130-py3-none-any.whl", "cu130/", "../nightly/"))
    with website(bucket) as site:
        before = listed(f"{site}/{prefix}", projects=["demo"])
        adoption.adopt(index_of(bucket.target(prefix), OUTSIDE), (), OUTSIDE)
        after = listed(f"{site}/{prefix}")
        assert lost(before, after) == []
        assert all(link.sha256 for link in after.values())
        assert take(tmp_path, "-i", f"{site}/{prefix}", "demo==1.2") == {"demo-1.2-py3-none-any.whl"}


def test_what_is_damaged_stays_listed_and_what_others_put_beside_it_stays(tmp_path: Path) -> None:
    root = tmp_path / "index"
    (root / "demo").mkdir(parents=True)
    (root / "demo" / "demo-1.0-py3-none-any.whl").write_bytes(b"no zip")
    make(root / "demo", "demo-1.2-py3-none-any.whl")
    (root / "demo" / "demo-1.2-py3-none-any.whl.metadata").write_bytes(b"Name: other\nVersion: 1\n")
    make(root / "demo", "demo-1.3-py3-none-any.whl", fields=f"X: {'x' * (20 << 20)}\n")
    gone = "demo-1.1-py3-none-any.whl"
    names = [f"demo-1.{number}-py3-none-any.whl" for number in range(4)]
    (root / "demo" / "index.html").write_bytes(
        page_of(*names, "../../out/demo-2.0-py3-none-any.whl", "/x/demo-2.1.tar.gz")
    )
    outline = adoption.adopt(index_of(f"dir:{root}", OUTSIDE), (), OUTSIDE)
    assert {left.where.rpartition("/")[2] for left in outline.left} == {
        gone,
        "demo-2.0-py3-none-any.whl",
        "demo-2.1.tar.gz",
    }
    with over_http(tmp_path) as address:
        assert {name for _, name in listed(f"{address}/index")} == {
            *names,
            "demo-2.0-py3-none-any.whl",
            "demo-2.1.tar.gz",
        }
        assert take(tmp_path, "-i", f"{address}/index", "demo==1.2") == {"demo-1.2-py3-none-any.whl"}
    assert (root / "demo" / "demo-1.2-py3-none-any.whl.metadata").read_bytes() == b"Name: other\nVersion: 1\n"
    assert not (root / "demo" / "demo-1.3-py3-none-any.whl.metadata").exists()


def test_a_variant_of_others_stays_a_link(tmp_path: Path) -> None:
    page = tmp_path / "index" / "demo" / "index.html"
    page.parent.mkdir(parents=True)
    names = ["demo-1.0-py3-none-any-cu130.whl", "demo-1.0-py3-none-any.whl"]
    page.write_bytes(page_of(*(f"{name}#sha256={'ab' * 32}" for name in names)))
    for _ in range(2):
        adoption.adopt(index_of(f"dir:{tmp_path}/index", OUTSIDE), (), OUTSIDE)
    assert all(name in page.read_text() for name in names)


def test_a_download_that_breaks_off_gives_no_hash(tmp_path: Path) -> None:
    from tests.servers.package_index import index_of as broken  # noqa: PLC0415

    page = tmp_path / "index" / "demo" / "index.html"
    page.parent.mkdir(parents=True)
    wheel = make(tmp_path, "demo-1.0-py3-none-any.whl")
    with broken("demo", {wheel.name: wheel.read_bytes()}, most=100) as served:
        page.write_bytes(page_of(f"{served.url.removesuffix('simple/')}files/{wheel.name}"))
        outline = adoption.adopt(index_of(f"dir:{tmp_path}/index", OUTSIDE), (), OUTSIDE)
    assert [left.why for left in outline.left] == ["it cannot be fetched for its hash: it stays a link without one"]
    assert "sha256=" not in page.read_text().partition("fatwheel")[0]


@pytest.mark.parametrize("name", ["cu130", "nightly", "test", "finder"])
def test_a_project_with_the_name_of_a_folder_stays_as_it_is(name: str, tmp_path: Path) -> None:
    for project in ("demo", name):
        make(tmp_path / "index" / project, f"{project}-1.0-py3-none-any.whl")
        (tmp_path / "index" / project / "index.html").write_bytes(page_of(f"{project}-1.0-py3-none-any.whl"))
    (tmp_path / "index" / "index.html").write_bytes(page_of("demo/", f"{name}/"))
    with over_http(tmp_path / "index") as address:
        before = listed(address, name)
        outline = adoption.adopt(index_of(f"dir:{tmp_path}/index", OUTSIDE), (), OUTSIDE)
        assert lost(before, listed(address, name)) == []
    assert [left.where.partition("/")[0] for left in outline.left] == [name]


def test_an_adoption_without_network_says_so_and_is_gone_on_with(bucket: Bucket, s3pypi: Tree) -> None:
    before = s3pypi.listed()
    target = s3pypi.target.replace(bucket.endpoint, "http://127.0.0.1:9")
    with pytest.raises(MachineError):
        adoption.adopt(index_of(f"{target}&timeout=1", OUTSIDE), (), OUTSIDE)
    adoption.adopt(index_of(s3pypi.target, OUTSIDE), (), OUTSIDE)
    assert lost(before, s3pypi.listed()) == []


def test_an_adopted_file_is_what_its_page_says(hand: Tree) -> None:
    adoption.adopt(index_of(hand.target, OUTSIDE), (), OUTSIDE)
    found = hand.listed()
    root = Path(hand.target.removeprefix("dir:"))
    for (_, name), link in found.items():
        if link.sha256 and link.url.startswith("/lab"):
            assert link.sha256 == hexdigest(root.parent / link.url.lstrip("/")), name
