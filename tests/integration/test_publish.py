"""One small project released to every kind of target at once, by the command line, and installed from each of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.builders.installers import run_client
from tests.integration.conftest import CommandLine, Ran, write_project
from tests.servers.buckets import CREDENTIALS, Bucket, moto
from tests.servers.github import REPOSITORY, TOKEN, GitHub, github_server
from tests.servers.uploads import Server, pypiserver

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("builds_beside_tests")]

PURE, SDIST = "tiny-1.0-py3-none-any.whl", "tiny-1.0.tar.gz"


class Places(NamedTuple):
    """A server of each kind, and the folder that is an index."""

    folder: Path
    bucket: Bucket
    hub: GitHub
    upload: Server

    @property
    def targets(self) -> list[str]:
        """Return them as a user names them."""
        return [f"dir:{self.folder}", self.bucket.target(), f"github:{REPOSITORY}", f"pypi:{self.upload.upload}"]

    @property
    def environ(self) -> dict[str, str]:
        """What the command line finds its way and its credentials by."""
        return {"GITHUB_API_URL": self.hub.url, "GH_TOKEN": TOKEN, **CREDENTIALS, **self.upload.environ}

    def indexes(self) -> list[str]:
        """Return the indexes that pip can install from."""
        return [self.folder.joinpath("cpu").as_uri(), self.bucket.url("whl/cpu/"), self.upload.simple]


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    (tmp_path / "uploaded").mkdir()
    with moto() as bucket, github_server() as hub, pypiserver(tmp_path / "uploaded") as upload:
        yield Places(tmp_path / "index", bucket, hub, upload)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, fatwheel: CommandLine) -> Path:
    """A released project, whose files are in `dist`."""
    project = write_project(tmp_path_factory.mktemp("finished") / "tiny")
    with (project / "fatwheel.yml").open("a") as config:
        config.write("publish:\n  pypi: wheels\n")
    ran = fatwheel("release", "--to", "dir:dist/index", "--tag", "v1.0", cwd=project)
    assert ran.status == 0, ran.stderr
    return project


def publish(fatwheel: CommandLine, project: Path, places: Places, *more: str, **env: str) -> Ran:
    targets = [word for target in places.targets for word in ("--to", target)]
    return fatwheel("publish", "dist", *targets, *more, cwd=project, **{**places.environ, **env})


def shown(places: Places) -> list[object]:
    """Return what each target shows to everybody."""
    page = places.folder / "cpu" / "tiny" / "index.json"
    keys = places.bucket.client().list_objects_v2(Bucket="bucket").get("Contents", ())
    return [
        page.exists() and [file["filename"] for file in json.loads(page.read_text())["files"]],
        any(entry["Key"] == "whl/cpu/tiny/" for entry in keys),
        [asset.name for release in places.hub.releases if not release.fields["draft"] for asset in release.assets],
        sorted(path.name for path in places.folder.with_name("uploaded").iterdir()),
    ]


NOTHING = [False, False, [], []]


def test_one_command_publishes_everywhere_and_pip_installs_from_each(
    fatwheel: CommandLine, finished: Path, places: Places, tmp_path: Path
) -> None:
    ran = publish(fatwheel, finished, places)
    assert ran.status == 0, ran.stderr
    assert shown(places)[0] == [PURE, SDIST]
    for number, index in enumerate(places.indexes()):
        target = tmp_path / f"there{number}"
        words = ["install", "--quiet", "--no-cache-dir", "--target", target, "--index-url", index, "tiny==1.0"]
        done = run_client("pip", words, {**os.environ, "PIP_CONFIG_FILE": os.devnull})
        assert done.returncode == 0, done.stderr
        assert (target / "tiny" / "__init__.py").is_file()


def test_a_dry_run_changes_nothing_anywhere(fatwheel: CommandLine, finished: Path, places: Places) -> None:
    ran = publish(fatwheel, finished, places, "--dry-run")
    assert ran.status == 0, ran.stderr
    assert all(target.partition("?")[0].rstrip("/") in ran.stdout for target in places.targets[:3])
    assert shown(places) == NOTHING


def test_one_target_that_refuses_keeps_all_of_them_empty(fatwheel: CommandLine, finished: Path, places: Places) -> None:
    (places.folder.with_name("uploaded") / SDIST).write_bytes(b"another one")
    ran = publish(fatwheel, finished, places)
    assert (ran.status, SDIST in ran.stderr) == (2, True), ran.stderr
    assert shown(places) == [*NOTHING[:3], [SDIST]]


def test_a_token_that_is_missing_is_known_before_anything_is_sent(
    fatwheel: CommandLine, finished: Path, places: Places
) -> None:
    ran = publish(fatwheel, finished, places, GH_TOKEN="", GITHUB_TOKEN="")
    assert ran.status == 2
    assert "GH_TOKEN" in ran.stderr
    assert shown(places) == NOTHING


def test_twice_is_as_good_as_once(fatwheel: CommandLine, finished: Path, places: Places) -> None:
    assert publish(fatwheel, finished, places).status == 0
    before = shown(places)
    ran = publish(fatwheel, finished, places)
    assert ran.status == 0, ran.stderr
    assert shown(places) == before
    assert " new" not in ran.stdout.replace("already", "")


def test_no_secret_is_said(fatwheel: CommandLine, finished: Path, places: Places) -> None:
    ran = publish(fatwheel, finished, places)
    secrets = [value for name, value in places.environ.items() if "TOKEN" in name or "PASS" in name or "SECRET" in name]
    assert secrets
    assert [secret for secret in secrets if secret in ran.stdout + ran.stderr] == []
