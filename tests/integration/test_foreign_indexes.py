"""The indexes of others that tests adopt are what they claim: their own tools wrote them, and clients read them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import index_script
from tests.builders.foreign_indexes import dumb_pypi_build, s3pypi_upload, upload_tree, upload_wheels
from tests.builders.hand_made_index import by_hand, find_links
from tests.builders.index_listing import listed, listed_in_json, lost
from tests.builders.index_script import BucketPlace, FolderPlace
from tests.builders.installers import take
from tests.builders.wheels import hexdigest, make
from tests.servers.bucket_site import website
from tests.servers.buckets import BUCKET, CREDENTIALS, Bucket, keys
from tests.servers.package_index import over_http
from tests.servers.uploads import sdist

pytestmark = pytest.mark.slow

OLD, NEW, OTHER = "demo-1.0-py3-none-any.whl", "demo-1.1+cu130-py3-none-any.whl", "some_other-1.0-py3-none-any.whl"


@pytest.fixture
def wheels(tmp_path: Path) -> list[Path]:
    return [make(tmp_path / "made", name, fields="Requires-Python: >=3.8\n") for name in (OLD, NEW, OTHER)]


def named(found: object) -> set[str]:
    return {f"{page}{name}" for page, name in found}  # type: ignore[attr-defined]


# ---------------------------------------------------------------- s3pypi


@pytest.mark.usefixtures("index_makers")
def test_s3pypi_writes_pages_at_keys_that_end_with_a_slash(bucket: Bucket, wheels: list[Path], tmp_path: Path) -> None:
    s3pypi_upload(bucket, "slash", wheels)
    assert keys(bucket.client(), "slash/demo/") == ["", OLD, NEW]
    found = listed(bucket.url("slash"), projects=["demo", "some-other"])
    assert named(found) == {f"demo/{OLD}", f"demo/{NEW}", f"some-other/{OTHER}"}
    assert found["demo/", NEW].sha256 == hexdigest(wheels[1])
    assert take(tmp_path, "-i", bucket.url("slash/"), "demo", "Some.Other") == {NEW, OTHER}


@pytest.mark.usefixtures("index_makers")
def test_s3pypi_writes_pages_that_a_site_serves(bucket: Bucket, wheels: list[Path], tmp_path: Path) -> None:
    s3pypi_upload(bucket, "site", wheels[:2], index_html=True)
    s3pypi_upload(bucket, "site", wheels[2:], index_html=True, put_root_index=False)
    with website(bucket) as address:
        assert named(listed(f"{address}/site")) == {f"demo/{OLD}", f"demo/{NEW}"}  # its front page knows no other yet
        assert take(tmp_path, "-i", f"{address}/site", "demo", "some-other") == {NEW, OTHER}


# ---------------------------------------------------------------- dumb-pypi


@pytest.mark.usefixtures("index_makers")
@pytest.mark.parametrize("details", [True, False], ids=["hashes-and-metadata", "names-alone"])
def test_dumb_pypi_writes_a_folder_of_pages(details: bool, bucket: Bucket, tmp_path: Path) -> None:  # noqa: FBT001
    pool = tmp_path / "out" / "pool"
    made = [make(pool, name, fields="Requires-Python: >=3.8\n") for name in (OLD, NEW, OTHER)]
    sdist(pool, "demo-0.9.tar.gz")
    assert dumb_pypi_build(tmp_path / "out", pool, details=details) == tmp_path / "out" / "simple"
    with over_http(tmp_path / "out") as address:
        found = listed(f"{address}/simple")
        assert named(found) == {f"demo/{OLD}", f"demo/{NEW}", "demo/demo-0.9.tar.gz", f"some-other/{OTHER}"}
        assert found["demo/", OLD] == (f"/pool/{OLD}", hexdigest(made[0]) if details else "")
        assert take(tmp_path, "-i", f"{address}/simple", "demo", "some_other") == {NEW, OTHER}
    upload_tree(bucket, f"dumb{details}", tmp_path / "out")
    with website(bucket) as address:
        assert named(listed(f"{address}/dumb{details}/simple")) == named(found)
        assert take(tmp_path / "site", "-i", f"{address}/dumb{details}/simple", "demo") == {NEW}


# ---------------------------------------------------------------- an index script


@pytest.fixture
def pytorch(bucket: Bucket, tmp_path: Path) -> str:
    """A prefix of the bucket laid out as PyTorch's, with its pages; return its name."""
    prefix = f"{tmp_path.name}/whl"
    upload_wheels(bucket, prefix, [make(tmp_path / "made", OLD), make(tmp_path / "made", OTHER)])
    upload_wheels(bucket, f"{prefix}/cu130", [make(tmp_path / "made", NEW)])
    upload_wheels(bucket, f"{prefix}/cpu-cxx11-abi", [make(tmp_path / "abi", "abi-1.0-py3-none-any.whl")], noted=False)
    bucket.client().put_object(Bucket=BUCKET, Key=f"{prefix}/cu130/only-a-page/index.html", Body=b"<html></html>")
    script(bucket, prefix)
    return prefix


