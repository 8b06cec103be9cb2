"""The index over GitHub Releases: every page of an index, from which real clients install."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest

from ci_tools.errors import InputError, MachineError
from ci_tools.github.client import Hub
from ci_tools.index.pages import is_sealed
from ci_tools.index.units import Alias, Offer, Unit
from ci_tools.machine.context import Outside, Silent
from ci_tools.model.request import Channel, Edition
from ci_tools.publish.targets import recall
from ci_tools.publish.targets.github_release import GitHubTarget
from ci_tools.publish.targets.github_release.release_pages import write_pages
from tests.builders import releases, wheels
from tests.servers.github import HEAD, REPOSITORY, TOKEN, GitHub, Stored
from tests.servers.package_index import over_http
from tests.servers.uploads import UV

pytestmark = pytest.mark.slow

PURE, CUDA, SDIST = "demo-1.0-py3-none-any.whl", "demo-1.0+cu130-py3-none-any.whl", "demo-1.0.tar.gz"
OFFER = Offer("linux-cuda", "cu130", "2.10", "3.12", CUDA, "native code")
PLAIN = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    for name in (PURE, CUDA, "demo-1.1-py3-none-any.whl", "other-1.0-py3-none-any.whl"):
        wheels.make(folder, name, fields="Requires-Python: >=3.9\n")
    (folder / SDIST).write_bytes(b"an sdist")
    return folder


def outside(hub: GitHub, tmp_path: Path, reporter: Silent | None = None) -> Outside:
    environ = {"GH_TOKEN": TOKEN, "GITHUB_API_URL": hub.url}
    return Outside(environ=environ, cache=tmp_path / "cache", reporter=reporter or Silent())


def unit(made: Path, *names: str, version: str = "1.0", edition: Edition | None = None) -> Unit:
    folders = {CUDA: ("cu130", ("cu132",))}
    items = [releases.item(made / name, *folders.get(name, ("", ()))) for name in names or (PURE, CUDA, SDIST)]
    candidate = f"-rc{edition.candidate}" if edition and edition.candidate else ""
    whole = releases.unit(items[0].name.split("-")[0], *items, version=version, edition=edition)
    return replace(whole, tag=f"v{version}{candidate}", title=f"Demo {version}", commit=HEAD, offers=(OFFER,))


def publish(hub: GitHub, tmp_path: Path, release: Unit, reporter: Silent | None = None) -> GitHubTarget:
    target = GitHubTarget(REPOSITORY, outside(hub, tmp_path, reporter), base_url=hub.url, pause=0.01)
    releases.publish(target, release)
    return target


def write(hub: GitHub, tmp_path: Path, project: str = "demo", reporter: Silent | None = None) -> Path:
    around = outside(hub, tmp_path, reporter)
    write_pages([Hub(REPOSITORY, around)], [project], tmp_path / "site", around)
    return tmp_path / "site"


def document(page: Path) -> dict[str, dict[str, object]]:
    return {file["filename"]: file for file in json.loads(page.read_bytes())["files"]}


# -- what is written


def test_every_page_of_an_index_is_there(hub: GitHub, made: Path, tmp_path: Path) -> None:
    publish(hub, tmp_path, unit(made))
    site = write(hub, tmp_path)
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*") if ".fatwheel" not in path.parts}
    pages = {name for name in pages if (site / name).is_file()}
    folders = ("cpu", "cu130", "cu132")
    fronts = {f"{folder}/index.{kind}" for folder in folders for kind in ("html", "json")}
    own = {
        f"{folder}demo/index.{kind}" for folder in ("", *(f"{one}/" for one in folders)) for kind in ("html", "json")
    }
    assert pages == {"index.html", "finder/demo.js", *fronts, *own}
    assert all(is_sealed((site / name).read_bytes()) for name in pages if not name.endswith(".js"))


def test_the_pages_say_all_that_an_index_in_a_folder_says(hub: GitHub, made: Path, tmp_path: Path) -> None:
    publish(hub, tmp_path, unit(made))
    of_releases = document(write(hub, tmp_path) / "cu130/demo/index.json")
    releases.publish(releases.folder_index(tmp_path / "index"), unit(made))
    of_folder = document(tmp_path / "index/cu130/demo/index.json")
    for one in (of_releases, of_folder):
        for file in one.values():
            file["url"] = file["upload-time"] = ""
    assert of_releases == of_folder


def test_the_finder_knows_what_a_wheel_was_built_for(hub: GitHub, made: Path, tmp_path: Path) -> None:
    publish(hub, tmp_path, unit(made))
    data = json.loads((write(hub, tmp_path) / "finder/demo.js").read_text()[len("finder(") : -len(");\n")])
    files = {file["name"]: file for file in data["listings"][0]["files"]}
    assert {"platform": "linux-cuda", "archs": ["9.0", "10.0+PTX"], "commit": HEAD}.items() <= files[CUDA].items()
    assert files[CUDA]["address"].startswith(f"{hub.url}/{REPOSITORY}/releases/download/v1.0/")
    assert data["accelerators"] == [
        ["cu130", "CUDA 13.0"],
        ["", "None (CPU)"],
    ]  # the plan offers the pure wheel to nobody


def test_metadata_is_named_where_the_very_bytes_lie_beside_the_wheel(hub: GitHub, made: Path, tmp_path: Path) -> None:
    publish(hub, tmp_path, unit(made))
    assets = {asset.name: asset for asset in hub.releases[0].assets}
    assets[f"{CUDA}.metadata"].content = b"another"
    hub.releases[0].assets.remove(assets[f"{PURE}.metadata"])
    assert "core-metadata" not in (write(hub, tmp_path) / "cu130/demo/index.html").read_text()


def test_a_server_without_digests_is_asked_for_the_metadata(hub: GitHub, made: Path, tmp_path: Path) -> None:
    publish(hub, tmp_path, unit(made))
    hub.knows_digests = False
    assert (write(hub, tmp_path) / "cu130/demo/index.html").read_text().count("data-core-metadata") == 2


def test_a_candidate_and_a_nightly_have_indexes_of_their_own(hub: GitHub, made: Path, tmp_path: Path) -> None:
    later, nightly = "demo-1.1-py3-none-any.whl", "demo-1.2.dev20261121-py3-none-any.whl"
    wheels.make(tmp_path, nightly)
    publish(hub, tmp_path, unit(made))
    publish(hub, tmp_path, unit(made, later, version="1.1", edition=Edition(Channel.TEST, 1)))
    publish(hub, tmp_path, unit(tmp_path, nightly, version="1.2.dev20261121", edition=Edition(Channel.NIGHTLY)))
    site = write(hub, tmp_path)
    assert set(document(site / "demo/index.json")) == {PURE, SDIST}
    assert set(document(site / "test/cpu/demo/index.json")) == {later}
    assert set(document(site / "nightly/cpu/demo/index.json")) == {nightly}


def test_of_two_candidates_the_last_one_is_listed(hub: GitHub, tmp_path: Path) -> None:
    for number in (1, 2):
        wheels.make(tmp_path, PURE, {"demo/which.py": str(number).encode()})
        publish(hub, tmp_path, unit(tmp_path, PURE, edition=Edition(Channel.TEST, number)))
    files = document(write(hub, tmp_path) / "test/demo/index.json")
    assert files[PURE]["hashes"] == {"sha256": wheels.hexdigest(tmp_path / PURE)}
    assert document(tmp_path / "site/demo/index.json") == {}


def test_lists_of_older_releases_are_read(hub: GitHub, made: Path, tmp_path: Path) -> None:
    publish(hub, tmp_path, unit(made))
    known = {"name", "sha256", "size", "folder", "also", "requires_python"}
    asset = next(asset for asset in hub.releases[0].assets if asset.name == "fatwheel-core.json")
    table = json.loads(asset.content)
    old = {name: table[name] for name in ("project", "version", "unit")}
    files = [{name: value for name, value in file.items() if name in known} for file in table["files"]]
    asset.content = json.dumps({**old, "files": files}).encode()
    page = (write(hub, tmp_path) / "cu130/demo/index.html").read_text()
    assert (PURE in page, "core-metadata" in page) == (True, False)


def test_second_names_of_wheels_are_in_the_list_and_in_no_index(hub: GitHub, made: Path, tmp_path: Path) -> None:
    name = "demo-1.0+cu13torch2.10cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
    one = releases.item(made / CUDA)
    aliases = (Alias(name, one.path, one.sha256, one.size),)
    publish(hub, tmp_path, replace(unit(made), aliases=aliases))
    listed = next(asset for asset in hub.releases[0].assets if asset.name == "fatwheel-core.json")
    assert json.loads(listed.content)["aliases"] == {name: one.sha256}
    recorder = releases.Words()
    site = write(hub, tmp_path, reporter=recorder)
    assert recorder.lines == []
    assert not [path for path in site.rglob("*.html") if name in path.read_text()]


def test_a_wheel_that_no_list_names_is_left_out_and_said(hub: GitHub, made: Path, tmp_path: Path) -> None:
    publish(hub, tmp_path, unit(made))
    stranger = "demo-1.0+cu126-py3-none-any.whl"
    hub.releases[0].assets.append(Stored(10_000, stranger, b"by hand"))
    recorder = releases.Words()
    site = write(hub, tmp_path, reporter=recorder)
    assert recorder.lines == [f"left out: 1 wheels of v1.0 that no fatwheel-*.json lists, such as {stranger}"]
    assert stranger not in (site / "demo/index.html").read_text()


def test_a_retracted_release_is_yanked_with_its_reason(hub: GitHub, made: Path, tmp_path: Path) -> None:
    target = publish(hub, tmp_path, unit(made))
    recall.retract(target.hub, hub.releases[0].id, "wrong <results>")
    files = document(write(hub, tmp_path) / "demo/index.json")
    assert {file["yanked"] for file in files.values()} == {"wrong <results>"}


# -- into a folder that has something


def test_a_second_run_changes_nothing_and_another_project_is_added(hub: GitHub, made: Path, tmp_path: Path) -> None:
    publish(hub, tmp_path, unit(made))
    site = write(hub, tmp_path)
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    assert {path: path.read_bytes() for path in write(hub, tmp_path).rglob("*") if path.is_file()} == before
    publish(hub, tmp_path, unit(made, "other-1.0-py3-none-any.whl", version="2.0"))
    write(hub, tmp_path, "other")
    assert [name["name"] for name in json.loads((site / "cu130/index.json").read_bytes())["projects"]] == [
        "demo",
        "other",
    ]
    assert (site / "cu130/other/index.html").is_file()


@pytest.mark.parametrize("name", ["index.html", "cu130/demo/index.json", "finder/demo.js"])
def test_a_page_that_is_not_ours_is_in_the_way(hub: GitHub, made: Path, tmp_path: Path, name: str) -> None:
    publish(hub, tmp_path, unit(made))
    theirs = tmp_path / "site" / name
    theirs.parent.mkdir(parents=True)
    theirs.write_text("by hand")
    with pytest.raises(InputError, match=f"{name} was not written by Fatwheel"):
        write(hub, tmp_path)
    assert [path for path in (tmp_path / "site").rglob("*") if path.is_file()] == [theirs]


def test_a_release_that_is_gone_is_listed_no_more(hub: GitHub, made: Path, tmp_path: Path) -> None:
    publish(hub, tmp_path, unit(made))
    publish(hub, tmp_path, unit(made, "demo-1.1-py3-none-any.whl", version="1.1"))
    write(hub, tmp_path)
    hub.releases = [one for one in hub.releases if one.fields["tag_name"] == "v1.1"]
    assert set(document(write(hub, tmp_path) / "cu130/demo/index.json")) == {"demo-1.1-py3-none-any.whl"}


# -- what is uploaded for it


def test_where_a_release_would_be_too_full_there_is_no_metadata_and_that_is_said(
    hub: GitHub, made: Path, tmp_path: Path
) -> None:
    kept = hub.add({"tag_name": "v1.0", "name": "By hand", "body": ""})
    kept.assets = [Stored(20_000 + number, f"log-{number}.txt", b"x") for number in range(996)]
    recorder = releases.Words()
    publish(hub, tmp_path, unit(made), recorder)
    assert len([asset for asset in kept.assets if asset.name.endswith(".metadata")]) == 0
    assert any(line.startswith("v1.0 would have more than 1,000 files: no .metadata is") for line in recorder.lines)
    assert "core-metadata" not in (write(hub, tmp_path) / "demo/index.html").read_text()


def test_a_list_that_names_the_same_files_stays(hub: GitHub, made: Path, tmp_path: Path) -> None:
    publish(hub, tmp_path, unit(made))
    before = [asset.content for asset in hub.releases[0].assets]
    other = replace(unit(made), offers=(), commit="")
    target = publish(hub, tmp_path, other)
    assert [asset.content for asset in hub.releases[0].assets] == before
    assert {change.what for change in target.check(other)} == {"keep"}


# -- what is installed


def clients(tmp_path: Path, address: str) -> dict[str, list[str]]:
    """Return a command of each client that installs demo from an index into a folder of its name."""
    pip = [sys.executable, "-m", "pip", "--isolated", "install", "--no-cache-dir"]
    uv = [UV, "pip", "install", "--no-config", "--no-cache", "--python", sys.executable]
    options = ["--index-url", address, "--target"]
    return {name: [*command, *options, str(tmp_path / name)] for name, command in {"pip": pip, "uv": uv}.items()}


@pytest.mark.parametrize("client", ["pip", "uv"])
def test_a_client_installs_and_reads_metadata_without_the_wheel(
    hub: GitHub, made: Path, tmp_path: Path, client: str
) -> None:
    publish(hub, tmp_path, unit(made))
    with over_http(write(hub, tmp_path)) as address:
        command = clients(tmp_path, f"{address}/cu130/")[client]
        subprocess.run([*command, "demo"], check=True, capture_output=True, env=PLAIN)
    assert (tmp_path / client / "demo-1.0+cu130.dist-info").is_dir()
    asked = [request for request in hub.requests if "/releases/download/" in request]
    metadata = [request for request in asked if request.endswith(".metadata")]
    assert metadata[:1] == asked[:1]
    assert len(metadata) == 1


@pytest.mark.parametrize("client", ["pip", "uv"])
def test_a_client_takes_a_retracted_release_by_its_version_alone_and_says_why(
    hub: GitHub, made: Path, tmp_path: Path, client: str
) -> None:
    target = publish(hub, tmp_path, unit(made))
    publish(hub, tmp_path, unit(made, "demo-1.1-py3-none-any.whl", version="1.1"))
    recall.retract(target.hub, hub.releases[0].id, "wrong results, use 1.0")
    with over_http(write(hub, tmp_path)) as address:
        command = clients(tmp_path, f"{address}/cpu/")[client]
        subprocess.run([*command, "demo"], check=True, capture_output=True, env=PLAIN)
        assert (tmp_path / client / "demo-1.0.dist-info").is_dir()
        command[-1] += "-pinned"
        done = subprocess.run([*command, "demo==1.1"], check=True, capture_output=True, text=True, env=PLAIN)
        assert "wrong results, use 1.0" in done.stderr


def test_the_front_of_the_site_is_the_finder(hub: GitHub, made: Path, tmp_path: Path) -> None:
    publish(hub, tmp_path, unit(made))
    with over_http(write(hub, tmp_path)) as address, urlopen(f"{address}/") as answer:
        page = answer.read()
    assert b'<a href="demo/">demo</a>' in page
    assert b"<script>" in page


def test_a_list_that_is_too_large_is_said(hub: GitHub, made: Path, tmp_path: Path) -> None:
    publish(hub, tmp_path, unit(made))
    hub.releases[0].assets[-1].content = b" " * (17 << 20)
    with pytest.raises(MachineError, match=r"fatwheel-core\.json of v1\.0 in octo/demo is damaged: it has 17,825,792"):
        write(hub, tmp_path)
