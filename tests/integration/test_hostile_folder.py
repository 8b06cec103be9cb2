"""A project that holds every file that some program reads from where it stands: no verb runs, or heeds, one of them."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ci_tools.cli import verbs as cli
from tests.builders import hostile
from tests.builders.cages import confines
from tests.builders.sources import write
from tests.builders.wheels import members_of
from tests.servers.package_index import over_http
from tests.servers.prepared import run_prepared

REPOSITORY = Path(__file__).parents[2]
FATWHEEL = Path(sys.executable).with_name("fatwheel")
WHEEL = "demo-1.0-cp311-abi3-manylinux_2_28_x86_64.whl"
NOBODY = "http://127.0.0.1:9"
# Each verb that takes a project, or the files that it makes; `{out}` is a folder of each project's own.
VERBS = (
    "init",
    "plan --explain --out {out}/plan.json",
    "plan --format json",
    "plan --against HEAD^0",
    "plan --prove",
    "plan --published demo==1.0",
    "advise",
    "advise --format diff",
    "evidence",
    "build --job linux-cpu --out {out}/dist",
    f"audit {{out}}/dist/{WHEEL} --config fatwheel.yml",
    f"audit {{out}}/dist/{WHEEL}",
    f"validate {{out}}/dist/{WHEEL}",
    "release --to dir:{out}/index --out {out}/release --untagged",
    "release --to dir:{out}/index --out {out}/release --untagged --here",
    "publish {out}/release --to dir:{out}/other --dry-run",
    "publish {out}/release --to pypi:http://127.0.0.1:9/legacy/",
    "index verify dir:{out}/index",
    "index find dir:{out}/index",
    "index adopt dir:{out}/index",
    "status github:owner/name",
    "catalog update",
    "recipe list",
    "recipe outdated",
    "recipe new {folder} {out}/recipe",
    "install facts",
    "doctor owner/name",
)
# What the others read: the address of an index, of a repository or of a lock, recipes by name, or a runner's variables.
OTHERS = re.compile("ci|completion|index|install|recipe|releases|report")
SHORT = ("plan --explain", "evidence")
OF_A_SOURCE = (*SHORT, "build --job linux-cpu --out {out}/dist", f"audit {{out}}/dist/{WHEEL} --config fatwheel.yml")
TOLD = (
    (r"(?m)^(waiting for another run|time:) .*\n", ""),
    (r"[0-9a-f]{7,64}", "HASH"),
    (r"\d+(\.\d+)? (s|min|MB)\b", "T"),
    (r"[ ─]+", " "),
)


def test_every_verb_that_takes_a_project_is_tried() -> None:
    tried = tuple(f"{verb} " for verb in VERBS)
    assert [verb for verb in cli.VERBS if not OTHERS.match(verb) and not any(f"{verb} " in one for one in tried)] == []


class Said(NamedTuple):
    """How a verb ended, and what it printed, without what differs between two folders: names, hashes and times."""

    status: int
    stdout: str
    stderr: str


def walk(folder: Path, verbs: tuple[str, ...], program: Path = FATWHEEL, **env: str) -> dict[str, Said]:
    """Run verbs in a folder, one after another, with a cache of its own; `init` runs before there is a config."""
    out = folder.with_name(f"{folder.name}-out")
    out.mkdir()
    known = {"FATWHEEL_CACHE": str(out / "cache"), "FATWHEEL_INSTALLER": "pip", "GITHUB_API_URL": NOBODY, **env}
    ran = {}
    for verb in verbs:
        config = (folder / "fatwheel.yml").read_text(encoding="utf-8")
        if verb == "init":
            (folder / "fatwheel.yml").unlink()
        words = verb.format(out=out, folder=folder).split()
        done = subprocess.run(
            [program, *words], cwd=folder, env={**os.environ, **known}, capture_output=True, text=True, check=False
        )
        told = [_without_names(text, folder) for text in (done.stdout, done.stderr)]
        if verb == "init":
            told[0] += (folder / "fatwheel.yml").read_text(encoding="utf-8")
            (folder / "fatwheel.yml").write_text(config, encoding="utf-8")
        ran[verb] = Said(done.returncode, *told)
    return ran


def _without_names(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "FOLDER").replace(str(folder.parent), "PLACE").replace(folder.name, "NAME")
    return functools.reduce(lambda said, each: re.sub(*each, said), TOLD, text)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Said]]:
    folder = hostile.make_clean(tmp_path_factory.mktemp("a") / "clean")
    return folder, walk(folder, VERBS)


def unpacked(place: Path) -> Path:
    """Make the hostile project, and unpack an archive of it: all of its files are newer than git remembers."""
    made = hostile.make_hostile(place / "made", place / "marks")
    shutil.copytree(made, place / "hostile", symlinks=True, copy_function=shutil.copy)
    return place / "hostile"


KINDS: dict[str, Callable[[Path], Path]] = {
    "innocent": lambda place: hostile.make_innocent(place / "innocent"),
    "hostile": unpacked,
}


@pytest.mark.long
@confines
@pytest.mark.parametrize("kind", KINDS)
def test_every_verb_says_what_it_says_of_the_clean_folder(
    kind: str, clean: tuple[Path, dict[str, Said]], tmp_path: Path
) -> None:
    folder, expected = KINDS[kind](tmp_path), clean[1]
    said = walk(folder, VERBS)
    assert {verb: told for verb, told in said.items() if told != expected[verb]} == {}
    assert not list(tmp_path.glob("marks/*"))
    built = [members_of(where.with_name(f"{where.name}-out") / "dist" / WHEEL) for where in (clean[0], folder)]
    assert built[0] == built[1]
    assert b"Keywords: read-from-setup-cfg" in built[1]["demo-1.0.dist-info/METADATA"]


@pytest.mark.long
@confines
def test_what_is_installed_for_one_user_finds_its_tools_and_none_of_the_project_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `pip install --user`, on Python 3.10, which has no `-P`; pip, auditwheel and abi3audit are among the tools."""
    python = next(Path.home().glob(".pyenv/versions/3.10.*/bin/python"), None) or pytest.skip("there is no Python 3.10")
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "user"))
    subprocess.run([python, "-I", "-m", "pip", "install", "--quiet", "--user", REPOSITORY], cwd="/", check=True)
    projects = (hostile.make_clean(tmp_path / "clean"), unpacked(tmp_path))
    clean, found = (walk(folder, OF_A_SOURCE, tmp_path / "user/bin/fatwheel") for folder in projects)
    assert found == clean
    assert {told.status for told in clean.values()} == {0}
    assert not list((tmp_path / "marks").iterdir())


