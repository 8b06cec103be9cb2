"""`fatwheel verify`: a wheel is made again from its commit; what differs is named to the member, section and symbol."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.builders import own_backend, remade
from tests.builders.remade import Released
from tests.integration.conftest import REPOSITORY, CommandLine, Ran, own_python
from tests.servers.assets import assets
from tests.servers.package_index import index_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def released(fatwheel: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Released:
    folder = tmp_path_factory.mktemp("released")
    return release(fatwheel, folder)


def release(fatwheel: CommandLine, folder: Path, requires: str = "", **env: str) -> Released:
    python = own_python().strip('"')
    repository, out = remade.make_repository(folder / "tiny", python, requires), folder / "dist"
    job = f"linux-cpu-cp{python.replace('.', '')}"
    ran = fatwheel("build", "--job", job, "--out", out, cwd=repository, **env)
    assert ran.status == 0, ran.stderr
    return Released(repository, next(out.glob(remade.WHEEL)), remade.git(repository, "rev-parse", "HEAD"))


@pytest.fixture
def clone(released: Released, tmp_path: Path) -> Path:
    """A clean clone of the release's repository at another path."""
    remade.git(tmp_path, "clone", "--quiet", str(released.repository), str(tmp_path / "clone"))
    return tmp_path / "clone"


def verify(fatwheel: CommandLine, wheel: Path, clone: Path, **env: str) -> tuple[Ran, dict[str, Any]]:
    ran = fatwheel("verify", wheel, "--source", clone, "--format", "json", cwd=clone.parent, **env)
    return ran, json.loads(ran.stdout or "{}")


def test_a_release_is_made_again_from_its_commit_wherever_its_tag_is_now(
    fatwheel: CommandLine, released: Released, clone: Path
) -> None:
    moved = remade.move_tag(clone)
    ran, found = verify(fatwheel, released.wheel, clone)
    assert (ran.status, found["same"], found["environment"]) == (0, True, []), ran.stderr
    assert found["commit"] == released.commit
    assert found["notes"] == [
        f"the tag v1.0 is at commit {moved} now: the wheel was made from {released.commit}, which counts"
    ]


@pytest.mark.long
def test_one_changed_byte_is_named_by_member_section_and_symbol(
    fatwheel: CommandLine, released: Released, clone: Path, tmp_path: Path
) -> None:
    ran, found = verify(fatwheel, remade.change_wheel(released.wheel, tmp_path, remade.flip_answer), clone)
    assert (ran.status, len(found["members"])) == (1, 1)
    first = found["members"][0]
    assert first["member"].startswith("tiny/fast.cpython")
    assert (first["section"], first["symbol"], found["environment"]) == (".text", "answer", [])
    assert found["changes"] == [f"{first['member']} is not what its RECORD says"]


@pytest.mark.long
def test_a_byte_that_breaks_the_archive_is_named_as_well(
    fatwheel: CommandLine, released: Released, clone: Path, tmp_path: Path
) -> None:
    ran, found = verify(fatwheel, remade.flip_raw_byte(released.wheel, tmp_path), clone)
    assert (ran.status, [one["member"].partition(".")[0] for one in found["members"]]) == (1, ["tiny/fast"])
    assert found["members"][0]["section"]


@pytest.mark.long
def test_another_compiler_is_named_with_what_it_makes_otherwise(
    fatwheel: CommandLine, released: Released, clone: Path, tmp_path: Path
) -> None:
    path = f"{remade.put_other_compiler(tmp_path / 'bin')}{os.pathsep}{os.environ['PATH']}"
    ran, found = verify(fatwheel, released.wheel, clone, PATH=path)
    assert (ran.status, found["members"][0]["section"], found["members"][0]["symbol"]) == (1, ".text", "answer")
    (compiler,) = found["environment"]
    assert compiler["what"] == "C++ compiler"
    assert compiler["here"].startswith("c++ (another) 99.1")


@pytest.mark.long
def test_another_user_makes_the_same(released: Released) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)
        remade.git(place, "clone", "--quiet", str(released.repository), str(place / "home" / "clone"))
        shutil.copy(released.wheel, place / "home")
        words = ("-m", "ci_tools", "verify", released.wheel.name, "--source", place / "home" / "clone")
        done = remade.run_as_nobody(place, "env", f"PYTHONPATH={REPOSITORY}", sys.executable, *words)
    if "unshare" in done.stderr or "Permission denied" in done.stderr:
        pytest.skip(f"needs root, and a repository that others may read: {done.stderr.strip()}")
    assert (done.returncode, done.stdout[:6]) == (0, "same: "), done.stderr


@pytest.mark.long
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_same_requirements_are_installed_again_and_no_others_of_their_names(
    fatwheel: CommandLine, tmp_path: Path, installer: str
) -> None:
    house = tmp_path / "house"
    house.mkdir()
    env = {"FATWHEEL_INSTALLER": installer, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(house)}
    remade.write_wheel_of_others(house / "maker-1-py3-none-any.whl", own_backend.BACKEND)
    made = release(fatwheel, tmp_path, "maker", **env)
    remade.write_wheel_of_others(house / "maker-2-py3-none-any.whl", f"{own_backend.BACKEND}MORE = 1\n")
    ran, found = verify(fatwheel, made.wheel, made.repository, **env)
    assert (ran.status, found["environment"], found["unchecked"][1:]) == (0, [], []), ran.stderr
    remade.write_wheel_of_others(house / "maker-1-py3-none-any.whl", f"{own_backend.BACKEND}MORE = 1\n")
    env["UV_CACHE_DIR"] = str(tmp_path / "cache")  # uv would take the right one from its own
    ran, _ = verify(fatwheel, made.wheel, made.repository, **env)
    assert ran.status == 1
    assert "hash" in ran.stderr.lower()


