"""One index over the releases of several repositories, wheels of others included: what is listed, and what is not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from ci_tools.errors import InputError
from ci_tools.github.client import Hub
from ci_tools.index.finder.data import RECIPES, parse_recipes
from ci_tools.publish.targets.github_release.release_pages import write_pages
from ci_tools.recipes.makers import list_makers
from ci_tools.recipes.shelf import list_recipes
from tests.builders import releases, wheels
from tests.builders.attestations import sign_provenance
from tests.builders.installers import run_client
from tests.integration.test_releasepages import PLAIN, PURE, SDIST, document, made, outside, publish, unit
from tests.servers.github import REPOSITORY, GitHub, github_server, refusal
from tests.servers.github_settings import settle

pytestmark = pytest.mark.slow

__all__ = ["made"]  # a fixture


@pytest.fixture
def other() -> Iterator[GitHub]:
    """Return a second server, whose repository has another owner in real life."""
    with github_server() as server:
        yield server


def upload(hub: GitHub, tag: str, *paths: Path, **fields: object) -> None:
    """Put wheels into a release as somebody does by hand."""
    kept = hub.add({"tag_name": tag, **fields})
    for path in paths:
        stored = hub.upload(kept, path.name)
        stored.content, stored.state = path.read_bytes(), "uploaded"


def write_all(tmp_path: Path, *hubs: GitHub, projects: tuple[str, ...] = ()) -> tuple[Path, str]:
    """Write an index over several repositories; return its folder, and what was said."""
    recorder = releases.Words()
    opened = [Hub(REPOSITORY, outside(hub, tmp_path, recorder), base_url=hub.url, pause=0.01) for hub in hubs]
    write_pages(opened, projects, tmp_path / "site", outside(hubs[0], tmp_path, recorder), others=True)
    return tmp_path / "site", "\n".join(recorder.lines)


def test_one_index_has_the_projects_of_several_repositories(
    hub: GitHub, other: GitHub, made: Path, tmp_path: Path
) -> None:
    publish(hub, tmp_path, unit(made))
    wheel = wheels.make(tmp_path, "gpu-2.0+cu130sm89torch2.10.0-py3-none-any.whl", fields="Requires-Python: >=3.9\n")
    upload(other, "gpu-v2.0", wheel, made / "other-1.0-py3-none-any.whl")
    site, _ = write_all(tmp_path, hub, other)
    assert {name for name in ("demo", "gpu", "other") if (site / name / "index.json").is_file()} == {
        "demo", "gpu", "other"}  # fmt: skip
    (file,) = document(site / "cu130torch2.10/gpu/index.json").values()
    assert file["url"] == f"{other.url}/{REPOSITORY}/releases/download/gpu-v2.0/{quote(wheel.name)}"
    assert file["hashes"] == {"sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}
    assert file["requires-python"] == ">=3.9"
    assert document(site / "cpu/gpu/index.json") == {}
    options = ["--no-deps", "--target", tmp_path / "there", "--no-cache-dir"]
    asked = ["--index-url", f"file://{site}/cu130torch2.10/", "gpu==2.0", "demo"]
    installed = run_client("pip", ["install", *options, *asked], PLAIN)
    assert installed.returncode == 0, installed.stderr


def test_metadata_is_read_once_and_by_parts(hub: GitHub, tmp_path: Path) -> None:
    wheel = wheels.make(tmp_path, "gpu-2.0-py3-none-any.whl")
    upload(hub, "gpu-v2.0", wheel)
    write_all(tmp_path, hub)
    asked = [one for one in hub.requests if "/download/" in one]
    write_all(tmp_path, hub)
    assert [one for one in hub.requests if "/download/" in one] == asked
    assert asked


def test_a_wheel_that_installers_refuse_is_left_out(hub: GitHub, tmp_path: Path) -> None:
    good = wheels.make(tmp_path, "gpu-2.0-py3-none-any.whl")
    liar, broken = tmp_path / "gpu-2.1-py3-none-any.whl", tmp_path / "gpu-2.2-py3-none-any.whl"
    liar.write_bytes(good.read_bytes())
    broken.write_bytes(good.read_bytes()[:-40])
    odd = tmp_path / "gpu-2.3-cp314t-cp314t-linux_x86_64.whl"
    odd.write_bytes(good.read_bytes())
    upload(hub, "v2", good, liar, broken, odd)
    site, said = write_all(tmp_path, hub)
    assert [*document(site / "gpu/index.json")] == [good.name]
    assert "gpu-2.1-py3-none-any.whl of v2: the project and version of its METADATA are not those of its name" in said
    assert "no Python has the tag cp314t, expected cp314-cp314t" in said
    assert {name for name in (liar.name, broken.name, odd.name) if f"left out: {name}" in said} == {
        liar.name, broken.name, odd.name}  # fmt: skip


def test_without_a_hash_of_githubs_nothing_of_others_is_listed(hub: GitHub, tmp_path: Path) -> None:
    hub.knows_digests = False
    upload(hub, "v2", wheels.make(tmp_path, "gpu-2.0-py3-none-any.whl"))
    with pytest.raises(InputError, match="has a file of any project"):
        write_all(tmp_path, hub)


def test_of_one_name_in_two_repositories_the_first_counts(hub: GitHub, other: GitHub, tmp_path: Path) -> None:
    one = wheels.make(tmp_path / "one", "gpu-2.0-py3-none-any.whl")
    two = wheels.make(tmp_path / "two", "gpu-2.0-py3-none-any.whl", fields="Requires-Python: >=3.11\n")
    upload(hub, "v2", one)
    upload(other, "v2", two)
    site, _ = write_all(tmp_path, hub, other)
    (file,) = document(site / "gpu/index.json").values()
    assert file["hashes"] == {"sha256": hashlib.sha256(one.read_bytes()).hexdigest()}


def test_prereleases_and_nightlies_of_others_are_in_channels_of_their_own(hub: GitHub, tmp_path: Path) -> None:
    upload(hub, "v3", wheels.make(tmp_path, "gpu-3.0-py3-none-any.whl"), prerelease=True)
    upload(hub, "n", wheels.make(tmp_path, "gpu-3.1.dev1-py3-none-any.whl"))
    upload(hub, "v2", wheels.make(tmp_path, "gpu-2.0-py3-none-any.whl"))
    upload(hub, "v4", wheels.make(tmp_path, "gpu-4.0-py3-none-any.whl"), draft=True)
    site, _ = write_all(tmp_path, hub)
    found = {root: [*document(site / root / "gpu/index.json")] for root in ("", "test", "nightly")}
    assert found == {"": ["gpu-2.0-py3-none-any.whl"], "test": ["gpu-3.0-py3-none-any.whl"],
                     "nightly": ["gpu-3.1.dev1-py3-none-any.whl"]}  # fmt: skip


def test_a_project_that_no_repository_has_is_an_error_with_the_nearest(hub: GitHub, made: Path, tmp_path: Path) -> None:
    publish(hub, tmp_path, unit(made))
    with pytest.raises(InputError, match='project "demmo", did you mean "demo"'):
        write_all(tmp_path, hub, projects=("demmo",))


def files_of(site: Path, project: str) -> dict[str, dict[str, str]]:
    """Return the files of a project in the finder's data, by name."""
    text = (site / f"finder/{project}.js").read_text()
    listings = json.loads(text.removeprefix("finder(").removesuffix(");\n"))["listings"]
    return {file["name"]: file for listing in listings for file in listing["files"]}


