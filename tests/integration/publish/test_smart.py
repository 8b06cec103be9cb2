"""A project's release with a smart sdist: made last, moved between machines, published and installed."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from ci_tools.formats import receipts
from ci_tools.machine.storage import sha256_of
from ci_tools.model.files import Outcome, Trial, Validated
from ci_tools.plan import plan_reader
from tests.builders import releases
from tests.builders.installers import run_client
from tests.builders.wheels import make
from tests.integration.conftest import CommandLine, write_project
from tests.servers.package_index import over_http
from tests.servers.prepared import Called, run_prepared

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("builds_beside_tests")]

SDIST = "tiny-1.0.tar.gz"
WHEEL = "tiny-1.0-py3-none-any.whl"


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small project, released into a folder with a smart sdist."""
    root = write_project(tmp_path_factory.mktemp("smart") / "tiny")
    with (root / "fatwheel.yml").open("a", encoding="utf-8") as config:
        config.write("publish: { pypi: smart }\nrelease: { untagged: true }\n")
    ran = run_prepared(["release", "--to", "dir:dist/index"], cwd=root, env={**os.environ})
    assert ran.returncode == 0, ran.stderr
    return root


def lock_in(sdist: Path) -> dict[str, object]:
    with tarfile.open(sdist) as archive:
        file = archive.extractfile("tiny-1.0/wheels.lock")
        assert file
        found: dict[str, object] = json.loads(file.read())
        return found


def install(index: str, folder: Path, **variables: str) -> Called:
    """Install from the sdist of an index, although it has a wheel too."""
    words = [
        "install",
        "-v",
        "--no-cache-dir",
        "--no-binary=tiny",
        "--index-url",
        index,
        "--target",
        str(folder),
        "tiny",
    ]
    environ = {**os.environ, "XDG_CACHE_HOME": f"{folder}-cache", "PIP_CONFIG_FILE": os.devnull, **variables}
    return run_client("pip", words, environ)


def test_a_second_release_has_the_same_sdist(fatwheel: CommandLine, released: Path) -> None:
    again = fatwheel("release", "--to", "dir:dist/index", cwd=released)
    assert (again.status, "nothing was built" in again.stdout) == (0, True), again.stderr
    assert again.stderr.count("tiny 1.0 looks for its wheels in a folder of this machine") == 1


def test_another_source_under_the_same_version_is_told_before_it_is_built(
    fatwheel: CommandLine, released: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(released, tmp_path / "other")
    with next(path for path in other.rglob("__init__.py") if "dist" not in path.parts).open(
        "a", encoding="utf-8"
    ) as module:
        module.write("more = 1\n")
    again = fatwheel("release", "--to", "dir:dist/index", cwd=other)
    assert again.status == 2
    told = again.stderr.find("already has 2 files of tiny 1.0")
    assert 0 <= told < again.stderr.find(f"build {WHEEL}") < again.stderr.find("is public nowhere yet"), again.stderr


def test_a_release_is_installed_from_its_sdist_without_its_build_requirements(released: Path, tmp_path: Path) -> None:
    index = shutil.copytree(released / "dist/index", tmp_path / "index")
    (wheel,) = lock_in(index / SDIST)["wheels"]  # type: ignore[misc]  # JSON
    assert wheel["sha256"] == sha256_of(index / WHEEL)
    assert wheel["urls"] == [(released / "dist/index" / WHEEL).as_uri()]
    with over_http(index) as url:  # that index has nothing but the project: flit_core cannot be had
        done = install(f"{url}/cpu", tmp_path / "there")
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"* {WHEEL}" in done.stdout + done.stderr
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / WHEEL).write_bytes(b"other bytes")
        done = install(f"{url}/cpu", tmp_path / "again", TINY_WHEELS=str(tmp_path / "other"))
    assert done.returncode
    assert "does not have the bytes that this sdist's wheels.lock names" in done.stdout + done.stderr
    assert (tmp_path / "there/tiny/__init__.py").is_file()
    assert not (tmp_path / "again").exists()