@pytest.mark.long
@confines
@pytest.mark.parametrize("installer", ["pip", "uv"])
@pytest.mark.parametrize("source", ["git", "sdist"])
def test_a_source_from_elsewhere_is_as_the_clean_one(source: str, installer: str, tmp_path: Path) -> None:
    made = {"clean": hostile.make_clean(tmp_path / "of-clean")}
    made["hostile"] = hostile.make_hostile(tmp_path / "of-hostile", tmp_path / "marks")
    said = {}
    for name, folder in made.items():
        with over_http(tmp_path / f"index-{name}") as url:
            where = (
                _publish(folder, tmp_path / f"index-{name}") if source == "sdist" else f"{{git: '{folder}', ref: HEAD}}"
            )
            config = f"{hostile.CONFIG}source: {where}\n"
            asking = write(tmp_path / name, {"fatwheel.yml": config})
            known = {"PIP_EXTRA_INDEX_URL": f"{url}/simple/ {os.environ.get('PIP_EXTRA_INDEX_URL', '')}"}
            said[name] = walk(asking, OF_A_SOURCE, FATWHEEL_INSTALLER=installer, **known)
    assert said["hostile"] == said["clean"]
    assert not list((tmp_path / "marks").iterdir())


def _publish(folder: Path, index: Path) -> str:
    """Put everything in a folder, with its `.git`, into an sdist on an index, and return it as a config names it."""
    (index / "simple" / "demo").mkdir(parents=True)
    sdist = index / "demo-1.0.tar.gz"
    information = write(folder, {"PKG-INFO": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"})
    with tarfile.open(sdist, "w:gz") as archive:
        archive.add(information, "demo-1.0")
    link = '<a href="../../demo-1.0.tar.gz">demo-1.0.tar.gz</a>'
    write(index, {"simple/demo/index.html": link})
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    return f"{{sdist: {{name: demo, version: '1.0', sha256: {digest}}}}}"


@pytest.mark.long
@confines
def test_cmake_is_fetched_and_asked_as_for_the_clean_folder(tmp_path: Path) -> None:
    folders = (
        hostile.make_clean(tmp_path / "clean", hostile.CMAKE),
        hostile.make_hostile(tmp_path / "hostile", tmp_path / "marks", hostile.CMAKE),
    )
    clean, found = (walk(folder, SHORT) for folder in folders)
    assert found == clean
    assert clean[SHORT[0]].status == 0
    assert not list((tmp_path / "marks").iterdir())


@pytest.mark.long
@confines
@pytest.mark.parametrize("naming", hostile.NAMING.values(), ids=hostile.NAMING)
def test_a_file_that_the_settings_name_for_cmake_is_a_doubt_and_runs_nothing(naming: str, tmp_path: Path) -> None:
    """Every file counts as compiled: what the file says replaces what observes, and the build's cage reads it."""
    trap = f"execute_process(COMMAND touch {tmp_path}/mark)\n"
    files = {**hostile.NAMED, "named.cmake": hostile.NAMED["named.cmake"] + trap}
    files["pyproject.toml"] += f"[tool.scikit-build]\n{naming}\n"
    said = walk(hostile.make_clean(tmp_path / "clean", files), SHORT[:1])[SHORT[0]]
    assert (said.status, "which is not followed" in said.stdout, "torch ABI: full" in said.stdout) == (0, True, True)
    assert not (tmp_path / "mark").exists()


@pytest.mark.slow
@confines
def test_what_is_planned_in_a_hostile_folder_is_the_clean_plan(tmp_path: Path) -> None:
    """The verbs that people run first, as found in an unpacked archive."""
    said = []
    for folder in (hostile.make_clean(tmp_path / "clean"), unpacked(tmp_path)):
        env = {**os.environ, "FATWHEEL_CACHE": str(tmp_path / f"cache-{folder.name}")}
        done = [run_prepared(verb.split(), cwd=folder, env=env) for verb in SHORT]
        said.append([(one.returncode, _without_names(one.stdout, folder)) for one in done])
    assert said[0] == said[1]
    assert not list((tmp_path / "marks").iterdir())
