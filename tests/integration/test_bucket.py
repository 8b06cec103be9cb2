"""The index in a bucket: its layout, its clients, many publishers at once, and what a server can refuse."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ci_tools.errors import InputError, MachineError
from ci_tools.formats import receipts
from ci_tools.machine import waits
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.objects import bucket_reader
from ci_tools.machine.objects.bucket import BucketStore
from ci_tools.machine.objects.bucket_reader import ATTEMPTS, TORN
from ci_tools.machine.objects.lock_board import Board
from ci_tools.machine.objects.place import place_of
from ci_tools.machine.objects.store import content_of_bytes
from ci_tools.model.request import Channel, Edition
from ci_tools.plan.plan_file import SCHEMA_VERSION
from ci_tools.publish import transaction
from ci_tools.publish.index import maintain
from ci_tools.publish.index.ledger import Ledger
from ci_tools.publish.index.wheel_index import WheelIndex
from ci_tools.publish.targets.addresses import index_of
from tests.builders import releases
from tests.builders.installers import run_client
from tests.builders.publishers import Job, publishers
from tests.builders.releases import Words, item, receipt, unit
from tests.builders.wheels import edited, hexdigest, make
from tests.servers import buckets
from tests.servers.buckets import BUCKET, CREDENTIALS
from tests.servers.faults import Fault, proxy
from tests.servers.prepared import PIP, Other, run_prepared
from tests.servers.uploads import UV, free_port
from tests.unit.publish.test_units import JOBS, SDIST, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from email.message import Message

    from tests.builders.publishers import Publishers
    from tests.integration.conftest import CommandLine
    from tests.servers.buckets import Bucket
    from tests.servers.faults import Event, Proxy

pytestmark = pytest.mark.slow

PURE, CUDA = "demo-1.0-py3-none-any.whl", "demo-1.0+cu130-py3-none-any.whl"
TEST, NIGHTLY = Channel.TEST, Channel.NIGHTLY
OLDEST_PIP = "pip==23.2.1"  # the oldest that reads PEP 691 JSON where a server gives it under an HTML address


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with buckets.moto() as served:
        yield served


@pytest.fixture(scope="module", autouse=True)
def _credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        yield


@dataclass(frozen=True)
class Here:
    """A part of the bucket, and a folder for the wheels that are published to it."""

    bucket: Bucket
    prefix: str
    outside: Outside
    made: Path

    def target(self, port: int = 0) -> str:
        """Return it as a user names it, reached at another port where one is given."""
        return self.bucket.target(self.prefix, port)

    def index(self, channel: str = "") -> WheelIndex:
        """Return the index there, or that of a channel."""
        return index_of(self.bucket.target(f"{self.prefix}{channel}"), self.outside)

    def text(self, key: str) -> str:
        """Read a key as an installer does."""
        with urllib.request.urlopen(self.bucket.url(f"{self.prefix}/{key}")) as answer:
            return str(answer.read().decode())

    def headers(self, key: str) -> Message:
        """Return what the server says of a key."""
        with urllib.request.urlopen(self.bucket.url(f"{self.prefix}/{key}")) as answer:
            return answer.headers  # type: ignore[no-any-return]

    def held(self) -> set[str]:
        """Return every key that an installer may ask for."""
        found = buckets.keys(self.bucket.client(), f"{self.prefix}/")
        return {key for key in found if not key.startswith((".fatwheel", "finder"))}

    def flaws(self, channel: str = "") -> list[tuple[str, str]]:
        """Read all of it again."""
        return [(flaw.key, flaw.what) for flaw in maintain.verify(self.index(channel), self.outside)]


@pytest.fixture
def here(bucket: Bucket, tmp_path: Path) -> Here:
    return part_of(bucket, tmp_path)


def part_of(bucket: Bucket, folder: Path) -> Here:
    """Return the part that is named as a folder is."""
    return Here(
        bucket, folder.name, Outside(environ=os.environ, cache=folder / "cache", reporter=Silent()), folder / "made"
    )


def publish(index: WheelIndex, *files: tuple[Path, str], edition: Edition | None = None) -> None:
    releases.publish(index, unit("demo", *(item(path, folder) for path, folder in files), edition=edition))


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


def test_a_later_candidate_takes_the_place_of_an_earlier_one_and_never_the_other_way(
    here: Here, tmp_path: Path
) -> None:
    first = make(tmp_path / "first", PURE)
    second = edited(make(tmp_path / "second", PURE), {"demo/new.py": b""})
    publish(here.index(), (first, ""), edition=Edition(TEST, 1))
    publish(here.index(), (second, ""), edition=Edition(TEST, 2))
    page = here.text("test/cpu/demo/")
    assert (hexdigest(second) in page, hexdigest(first) in page) == (True, False)
    with pytest.raises(InputError, match="already with other bytes"):
        publish(here.index(), (first, ""), edition=Edition(TEST, 1))
    assert here.flaws("/test") == []


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
    maintain.promote(source, [here.index()], "demo==1.0", here.outside)
    for folder in ("test/", ""):
        entries = json.loads(here.text(f"{folder}cu130/demo/index.json"))["files"]
        assert [file["hashes"]["sha256"] for file in entries] == [hexdigest(wheel) for wheel in wheels]
    assert here.flaws() == []


# ---------------------------------------------------------------- flaws


FLAWS: list[Any] = [
    pytest.param(f"cu130/{CUDA}", None, maintain.GONE, id="a-wheel-is-gone"),
    pytest.param(f"cu130/{CUDA}", b"other", maintain.DAMAGED, id="a-wheel-has-other-bytes", marks=pytest.mark.long),
    pytest.param(f"{PURE}.metadata", None, maintain.NO_METADATA, id="metadata-is-gone", marks=pytest.mark.long),
    pytest.param(
        f"{PURE}.metadata", b"other", maintain.NO_METADATA, id="metadata-has-other-bytes", marks=pytest.mark.long
    ),
    pytest.param("cu130/demo/", b"other", maintain.OTHERS, id="a-page-has-other-bytes"),
    pytest.param("cu130/demo/index.json", None, maintain.STALE, id="a-page-is-gone", marks=pytest.mark.long),
    pytest.param(
        "cpu/index.html", b"other", maintain.OTHERS, id="a-front-page-has-other-bytes", marks=pytest.mark.long
    ),
    pytest.param("cu130/stray-1.0-py3-none-any.whl", b"other", maintain.UNLISTED, id="a-file-that-nobody-lists"),
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
    if what == maintain.UNLISTED:
        Ledger(released.store, "").note("stray", [key])
    if data is None:
        client.delete_object(Bucket=BUCKET, Key=whole)
    else:
        known = client.head_object(Bucket=BUCKET, Key=whole)["Metadata"] if what != maintain.UNLISTED else {}
        client.put_object(Bucket=BUCKET, Key=whole, Body=data, Metadata=known if keeps_metadata else {})
    assert here.flaws() == [(key, what)]
    maintain.repair(released, here.outside, remove_unlisted=True)
    if what in {maintain.GONE, maintain.DAMAGED}:  # its bytes cannot be made again
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


# ---------------------------------------------------------------- many at once


@pytest.fixture(scope="module")
def workers() -> Iterator[Publishers]:
    with publishers() as started:
        yield started


def job(project: str, files: list[tuple[Path, str]], to: str, tmp_path: Path, number: int) -> Job:
    named = tuple((str(path), folder) for path, folder in files)
    return Job(project, "1.0", named, (to,), str(tmp_path / f"journals-{number}"))


def many(count: int, tmp_path: Path, target: str) -> list[Job]:
    """Return publishers of one project, with a wheel each, two for each accelerator."""
    jobs = []
    for number in range(count):
        label = f"cu{120 + number // 2}"
        wheel = make(tmp_path / "made", f"demo-1.0+{label}-cp3{number % 2 + 10}-none-any.whl")
        jobs.append(job("demo", [(wheel, label)], target, tmp_path, number))
    return jobs


COUNTS = [6, pytest.param(16, marks=pytest.mark.long)]


@pytest.mark.parametrize("count", COUNTS)
def test_many_publishers_of_one_project_lose_nothing(
    count: int, workers: Publishers, here: Here, tmp_path: Path
) -> None:
    ended = workers.publish(*many(count, tmp_path, here.target()))
    assert [one.status for one in ended] == [0] * count, ended
    document = json.loads(here.text("demo/index.json"))
    names = sorted(path.name for path in (tmp_path / "made").iterdir())
    assert document["files"] == []  # none is of every accelerator
    listed = [
        file["filename"]
        for label in {f"cu{120 + number // 2}" for number in range(count)}
        for file in json.loads(here.text(f"{label}/demo/index.json"))["files"]
    ]
    assert sorted(listed) == names
    assert here.flaws() == []


@pytest.mark.long
def test_sixteen_publishers_of_sixteen_projects_lose_nothing(workers: Publishers, here: Here, tmp_path: Path) -> None:
    jobs = []
    for number in range(16):
        name = f"demo{number}"
        wheels = [(make(tmp_path / "made", f"{name}-1.0-py3-none-any.whl"), f"cu{120 + number % 4}")]
        jobs.append(job(name, wheels, here.target(), tmp_path, number))
    ended = workers.publish(*jobs)
    assert [one.status for one in ended] == [0] * 16, ended
    for folder in ("cpu", "cu120", "cu123"):
        names = {entry["name"] for entry in json.loads(here.text(f"{folder}/index.json"))["projects"]}
        assert names == {f"demo{number}" for number in range(16)}
    assert here.flaws() == []


@pytest.mark.parametrize("count", COUNTS)
def test_of_many_publishers_with_other_bytes_under_one_name_one_set_wins(
    count: int, workers: Publishers, here: Here, tmp_path: Path
) -> None:
    jobs, sets = [], []
    for number in range(count):
        folder = tmp_path / f"made-{number}"
        own = make(folder, f"demo-1.0+cu{120 + number}-py3-none-any.whl")
        shared = edited(make(folder, PURE), {"demo/who.py": f"{number % 3}".encode()})
        sets.append((own.name, hexdigest(shared)))
        jobs.append(job("demo", [(shared, ""), (own, f"cu{120 + number}")], here.target(), tmp_path, number))
    ended = workers.publish(*jobs)
    manifest = Ledger(here.index().store, "").manifest("demo")
    winner = manifest.files[PURE].sha256
    won = [number for number in range(count) if sets[number][1] == winner]
    assert [number for number in range(count) if ended[number].status == 0] == won, ended
    assert {ended[number].status for number in range(count) if number not in won} == {2}
    assert all("already with other bytes" in ended[number].said for number in range(count) if number not in won)
    assert set(manifest.files) == {PURE, *(sets[number][0] for number in won)}
    assert {what for _, what in here.flaws()} <= {maintain.UNLISTED}


def test_a_folder_that_appears_while_a_new_project_is_published_has_its_page_too(here: Here, tmp_path: Path) -> None:
    def meanwhile(event: Event) -> None:
        if event.where.endswith("/first/index.json") and not others:
            others.append("second")
            wheel = item(make(tmp_path, "second-1.0-py3-none-any.whl"), "cu130")
            releases.publish(here.index(), unit("second", wheel))

    others: list[str] = []
    with proxy(here.bucket.port) as between:
        between.hook = meanwhile
        target = index_of(here.target(between.server_port), here.outside)
        releases.publish(target, unit("first", item(make(tmp_path, "first-1.0-py3-none-any.whl"))))
        assert (others, between.errors) == (["second"], [])
    assert here.flaws() == []


@pytest.mark.usefixtures("released")
def test_a_slow_publisher_undoes_nothing_where_the_page_is_what_it_was_when_it_looked(here: Here) -> None:
    def meanwhile(event: Event) -> None:
        if event.what == "PUT" and event.where.endswith("/cpu/demo/") and not others:
            others.extend(maintain.yank(here.index(), "demo==1.0", None))  # the very bytes of before, so the same tag

    others: list[str] = []
    with proxy(here.bucket.port) as between:
        between.hook = meanwhile
        maintain.yank(index_of(here.target(between.server_port), here.outside), "demo==1.0", "broken")
        assert (sorted(others), between.errors) == (sorted([CUDA, PURE]), [])
    assert here.flaws() == []


# ---------------------------------------------------------------- refused


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A folder with a release that is ready to be published."""
    folder = tmp_path / "dist"
    folder.mkdir()
    table = {**plan(), "schema": SCHEMA_VERSION}
    (job,) = table["jobs"] = table["jobs"][:1]
    table["covered"] = [cell for cell in table["covered"] if cell["job"] == job["name"]]
    table["validate"] = [site for site in table["validate"] if job["wheel"] in site["files"]]
    (folder / "plan.json").write_text(json.dumps(table))
    (folder / SDIST).write_bytes(b"sdist")
    for path in (make(folder, PURE), folder / SDIST):
        receipts.save(path, receipt(path, JOBS[path.name]))
    return folder