def test_machines_that_gather_make_the_sdist_smart(fatwheel: CommandLine, released: Path, tmp_path: Path) -> None:
    made = shutil.copytree(released / "dist", tmp_path / "made", ignore=shutil.ignore_patterns("index"))
    words = ("ci", "gather", "made", "--plan", "made/plan.json", "--out", "out", "--pypi", "pypi")
    target = f"dir:{tmp_path / 'index'}"
    _try_at_every_site(made)
    _name_target(made / "plan.json", target)
    refused = fatwheel(*words, cwd=tmp_path)
    assert (refused.status, "that users of the smart sdist can reach" in refused.stderr) == (2, True)
    _name_target(made / "plan.json", "github:me/tiny")
    for _ in range(2):  # a run that is repeated
        gathered = fatwheel(*words, cwd=tmp_path)
        assert gathered.status == 0, gathered.stderr
    assert [path.name for path in (tmp_path / "pypi").iterdir()] == [SDIST]
    found = {sha256_of(tmp_path / folder / SDIST) for folder in ("out", "pypi")}
    (wheel,) = lock_in(tmp_path / "pypi" / SDIST)["wheels"]  # type: ignore[misc]  # JSON
    assert wheel["urls"] == [f"https://github.com/me/tiny/releases/download/v1.0/{WHEEL}"]
    published = fatwheel("publish", "out", "--to", target, cwd=tmp_path)
    assert published.status == 0, published.stderr
    assert found == {sha256_of(tmp_path / "index" / SDIST)}


def _try_at_every_site(made: Path) -> None:
    """Add to the receipts what the machines of a plan's sites would report."""
    for site in plan_reader.read(made / "plan.json").sites:
        for name in site.tried:
            receipt = receipts.load(made / name)
            assert receipt
            passed = Validated(site.name, "", (Trial("import tiny", Outcome.PASSED),))
            receipts.save(made / name, receipt.add_place(passed))


def _name_target(plan: Path, target: str) -> None:
    table = json.loads(plan.read_text(encoding="utf-8"))
    table["request"]["publish"]["targets"] = [target]
    plan.write_text(json.dumps(table), encoding="utf-8")


def test_a_lock_names_the_place_of_a_wheel_that_replaces_another(
    fatwheel: CommandLine, released: Path, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    other = make(tmp_path / "other", WHEEL)
    releases.publish(releases.folder_index(index), releases.unit("tiny", releases.item(other)))
    for _ in range(2):
        done = fatwheel("publish", "dist", "--to", f"dir:{index}", "--replace", cwd=released)
        assert done.status == 0, done.stderr
    (sdist,) = index.rglob(SDIST)
    (wheel,) = lock_in(sdist)["wheels"]  # type: ignore[misc]  # JSON
    (url,) = wheel["urls"]
    assert url != (index / WHEEL).as_uri()
    assert sha256_of(Path(url.removeprefix("file://"))) == wheel["sha256"]


@pytest.mark.parametrize("addresses", [("pypi:testpypi",), ("pypi:testpypi", "dir:index")], ids=["alone", "folder"])
def test_a_smart_sdist_needs_a_place_for_its_wheels(
    addresses: tuple[str, ...], fatwheel: CommandLine, released: Path
) -> None:
    to = [word for address in addresses for word in ("--to", address)]
    ran = fatwheel("publish", "dist", *to, "--dry-run", cwd=released)
    assert ran.status == 2
    assert f"no target gives {WHEEL} an https address that users of the smart sdist can reach" in ran.stderr
    assert "with --to, or as the workflow's input `to`: github:OWNER/REPO" in ran.stderr


@pytest.mark.parametrize(
    "command",
    [("release", "--to", "pypi:testpypi"), ("plan", "--ask-targets"), ("plan", "--ask-targets", "--to", "dir:index")],
    ids=["release", "plan", "folder"],
)
def test_without_such_a_place_nothing_is_built(
    command: tuple[str, ...], fatwheel: CommandLine, released: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(released, tmp_path / "other", ignore=shutil.ignore_patterns("dist"))
    ran = fatwheel(*command, cwd=other)
    assert ran.status == 2
    assert "no target gives tiny-1.0.tar.gz an https address that users" in ran.stderr
    assert "as the workflow's input `to`" in ran.stderr
    assert "build" not in ran.stderr.partition("hint")[0]