def script(bucket: Bucket, prefix: str) -> None:
    index_script.update(BucketPlace(bucket.client(), BUCKET), prefix)


def script_as_a_program(bucket: Bucket, prefix: str) -> None:
    """Run the script as its workflow does."""
    command = [sys.executable, "-m", "tests.builders.index_script", "--endpoint", bucket.endpoint, "--bucket", BUCKET]
    environ = {**os.environ, **CREDENTIALS, "no_proxy": "127.0.0.1"}
    root = Path(__file__).parents[2]
    subprocess.run([*command, "--prefix", prefix], check=True, env=environ, cwd=root)


def test_a_script_lists_what_is_at_the_root_in_every_folder(bucket: Bucket, pytorch: str, tmp_path: Path) -> None:
    with website(bucket) as address:
        found = listed(f"{address}/{pytorch}", "cu130", "cpu-cxx11-abi")
        assert take(tmp_path, "-i", f"{address}/{pytorch}/cu130", "demo", "some.other") == {NEW, OTHER}
        assert take(tmp_path / "cpu", "-i", f"{address}/{pytorch}/cpu-cxx11-abi", "demo", "abi") == {
            OLD,
            "abi-1.0-py3-none-any.whl",
        }
    shared = {f"demo/{OLD}", f"some-other/{OTHER}"}
    abi = "abi/abi-1.0-py3-none-any.whl"
    assert named(found) == {
        *(f"{folder}{name}" for folder in ("", "cu130/", "cpu-cxx11-abi/") for name in shared),
        *(f"{folder}demo/{NEW}" for folder in ("", "cu130/")),
        *(f"{folder}{abi}" for folder in ("", "cpu-cxx11-abi/")),
    }
    assert found["cu130/demo/", NEW] == (f"/{pytorch}/cu130/{NEW}", hexdigest(tmp_path / "made" / NEW))
    assert not found["abi/", "abi-1.0-py3-none-any.whl"].sha256


def test_a_script_names_a_project_that_has_a_page_and_no_wheel(bucket: Bucket, pytorch: str) -> None:
    front = text(bucket, f"{pytorch}/cu130/index.html")
    assert '<a href="only-a-page/">only-a-page</a>' in front
    assert front.splitlines()[-1].startswith("<!--TIMESTAMP ")
    assert text(bucket, f"{pytorch}/cu130/only-a-page/index.html") == "<html></html>"
    page = text(bucket, f"{pytorch}/cu130/demo/index.html")
    assert "cu130/demo-1.1%2Bcu130-py3-none-any.whl#sha256=" in page
    assert page.count("data-core-metadata") == page.count("data-dist-info-metadata") == 2


def text(bucket: Bucket, key: str) -> str:
    return str(bucket.client().get_object(Bucket=BUCKET, Key=key)["Body"].read().decode())


def test_a_script_writes_the_same_again_and_over_what_others_wrote(bucket: Bucket, pytorch: str) -> None:
    with website(bucket) as address:
        before = listed(f"{address}/{pytorch}", "cu130")
        bucket.client().put_object(Bucket=BUCKET, Key=f"{pytorch}/cu130/demo/index.html", Body=b"<html></html>")
        assert len(lost(before, listed(f"{address}/{pytorch}", "cu130"))) == 2
        script_as_a_program(bucket, pytorch)
        assert listed(f"{address}/{pytorch}", "cu130") == before


def test_a_script_writes_what_it_saw_before_another_came(bucket: Bucket, pytorch: str, tmp_path: Path) -> None:
    late = "late-1.0-py3-none-any.whl"

    def between() -> None:
        upload_wheels(bucket, pytorch, [make(tmp_path / "made", late)])

    index_script.update(BucketPlace(bucket.client(), BUCKET), pytorch, between=between)
    assert "late" not in text(bucket, f"{pytorch}/index.html")
    script(bucket, pytorch)
    assert "late" in text(bucket, f"{pytorch}/index.html")