@pytest.mark.parametrize("kind", ["User", "Organization"])
def test_the_finder_says_from_whom_a_wheel_is_and_whether_it_is_attested(
    hub: GitHub, made: Path, tmp_path: Path, kind: str
) -> None:
    hub.owner["type"] = kind
    publish(hub, tmp_path, unit(made))
    signed, other, bare = (wheels.make(tmp_path, f"gpu-{n}.0-py3-none-any.whl") for n in (1, 2, 3))
    upload(hub, "gpu", signed, other, bare)
    for wheel, repository in ((signed, 1), (made / PURE, 1), (other, 2)):  # the second is another of the same owner
        hub.attested[hashlib.sha256(wheel.read_bytes()).hexdigest()] = repository
    site, _ = write_all(tmp_path, hub)
    files = files_of(site, "gpu")
    assert {name: file["attested"] for name, file in files.items()} == {
        signed.name: "yes", other.name: "no", bare.name: "no"}  # fmt: skip
    assert {file["repository"] for file in files.values()} == {REPOSITORY}
    ours = files_of(site, "demo")
    assert (ours[PURE]["attested"], "attested" in ours[SDIST]) == ("yes", False)
    asked = [one for one in hub.requests if one.endswith("bulk-list")]
    assert len(asked) == 3  # the pages of one question about five wheels
    assert not hub.problems