NOBODY = {
    **dict.fromkeys(CREDENTIALS, ""),
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


def ran(fatwheel: CommandLine, dist: Path, target: str, **env: str) -> tuple[int, str]:
    """Publish, which is refused, and return what is said; nothing is left that says that it has begun."""
    done = fatwheel("publish", dist, "--to", target, **{**CREDENTIALS, **env})
    assert "Traceback" not in done.stderr
    assert not (dist / "journals").exists()
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in done.stderr + done.stdout
    return done.status, done.stderr


@pytest.mark.parametrize(
    ("fault", "status", "sentences"),
    [
        (Fault.UNKNOWN, 2, ("the credentials are refused", "renew them")),
        (Fault.DENIED, 2, ("these credentials may not GetObject", "allow them s3:GetObject and s3:ListBucket there")),
        (Fault.SKEWED, 3, ("this machine's clock is wrong", "set it and run the same command again")),
    ],
)
def test_what_the_server_says_is_told_with_what_to_do(
    fault: Fault,
    status: int,
    sentences: tuple[str, ...],
    fatwheel: CommandLine,
    dist: Path,
    here: Here,
) -> None:
    with proxy(here.bucket.port) as between:
        between.begin(fault, 1)
        said = ran(fatwheel, dist, here.target(between.server_port))
    assert (said[0], [sentence for sentence in sentences if sentence not in said[1]]) == (status, []), said
    assert here.held() == set()


@pytest.mark.parametrize(
    ("target", "status", "sentence"),
    [
        pytest.param("s3://nowhere/whl?endpoint={}", 2, "there is no such bucket", id="no-such-bucket"),
        pytest.param("s3://bucket/whl?endpoint=http://127.0.0.1:{free}", 3, "Could not connect", id="no-network"),
        pytest.param("s3://bucket/whl?endpoint=here", 2, 'endpoint is "here"', id="no-endpoint"),
        pytest.param("s3://BUCKET!/whl?endpoint={}", 2, "Invalid bucket name", id="no-bucket-name"),
        pytest.param("s3://bucket/whl?endpont={}", 2, 'did you mean "endpoint"?', id="no-setting"),
        pytest.param("s3://bucket/whl?timeout=soon", 2, "expected whole seconds such as 60", id="no-timeout"),
        pytest.param("s3:///whl", 2, "names no bucket, expected s3://BUCKET/PREFIX", id="no-bucket"),
        pytest.param("s3://bucket/../whl", 2, "names no bucket", id="a-way-out"),
    ],
)
def test_a_target_that_cannot_be_reached_is_told(
    target: str, status: int, sentence: str, fatwheel: CommandLine, dist: Path, bucket: Bucket
) -> None:
    said = ran(fatwheel, dist, target.replace("{free}", str(free_port())).replace("{}", bucket.endpoint))
    assert (said[0], sentence in said[1]) == (status, True), said


def test_a_server_that_does_not_answer_is_waited_for_with_words(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "EVERY", 0.2)
    words = Words()
    with proxy(here.bucket.port) as between:
        store = BucketStore(place_of(f"{here.target(between.server_port)}&timeout=2"), words)
        between.begin(Fault.SILENT, 1)
        assert store.find("page") is None
    address = here.target(between.server_port)
    assert words.lines[0] == f"waiting for page in {address}: 0 s"
    assert re.fullmatch(f"waiting for page in {re.escape(address)}: [2-9] s", words.lines[-1])


def test_who_has_no_credentials_is_told_where_they_are_looked_for(
    fatwheel: CommandLine, dist: Path, here: Here
) -> None:
    status, said = ran(fatwheel, dist, here.target(), **NOBODY)
    assert (status, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE" in said) == (2, True), said


def drop_conditions(_: str, headers: dict[str, str]) -> None:
    """Let a server overwrite whatever the condition says."""
    for name in ("If-None-Match", "If-Match"):
        headers.pop(name, None)


def refuse_conditions(headers: Mapping[str, str]) -> tuple[int, str] | None:
    """Answer as a server that knows that it does not know conditions."""
    return (501, "NotImplemented") if {"If-None-Match", "If-Match"} & set(headers) else None


@pytest.mark.parametrize(
    ("attribute", "wrong", "what"),
    [
        pytest.param("edit", drop_conditions, "ignores", id="ignored"),
        pytest.param("denied", refuse_conditions, "does not know", id="not-implemented"),
    ],
)
def test_a_server_without_conditional_writes_is_published_to_by_a_lock_and_that_is_said(
    attribute: str, wrong: object, what: str, fatwheel: CommandLine, dist: Path, here: Here
) -> None:
    with proxy(here.bucket.port) as between:
        setattr(between, attribute, wrong)
        done = fatwheel("publish", dist, "--to", here.target(between.server_port), **CREDENTIALS)
    said = f"this server {what} If-None-Match or If-Match; its publishers wait for each other by a lock"
    assert (done.status, done.stderr.count(said)) == (0, 1), done.stderr
    assert here.flaws() == []


def test_a_denial_in_the_middle_of_the_switch_keeps_the_journal(here: Here, tmp_path: Path) -> None:
    release = unit("demo", item(make(tmp_path, PURE)))
    with proxy(here.bucket.port) as between:
        target = index_of(here.target(between.server_port), here.outside)
        target.check(release)
        target.stage(release)
        between.hook = lambda event: _deny_pages(between, event)
        with pytest.raises(InputError, match="may not PutObject"):
            transaction.publish(release, [target], tmp_path / "journals", Silent())
        assert (tmp_path / "journals/core.json").exists()
        with pytest.raises(InputError, match=r"it cannot be finished without s3://.*endpoint="):  # at another server
            transaction.publish(release, [here.index()], tmp_path / "journals", Silent())
        between.hook = lambda _: None
        transaction.publish(release, [target], tmp_path / "journals", Silent())
    assert here.flaws() == []


def _deny_pages(between: Proxy, event: Event) -> None:
    """Let the first page be denied that is written."""
    if event.what == "PUT" and event.where.endswith("/cpu/demo/") and between.fault is None:
        between.fault, between.at = Fault.DENIED, len(between.events) + 1


# ---------------------------------------------------------------- half a page


PAGE = "cpu/demo/index.html"


def halve(between: Proxy, is_at: Callable[[Event], bool]) -> None:
    """Let half of every page arrive that is at a place."""
    between.stored = lambda event, body: body[: len(body) // 2] if event.what == "PUT" and is_at(event) else body


def end_in_half(here: Here, tmp_path: Path, wheel: str) -> None:
    """Publish a wheel; a proxy halves one page, again and again, until the publisher gives up."""
    release = unit("demo", item(make(tmp_path / "made", wheel)))
    with proxy(here.bucket.port) as between:
        halve(between, lambda event: event.where.endswith(PAGE))
        with pytest.raises(MachineError, match=f"{PAGE} in s3://.* has other bytes than were sent"):
            releases.publish(index_of(here.target(between.server_port), here.outside), release)
    assert ((PAGE, maintain.OTHERS) in here.flaws(), "</html>" in here.text(PAGE)) == (True, False)


def test_a_page_that_was_halved_on_its_way_is_mended_by_the_next_run(here: Here, tmp_path: Path) -> None:
    end_in_half(here, tmp_path, PURE)
    publish(here.index(), (tmp_path / "made" / PURE, ""))
    assert here.flaws() == []


def test_a_page_of_a_newer_release_that_was_halved_is_mended_by_an_older_one(here: Here, tmp_path: Path) -> None:
    publish(here.index(), (make(tmp_path / "made", PURE), ""))
    old = Ledger(here.index().store, "").manifest("demo")
    end_in_half(here, tmp_path, "demo-2.0-py3-none-any.whl")
    index, ledger = here.index(), Ledger(here.index().store, "")
    index.show(ledger, [old])  # as a writer does that has read the manifest before that release
    assert here.flaws() == []
    assert "demo-2.0-py3-none-any.whl" in here.text(PAGE)


# ---------------------------------------------------------------- what a server makes of the bytes


def turned(text: str) -> str:
    """Return a tag as a server gives it that makes it of something else than the bytes."""
    return text[::-1]


def store_of(here: Here, between: Proxy, *, has_key: bool = False) -> BucketStore:
    """Return a store reached through the proxy; `has_key`: of a bucket that encrypts, so that no tag is a hash."""

    def answered(parsed: dict[str, Any], **_: object) -> None:
        if "ETag" in parsed:
            parsed["ETag"] = turned(parsed["ETag"])

    def asked(params: dict[str, Any], **_: object) -> None:
        if "If-Match" in params["headers"]:
            params["headers"]["If-Match"] = turned(params["headers"]["If-Match"])

    store = BucketStore(place_of(here.target(between.server_port)), Silent())
    if has_key:
        store.client.meta.events.register("after-call.s3", answered)
        store.client.meta.events.register("before-call.s3", asked)
    return store


def put(store: BucketStore, key: str, data: bytes) -> bool:
    return store.put(key, content_of_bytes(data), instead_of=store.find(key), generation=1)


def requests_for(between: Proxy, key: str, what: str) -> int:
    return sum(event.what == what and event.where.endswith(f"/{key}") for event in between.events)


def test_a_tag_that_is_no_hash_is_found_out_once_and_nothing_is_sent_twice(here: Here) -> None:
    with proxy(here.bucket.port) as between:
        assert put(store_of(here, between), "before", b"before the bucket encrypts")
        between.begin()
        store = store_of(here, between, has_key=True)
        assert [put(store, key, key.encode()) for key in ("first", "second", "first")] == [True] * 3
        counts = [(requests_for(between, key, "PUT"), requests_for(between, key, "GET")) for key in ("first", "second")]
        assert counts == [(2, 1), (1, 0)]
        found = store.find("first")
        assert found
        assert not store.put("first", content_of_bytes(b"late"), instead_of=found._replace(tag='"0"'))


def test_a_release_is_published_where_no_tag_is_a_hash(here: Here, tmp_path: Path) -> None:
    with proxy(here.bucket.port) as between:
        index = WheelIndex(store_of(here, between, has_key=True), order=1)
        publish(index, (make(tmp_path, PURE), ""), (make(tmp_path, CUDA), "cu130"))
    assert here.flaws() == []


READS = {
    "whole": lambda store: (store.read("page") or (b"",))[0],
    "part": lambda store: store.part("page", 0, 99),
    "claim": lambda store: Board(store, 60).read("page"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("times", [1, len(TORN), len(TORN) + 1])
def test_an_answer_that_breaks_off_is_asked_for_again_a_few_times(
    times: int, read: Callable[[BucketStore], bytes], here: Here
) -> None:
    def meanwhile(event: Event) -> None:
        is_next = event.what == "GET" and requests_for(between, "page", "GET") < times
        between.at = len(between.events) + 1 if is_next else 0

    with proxy(here.bucket.port) as between:
        store = store_of(here, between)
        assert put(store, "page", b"every byte of it")
        between.begin(Fault.CUT_ANSWER)
        between.hook = meanwhile
        if times <= len(TORN):
            assert read(store) == b"every byte of it"
            return
        with pytest.raises(MachineError, match=r"IncompleteRead|more expected|streaming response") as raised:
            read(store)
    assert raised.value.hint == "the same command goes on where this one stopped"


@pytest.mark.parametrize(("times", "is_put"), [(1, True), (ATTEMPTS - 1, True), (ATTEMPTS, False)])
def test_bytes_that_a_server_stores_wrong_are_sent_again_a_few_times(times: int, is_put: bool, here: Here) -> None:  # noqa: FBT001 - a parameter
    def meanwhile(event: Event) -> None:
        is_next = event.what == "PUT" and event.where.endswith("/page")
        between.at = len(between.events) + 1 if is_next and requests_for(between, "page", "PUT") < times else 0

    with proxy(here.bucket.port) as between:
        between.begin(Fault.CORRUPT)
        between.hook = meanwhile
        store = store_of(here, between)
        if is_put:
            assert put(store, "page", b"right")
            assert (store.read("page") or (b"",))[0] == b"right"
        else:
            with pytest.raises(MachineError, match=f"page in s3://.* has other bytes than were sent, {ATTEMPTS} times"):
                put(store, "page", b"right")
        assert requests_for(between, "page", "PUT") == min(times + 1, ATTEMPTS)


def test_more_than_any_page_has_is_not_read(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_reader, "MOST_READ", 10)
    with proxy(here.bucket.port) as between:
        store = store_of(here, between)
        assert put(store, "page", b"1234567890")
        assert (store.read("page") or (b"",))[0] == b"1234567890"
        assert put(store, "page", b"12345678901")
        with pytest.raises(MachineError, match="has 11 bytes, expected at most 10"):
            store.read("page")


# ---------------------------------------------------------------- a server that checks


@pytest.fixture(scope="module")
def strict() -> Iterator[Bucket]:
    """A bucket of a server that checks every hash it is told."""
    try:
        with buckets.localstack() as served:
            yield served
    except LookupError as error:
        pytest.skip(str(error))


@pytest.mark.long
def test_a_server_that_checks_hashes_is_published_to_and_refuses_wrong_ones(strict: Bucket, tmp_path: Path) -> None:
    here = Here(strict, "whl", Outside(environ=os.environ, cache=tmp_path, reporter=Silent()), tmp_path)
    index = here.index()
    publish(index, (make(tmp_path, PURE), ""), (make(tmp_path, CUDA), "cu130"))
    assert here.flaws() == []
    store = index.store
    content = content_of_bytes(b"some")._replace(data=b"same")
    with pytest.raises(MachineError, match=r"BadDigest|checksum"):
        store.put("wrong", content, instead_of=None)
    assert store.find("wrong") is None


@pytest.mark.long
def test_sixteen_publishers_at_once_to_a_server_that_checks(
    strict: Bucket, workers: Publishers, tmp_path: Path
) -> None:
    here = Here(strict, "many", Outside(environ=os.environ, cache=tmp_path, reporter=Silent()), tmp_path)
    ended = workers.publish(*many(16, tmp_path, strict.target("many")))
    assert [one.status for one in ended] == [0] * 16, ended
    assert here.flaws() == []