def test_a_script_shows_the_newest_nightlies_of_projects_that_it_knows(tmp_path: Path) -> None:
    folder = tmp_path / "whl" / "nightly" / "cu130"
    names = [f"demo-1.0.dev{number}+cu130-py3-none-any.whl" for number in range(62)]
    for name in (*names, OTHER):
        make(folder, name)
    index_script.update(FolderPlace(tmp_path), "whl/nightly")
    with over_http(tmp_path) as address:
        found = listed(f"{address}/whl/nightly", "cu130")
    assert named(found) == {f"{folder}demo/{name}" for folder in ("", "cu130/") for name in names[2:]}
    assert {link.sha256 for link in found.values()} == {""}


def test_a_script_writes_a_folder_too(tmp_path: Path) -> None:
    make(tmp_path / "whl", OLD)
    make(tmp_path / "whl" / "cu130", NEW)
    index_script.update(FolderPlace(tmp_path / "whl"), "", mount="/whl/")
    with over_http(tmp_path) as address:
        found = listed(f"{address}/whl", "cu130")
        assert take(tmp_path, "-i", f"{address}/whl/cu130", "demo") == {NEW}
    assert found["cu130/demo/", NEW] == (f"/whl/cu130/{NEW}", hexdigest(tmp_path / "whl" / "cu130" / NEW))


def test_a_script_takes_a_json_document_for_a_file_and_its_folder_for_an_index(bucket: Bucket, pytorch: str) -> None:
    with website(bucket) as address:
        assert f"cu130/demo/{NEW}" in named(listed(f"{address}/{pytorch}", "cu130"))
        bucket.client().put_object(Bucket=BUCKET, Key=f"{pytorch}/cu130/demo/index.json", Body=b"{}")
        script(bucket, pytorch)
        assert f"cu130/demo/{NEW}" not in named(listed(f"{address}/{pytorch}", "cu130"))


# ---------------------------------------------------------------- by hand


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[str]:
    """A tree written by a person, part of it at another host; its address."""
    (tmp_path / "elsewhere").mkdir()
    with over_http(tmp_path / "elsewhere") as elsewhere, over_http(tmp_path) as address:
        by_hand(tmp_path / "lab", tmp_path / "elsewhere", elsewhere, mount="/lab")
        yield f"{address}/lab"


def test_a_tree_by_hand_lists_files_of_every_kind(hand: str) -> None:
    found = listed(hand, "cu118", "cu121")
    assert {name for page, name in found if page == "demo/"} == {
        *(f"demo-{version}-py3-none-any.whl" for version in ("1.0", "1.0.post1+local", "1.1", "1.2")),
        *("Demo-0.9-py3-none-any.whl", "demo-0.6-py2.7.egg", "demo-0.6.win32.exe"),
        *("demo-0.7.zip", "demo-0.8.tar.gz", "manual.pdf"),
    }
    assert named(found) >= {
        "abi-1.0+cpu.cxx11.abi-py3-none-any.whl",
        "dot-ted/Dot.Ted-1.0-py3-none-any.whl",
        "Old_Style/Old_Style-1.0-py3-none-any.whl",
        "based/based-1.0-py3-none-any.whl",
    }
    assert found["demo/", "demo-1.1-py3-none-any.whl"].url.startswith("http://")
    twins = [listed_in_json(hand, f"{folder}/twins/")["twins-1.0-py3-none-any.whl"] for folder in ("cu118", "cu121")]
    assert len({twin.sha256 for twin in twins}) == len({twin.url for twin in twins}) == 2


def test_a_tree_by_hand_installs(hand: str, tmp_path: Path) -> None:
    newest = {"demo-1.1-py3-none-any.whl", "under_score-1.0-py3-none-any.whl", "based-1.0-py3-none-any.whl"}
    assert take(tmp_path, "-i", hand, "demo", "Under.Score", "based") == newest
    assert take(tmp_path / "old", "-i", hand, "demo<1") == {"Demo-0.9-py3-none-any.whl"}
    assert take(tmp_path / "one", "-i", f"{hand}/cu118", "twins") == {"twins-1.0-py3-none-any.whl"}
    assert take(tmp_path / "two", "-f", hand, "--no-index", "abi") == {"abi-1.0+cpu.cxx11.abi-py3-none-any.whl"}


def test_a_folder_without_pages_installs(tmp_path: Path) -> None:
    folder = find_links(tmp_path / "wheels")
    assert take(tmp_path, "--no-index", "-f", str(folder), "demo", "under-score") == {
        "demo-1.1+cu118-py3-none-any.whl",
        "Under_Score-1.0-py3-none-any.whl",
    }