def test_an_attestation_that_does_not_hold_is_none(hub: GitHub, tmp_path: Path) -> None:
    good, elsewhere, of_others, empty = (wheels.make(tmp_path, f"gpu-{n}.0-py3-none-any.whl") for n in range(1, 5))
    upload(hub, "gpu", good, elsewhere, of_others, empty)
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (good, elsewhere, of_others, empty)}
    hub.attested |= dict.fromkeys(digests.values(), 1)
    here = f"{hub.url}/{REPOSITORY}"
    hub.bundles |= {
        digests[elsewhere.name]: sign_provenance(digests[elsewhere.name], "https://github.com/mallory/wheels"),
        digests[of_others.name]: sign_provenance(digests[good.name], here),
        digests[empty.name]: {"mediaType": "text/plain"},
    }
    site, said = write_all(tmp_path, hub)
    assert [file["attested"] for file in files_of(site, "gpu").values()].count("yes") == 1
    assert files_of(site, "gpu")[good.name]["attested"] == "yes"
    for name, why in ((elsewhere, f"a run of https://github.com/mallory/wheels signed it, expected one of {here}"),
                      (of_others, "it is of other bytes"), (empty, "it cannot be read: KeyError")):  # fmt: skip
        assert f"the attestation of sha256:{digests[name.name]} does not hold: {why}" in said


@pytest.mark.parametrize("status", [403, 404, 422])
def test_what_github_does_not_say_of_attestations_is_not_known(hub: GitHub, tmp_path: Path, status: int) -> None:
    upload(hub, "gpu", wheels.make(tmp_path, "gpu-1.0-py3-none-any.whl"))
    hub.routes.insert(0, ("POST", r"/users/octo/attestations/bulk-list", lambda *_: refusal(status, "no")))
    site, said = write_all(tmp_path, hub)
    assert "attested" not in files_of(site, "gpu")["gpu-1.0-py3-none-any.whl"]
    assert f"not known which wheels of {REPOSITORY} are attested" in said


def test_the_finder_gets_the_recipes_and_the_form_of_the_first_repository_that_has_it(
    hub: GitHub, other: GitHub, made: Path, tmp_path: Path
) -> None:
    publish(hub, tmp_path, unit(made))
    settle(other).files[".github/ISSUE_TEMPLATE/wheel.yml"] = b"name: I need this wheel"
    recorder = releases.Words()
    hubs = [Hub(REPOSITORY, outside(one, tmp_path, recorder), base_url=one.url, pause=0.01) for one in (hub, other)]
    makers = list_makers(list_recipes(tmp_path))  # ours
    for _ in range(2):  # the second run finds its own files
        written = write_pages(hubs, (), tmp_path / "site", outside(hub, tmp_path), makers=makers)
    path = tmp_path / "site" / RECIPES
    assert path in written
    there, form = parse_recipes(path.read_bytes())
    assert (list(there), form) == (sorted(makers), f"{other.url}/{REPOSITORY}/issues/new?template=wheel.yml")
    by_name = {maker.recipe: maker for maker in there}
    assert by_name["cupy-cuda13x"].python == ("3.13", "3.14", "3.14t")
    assert (by_name["opencv-python"].uses_torch, by_name["nunchaku"].uses_torch) == (False, True)
    path.write_bytes(b"a file of theirs")
    with pytest.raises(InputError, match="was not written by Fatwheel"):
        write_pages(hubs, (), tmp_path / "site", outside(hub, tmp_path), makers=makers)