@pytest.mark.parametrize("kind", [pytest.param("git", marks=pytest.mark.long), "sdist"])
def test_a_wheel_by_a_recipe_is_made_again_by_its_config_or_from_the_repository_of_that(
    fatwheel: CommandLine, tmp_path: Path, kind: str
) -> None:
    sdist = remade.write_upstream(tmp_path / "up")
    pinned = hashlib.sha256(sdist).hexdigest()
    sources = {"git": f"{tmp_path}/up, ref: v1.0", "sdist": f"{{name: tiny, version: '1.0', sha256: {pinned}}}"}
    repository = remade.make_recipe(tmp_path / "recipes", f"{kind}: {sources[kind]}")
    with index_of("tiny", {"tiny-1.0.tar.gz": sdist}) as index:
        env = {"PIP_INDEX_URL": index.url}
        ran = fatwheel("build", "recipes/fatwheel.yml", "--job", "pure", "--out", "dist", cwd=tmp_path, **env)
        assert ran.status == 0, ran.stderr
        wheel, config = next(tmp_path.glob("dist/*.whl")), ("--config", repository / "fatwheel.yml")
        source = ("--source", repository)
        made = [fatwheel("verify", wheel, *options, cwd=tmp_path, **env) for options in (config, source)]
        refused = [fatwheel("verify", wheel, *options, cwd=tmp_path) for options in ((), (*source, *config))]
    assert [(one.status, one.stdout.partition(":")[0]) for one in made] == [(0, "same")] * 2, made
    assert [one.status for one in refused] == [2, 2]
    assert "was made by a config that is not in its source" in refused[0].stderr
    assert "--config is not for" in refused[1].stderr


def test_a_config_is_no_option_for_a_wheel_whose_source_has_it(
    fatwheel: CommandLine, released: Released, clone: Path, tmp_path: Path
) -> None:
    options = ("--source", clone, "--config", clone / "fatwheel.yml")
    ran = fatwheel("verify", released.wheel, *options, cwd=tmp_path)
    assert ran.status == 2
    assert f"--config is not for {released.wheel.name}, whose config is the one at its commit" in ran.stderr


@pytest.mark.parametrize(
    ("wheel", "said"),
    [
        pytest.param("demo-1.0-py3-none-any.whl", "was not made by Fatwheel", id="of-others"),
        pytest.param("demo.txt", "is not a wheel", id="no-wheel"),
        pytest.param("cut-1.0-py3-none-any.whl", "not a zip file\n  hint: it was cut or changed", id="cut"),
        pytest.param("http://127.0.0.1:9/demo/", "is not the address of a wheel", id="address-of-a-page"),
        pytest.param("dmo-1.0-py3-none-any.whl", "there is no file dmo-1.0-py3-none-any.whl", id="no-file"),
        pytest.param("../demo-1.0-py3-none-any.whl", "page, give the whole address", id="link-of-a-page"),
    ],
)
def test_what_cannot_be_verified_is_one_sentence(fatwheel: CommandLine, tmp_path: Path, wheel: str, said: str) -> None:
    remade.write_wheel_of_others(tmp_path / "demo-1.0-py3-none-any.whl")
    whole = (tmp_path / "demo-1.0-py3-none-any.whl").read_bytes()
    (tmp_path / "cut-1.0-py3-none-any.whl").write_bytes(whole[:-100])
    ran = fatwheel("verify", wheel, cwd=tmp_path)
    assert (ran.status, ran.stdout) == (2, "")
    assert said in ran.stderr


def test_an_address_with_nothing_there_is_wrong_and_no_trouble_of_the_network(
    fatwheel: CommandLine, tmp_path: Path
) -> None:
    with assets(tmp_path) as server:
        ran = fatwheel("verify", f"{server.url}/dmo-1.0-py3-none-any.whl", cwd=tmp_path)
    assert (ran.status, "check the network" in ran.stderr) == (2, False), ran.stderr
    assert "hint: check the address" in ran.stderr


def test_a_source_without_the_commit_is_another_one(fatwheel: CommandLine, released: Released, tmp_path: Path) -> None:
    remade.git(tmp_path, "init", "--quiet", "other")
    remade.git(tmp_path / "other", "commit", "--quiet", "--allow-empty", "--message", "x")
    ran = fatwheel("verify", released.wheel, "--source", tmp_path / "other", cwd=tmp_path)
    assert (ran.status, f"/other has no commit {released.commit}" in ran.stderr) == (2, True), ran.stderr


def test_a_wheel_without_the_address_of_its_source_asks_for_it(
    fatwheel: CommandLine, released: Released, tmp_path: Path
) -> None:
    shutil.copy(released.wheel, tmp_path)
    ran = fatwheel("verify", tmp_path / released.wheel.name, cwd=tmp_path)
    assert ran.status == 2
    assert "states no address of its source" in ran.stderr
