"""The index in a bucket: its layout, its clients, its editions, and its flaws."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ci_tools.errors import InputError
from ci_tools.index import maintain
from ci_tools.index.ledger import Ledger
from ci_tools.index.maintain import look
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.model.request import Channel, Edition
from ci_tools.publish.promotion import promote
from ci_tools.publish.targets.addresses import index_of
from tests.builders.bucket_parts import CUDA, PURE, Here, part_of, publish
from tests.builders.installers import run_client
from tests.builders.wheels import hexdigest, make
from tests.servers import buckets
from tests.servers.buckets import BUCKET, Bucket
from tests.servers.prepared import PIP, Other, run_prepared
from tests.servers.uploads import UV

pytestmark = pytest.mark.slow

TEST, NIGHTLY = Channel.TEST, Channel.NIGHTLY
OLDEST_PIP = "pip==23.2.1"  # the oldest that reads PEP 691 JSON where a server gives it under an HTML address


# ---------------------------------------------------------------- the layout


@pytest.fixture(scope="module")
def whole(bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Here:
    """An index with a pure wheel, one of an accelerator, a nightly and a candidate, which is only read."""
    here = part_of(bucket, tmp_path_factory.mktemp("whole"))
    index, made = here.index(), here.made
    publish(index, (make(made, PURE, fields="Requires-Python: >=3.9\n"), ""), (make(made, CUDA), "cu130"))
    publish(index, (make(made, "demo-1.1.dev20261121-py3-none-any.whl"), ""), edition=Edition(NIGHTLY, 0, "20261121"))
    publish(index, (make(made, "demo-1.1+cu130-py3-none-any.whl"), "cu130"), edition=Edition(TEST, 1))
    return here


@pytest.fixture
def released(whole: Here, here: Here) -> WheelIndex:
    """A copy of that index without its channels, for one test alone, at `here`."""
    channels = tuple(f"{channel}/" for channel in (TEST, NIGHTLY))
    buckets.copy(here.bucket.client(), f"{whole.prefix}/", f"{here.prefix}/", less=channels)
    return here.index()


def test_the_layout_is_that_of_pytorch(whole: Here) -> None:
    keys = whole.held()
    assert {key for key in keys if key.endswith(".whl")} == {
        PURE,
        f"cu130/{CUDA}",
        "nightly/demo-1.1.dev20261121-py3-none-any.whl",
        "test/cu130/demo-1.1+cu130-py3-none-any.whl",
    }
    for folder in ("cpu/", "cu130/", "nightly/cpu/", "test/cpu/", "test/cu130/"):
        for place in (folder, f"{folder}demo/"):
            assert {place, f"{place}index.html", f"{place}index.json"} <= keys
            assert whole.text(f"{place}") == whole.text(f"{place}index.html")


def test_a_pure_wheel_is_listed_in_every_folder_and_lies_once_at_the_root(whole: Here) -> None:
    for folder in ("cpu", "cu130"):
        assert f'href="../../{PURE}#sha256=' in whole.text(f"{folder}/demo/")
    assert "cu130" not in whole.text("cpu/demo/").replace("/cu130", "")


def test_a_plus_is_written_as_s3_wants_it(whole: Here) -> None:
    escaped = CUDA.replace("+", "%2B")
    page, document = (whole.text(f"cu130/demo/{name}") for name in ("", "index.json"))
    assert f'href="../{escaped}#sha256=' in page
    assert f'"url": "../{escaped}"' in document
    assert whole.index().store.url(f"cu130/{CUDA}").endswith(f"/cu130/{escaped}")


@pytest.mark.parametrize(
    ("key", "kind", "kept"),
    [
        ("cu130/demo/", "text/html; charset=utf-8", "no-cache"),
        ("cu130/demo/index.html", "text/html; charset=utf-8", "no-cache"),
        ("cu130/demo/index.json", "application/vnd.pypi.simple.v1+json", "no-cache"),
        (PURE, "application/octet-stream", "public, max-age=31536000, immutable"),
        (f"{PURE}.metadata", "text/plain; charset=utf-8", "public, max-age=31536000, immutable"),
    ],
)
def test_each_key_says_what_it_is_and_how_long_it_may_be_kept(key: str, kind: str, kept: str, whole: Here) -> None:
    said = whole.headers(f"{key}")
    assert (said["Content-Type"], said["Cache-Control"]) == (kind, kept)


def test_every_file_has_its_hash_as_pytorch_s_have(whole: Here) -> None:
    for key in (PURE, f"cu130/{CUDA}"):
        said = whole.headers(f"{key.replace('+', '%2B')}")
        assert said["x-amz-meta-checksum-sha256"] == hexdigest(whole.made / Path(key).name)


def test_the_json_says_all_that_installers_ask(released: WheelIndex, here: Here) -> None:
    maintain.yank(released, "demo==1.0", "it is <bad>")
    document = json.loads(here.text("cu130/demo/index.json"))
    assert document["meta"] == {"api-version": "1.1"}
    assert document["versions"] == ["1.0", "1.0+cu130"]
    pure = next(file for file in document["files"] if file["filename"] == PURE)
    assert {"size", "upload-time", "core-metadata", "hashes"} <= pure.keys()
    assert (pure["requires-python"], pure["yanked"]) == (">=3.9", "it is <bad>")
    assert 'data-yanked="it is &lt;bad&gt;"' in here.text("cpu/demo/")
    maintain.yank(released, "demo==1.0", None)
    assert "data-yanked" not in here.text("cpu/demo/")
    assert here.flaws() == []


# ---------------------------------------------------------------- clients


@pytest.fixture(scope="module")
def oldest_pip(tmp_path_factory: pytest.TempPathFactory) -> Other:
    """The oldest pip that the documents name, in a folder of its own, to be forked like the pip of these tests."""
    folder = tmp_path_factory.mktemp("oldest-pip")
    target = ["--quiet", "--python", sys.executable, "--target", str(folder)]
    subprocess.run([UV, "pip", "install", *target, OLDEST_PIP], check=True)
    return Other(PIP, Path(sys.executable), folder)


PIP_INSTALL = ["install", "--quiet", "--no-cache-dir"]
UV_INSTALL = ["pip", "install", "--quiet", "--no-config", "--python", sys.executable]


@pytest.mark.parametrize(("folder", "wheel"), [("cu130", CUDA), ("cpu", PURE)])
@pytest.mark.parametrize("client", ["pip", "oldest pip", "uv"])
def test_a_client_installs_what_its_hash_says(
    client: str,
    folder: str,
    wheel: str,
    whole: Here,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    pin, required = wheel.split("-")[1], tmp_path / "requirements.txt"
    required.write_text(f"demo=={pin} --hash=sha256:{hexdigest(whole.made / wheel)}\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    environ = {**kept, "PIP_CONFIG_FILE": os.devnull, "UV_CACHE_DIR": str(tmp_path / "cache")}
    address = whole.bucket.url(f"{whole.prefix}/{folder}/")
    arguments = ["--target", str(tmp_path / "there"), "--index-url", address, "--require-hashes", "-r", str(required)]
    if client == "oldest pip":
        program = request.getfixturevalue("oldest_pip")
        done = run_prepared([*PIP_INSTALL, *arguments], env=environ, program=program)
    else:
        done = run_client(client, [*{"pip": PIP_INSTALL, "uv": UV_INSTALL}[client], *arguments], environ)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"there/demo-{pin}.dist-info").is_dir()


# ---------------------------------------------------------------- editions


def test_of_nightlies_the_newest_versions_stay(here: Here, tmp_path: Path) -> None:
    names = [f"demo-1.1.dev{20260000 + number}-py3-none-any.whl" for number in range(5)]
    files = [(make(tmp_path / "made", name), "") for name in names]
    index = index_of(here.bucket.target(here.prefix, nightlies="4"), here.outside)
    publish(index, *files[:4], edition=Edition(NIGHTLY, 0, "20260003"))
    publish(index, files[4], edition=Edition(NIGHTLY, 0, "20260004"))
    wheels = {key.removeprefix("nightly/") for key in here.held() if key.endswith(".whl")}
    assert wheels == set(names[1:])
    with pytest.raises(InputError, match="is older than the 4 nightlies in s3:"):
        publish(index, files[0], edition=Edition(NIGHTLY, 0, "20260000"))
    assert here.flaws("/nightly") == []


def test_a_promoted_release_is_the_very_bytes(here: Here, tmp_path: Path) -> None:
    wheels = [make(tmp_path / "made", PURE), make(tmp_path / "made", CUDA)]
    publish(here.index(), (wheels[0], ""), (wheels[1], "cu130"), edition=Edition(TEST, 3))
    source = here.index("/test")
    promote(source, [here.index()], "demo==1.0", here.outside)
    for folder in ("test/", ""):
        entries = json.loads(here.text(f"{folder}cu130/demo/index.json"))["files"]
        assert [file["hashes"]["sha256"] for file in entries] == [hexdigest(wheel) for wheel in wheels]
    assert here.flaws() == []


# ---------------------------------------------------------------- flaws


FLAWS: list[Any] = [
    pytest.param(f"cu130/{CUDA}", None, look.GONE, id="a-wheel-is-gone"),
    pytest.param(f"cu130/{CUDA}", b"other", look.DAMAGED, id="a-wheel-has-other-bytes", marks=pytest.mark.long),
    pytest.param(f"{PURE}.metadata", None, look.NO_METADATA, id="metadata-is-gone", marks=pytest.mark.long),
    pytest.param(f"{PURE}.metadata", b"other", look.NO_METADATA, id="metadata-has-other-bytes", marks=pytest.mark.long),
    pytest.param("cu130/demo/", b"other", look.OTHERS, id="a-page-has-other-bytes"),
    pytest.param("cu130/demo/index.json", None, look.STALE, id="a-page-is-gone", marks=pytest.mark.long),
    pytest.param("cpu/index.html", b"other", look.OTHERS, id="a-front-page-has-other-bytes", marks=pytest.mark.long),
    pytest.param("cu130/stray-1.0-py3-none-any.whl", b"other", look.UNLISTED, id="a-file-that-nobody-lists"),
]


@pytest.mark.parametrize("keeps_metadata", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize(("key", "data", "what"), FLAWS)
def test_each_flaw_is_found_and_mended(
    key: str,
    data: bytes | None,
    what: str,
    keeps_metadata: bool,  # noqa: FBT001 - a parameter
    released: WheelIndex,
    here: Here,
) -> None:
    client, whole = here.bucket.client(), f"{here.prefix}/{key}"
    if what == look.UNLISTED:
        Ledger(released.store, "").note("stray", [key])
    if data is None:
        client.delete_object(Bucket=BUCKET, Key=whole)
    else:
        known = client.head_object(Bucket=BUCKET, Key=whole)["Metadata"] if what != look.UNLISTED else {}
        client.put_object(Bucket=BUCKET, Key=whole, Body=data, Metadata=known if keeps_metadata else {})
    assert here.flaws() == [(key, what)]
    maintain.repair(released, here.outside, remove_unlisted=True)
    if what in {look.GONE, look.DAMAGED}:  # its bytes cannot be made again
        assert [key for key, _ in here.flaws()] == [key]
        maintain.undo_repair(released, here.outside)
        assert here.flaws() == [(key, what)]
        maintain.repair(released, here.outside)
        maintain.yank(released, CUDA, "lost")
    assert here.flaws() == []


def test_a_damaged_manifest_is_made_again_from_its_pages(released: WheelIndex, here: Here) -> None:
    client, key = here.bucket.client(), f"{here.prefix}/.fatwheel/projects/demo.json"
    before = here.text("cu130/demo/")
    client.put_object(Bucket=BUCKET, Key=key, Body=b"[]")
    assert [flaw.is_left for flaw in maintain.repair(released, here.outside)] == [False]
    assert here.flaws() == []
    assert here.text("cu130/demo/") == before


def test_a_listed_wheel_that_was_damaged_is_put_right_by_publishing_it_again(
    released: WheelIndex, whole: Here, here: Here
) -> None:
    client, key = here.bucket.client(), f"{here.prefix}/cu130/{CUDA}"
    known = client.head_object(Bucket=BUCKET, Key=key)["Metadata"]
    client.put_object(Bucket=BUCKET, Key=key, Body=b"damaged", Metadata=known)
    publish(released, (whole.made / CUDA, "cu130"))
    assert here.flaws() == []
