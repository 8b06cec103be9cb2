"""A torch that came later is added to the release of an old tag, by the commands, from the tag's own commit."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from ci_tools.formats import receipts
from tests.builders.releases import receipt
from tests.builders.sources import committed, demo, git
from tests.builders.wheels import Links, broken, make
from tests.servers.github import REPOSITORY, TOKEN, GitHub, github_server
from tests.servers.prepared import Called, run_prepared
from tests.unit.plan.test_overrides import CONFIG
from tests.unit.plan.test_plan_file import FILES

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LATER = "demo-1.0+cu130torch2.14-cp312-cp312-manylinux_2_28_x86_64.whl"


class Added(NamedTuple):
    """A release to which the wheels of a torch were added, and what there was before."""

    hub: GitHub
    source: Path
    assets: dict[str, bytes]
    files: dict[str, bytes]
    words: str
    said: str

    @property
    def index(self) -> Path:
        return self.source.parent / "index"


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Added]:
    """Release a tag, let its branch go on, and add a torch to it."""
    config = CONFIG.replace('publish: {pypi: wheels, pypi-cuda: "13.0"}', "")
    folder = demo(tmp_path_factory.mktemp("added") / "source", {**FILES, "fatwheel.yml": config})
    commit = committed(folder)
    git(folder, "tag", "v1.0")
    (folder / "fatwheel.yml").write_text(config.replace('"2.13"]', '"2.13", "2.14"]'))
    git(folder, "commit", "--all", "--quiet", "--message", "a torch that came later")
    git(folder, "checkout", "--quiet", "v1.0")
    with github_server() as hub:
        hub.commits.add(commit)
        first = publish(hub, folder, planned(hub, folder, "first"))
        assert first.returncode == 0, first.stderr
        before, files, words = assets(hub), everything(folder.parent / "index"), hub.releases[0].fields["body"]
        later = publish(hub, folder, planned(hub, folder, "later", "--torch", "2.14"))
        assert later.returncode == 0, later.stderr
        yield Added(hub, folder, before, files, words, later.stdout)


def fatwheel(hub: GitHub, source: Path, *arguments: str) -> Called:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "GITHUB_API_URL": hub.url, "GH_TOKEN": TOKEN}
    environ |= {"FATWHEEL_CACHE": str(source.parent / "cache"), "COLUMNS": "300"}
    return run_prepared(arguments, cwd=source, env=environ)


def planned(hub: GitHub, source: Path, name: str, *arguments: str) -> Path:
    """Plan by the command, and put files in the place of those that its jobs would build, audit and try."""
    out = source.parent / name
    done = fatwheel(hub, source, "plan", "--ref", "v1.0", "--out", str(out / "plan.json"), *arguments)
    assert done.returncode == 0, done.stderr
    plan = json.loads((out / "plan.json").read_text())
    for job in plan["jobs"]:
        make(
            out,
            job["wheel"],
            {"demo/__init__.py": b"", "demo/made_by.txt": name.encode() if "+" in job["wheel"] else b""},
        )
    if plan["sdist"]:
        (out / plan["sdist"]).write_bytes(b"sdist")
    jobs = {job["wheel"]: job["name"] for job in plan["jobs"]} | {plan["sdist"]: "sdist"}
    for file in (path for path in out.iterdir() if path.name in jobs):
        receipts.save(file, replace(receipt(file, jobs[file.name]), source=plan["pins"]["source_sha256"]))
    return out


def publish(hub: GitHub, source: Path, folder: Path, *more: str) -> Called:
    targets = (f"dir:{source.parent / 'index'}", f"github:{REPOSITORY}")
    return fatwheel(hub, source, "publish", str(folder), *(f"--to={target}" for target in targets), *more)


def assets(hub: GitHub) -> dict[str, bytes]:
    return {asset.name: asset.content for asset in hub.releases[0].assets}


def everything(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*.whl")}


def test_only_what_the_release_lacks_is_added_and_all_that_was_there_stays(added: Added) -> None:
    now, body = assets(added.hub), added.hub.releases[0].fields["body"]
    assert {*now} - {*added.assets} == {LATER, f"{LATER}.metadata", "fatwheel-linux-cuda-torch2-14.json"}
    assert added.assets.items() <= now.items()
    assert added.files.items() <= everything(added.index).items()
    assert (body.startswith(added.words), "## Added: torch2.14" in body) == (True, True)
    assert (LATER in added.said, "demo-1.0.tar.gz" in added.said) == (True, False)


def test_an_index_lists_it_and_the_finder_knows_every_torch(added: Added) -> None:
    page = added.index / "cu130torch2.14" / "demo" / "index.html"
    assert broken(added.index) == []
    assert LATER in {file.name for file, _ in Links(page).found}
    assert f"{LATER}</a> (not tried on a GPU)<br>" in page.read_text()
    finder = (added.index / "finder" / "demo.js").read_text()
    assert [torch for torch in ("2.10", "2.13", "2.14") if f'"{torch}"' not in finder] == []


def test_the_page_of_the_run_says_what_was_asked_and_that_it_is_whole(added: Added) -> None:
    done = fatwheel(added.hub, added.source, "ci", "summary", str(added.source.parent / "later"))
    assert done.returncode == 0, done.stderr
    assert ("this run names torch 2.14" in done.stdout, "Ready to publish:" in done.stdout) == (True, True)


def test_adding_it_twice_changes_nothing_and_other_bytes_are_refused(added: Added) -> None:
    before = assets(added.hub)
    assert publish(added.hub, added.source, added.source.parent / "later").returncode == 0
    other = publish(added.hub, added.source, planned(added.hub, added.source, "other", "--torch", "2.14"))
    assert (other.returncode, "with other bytes" in other.stderr) == (2, True)
    assert assets(added.hub) == before
