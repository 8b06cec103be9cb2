"""An air-gapped cluster: its facts are taken there, its wheel is fetched elsewhere, and it installs from a folder."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ci_tools.install import fatwheel_backend as backend
from ci_tools.install.bundle import write_facts
from tests.builders.installers import run_client
from tests.builders.smart_sdists import CUDA, plain_sdist, release
from tests.integration.conftest import CommandLine
from tests.servers.assets import assets

pytestmark = pytest.mark.slow

CLUSTER = backend.Facts(libc="glibc 2.34", torch="2.11.0+cu130", torch_cuda="13.0", gpus=("9.0",))


def facts(folder: Path, found: backend.Facts) -> Path:
    """Write the facts of a machine into a file."""
    path = folder / "cluster.json"
    path.write_text(write_facts(found), encoding="utf-8")
    return path


def test_what_is_bundled_for_a_machine_installs_there_without_a_network(fatwheel: CommandLine, tmp_path: Path) -> None:
    cache, out = str(tmp_path / "cache"), tmp_path / "out"
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url, cuda="13.0", torch=("2.10", None))
        ran = fatwheel(
            "install", "bundle", made.sdist, "--for", facts(tmp_path, CLUSTER), "--out", out, FATWHEEL_CACHE=cache
        )
    assert ran.status == 0, ran.stderr
    assert [path.name for path in out.iterdir()] == [CUDA]
    words = ran.stdout.split()
    assert words == ["pip", "install", "--no-index", "--find-links", str(out), "demo==1.0+cu130"]
    done = run_client("pip", [*words[1:], "--quiet", "--target", tmp_path / "there"], os.environ)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there" / "demo-1.0+cu130.dist-info").is_dir()


def test_a_machine_that_no_wheel_fits_gets_the_table_and_no_file(fatwheel: CommandLine, tmp_path: Path) -> None:
    made = release(tmp_path, "http://127.0.0.1:9", cuda="13.0", torch=("2.10", None))
    without = facts(tmp_path, CLUSTER._replace(torch="2.11.0+cpu", torch_cuda=None))
    ran = fatwheel("install", "bundle", made.sdist, "--for", without, "--out", tmp_path / "out")
    assert (ran.status, "torch 2.11.0+cpu is a build without CUDA" in ran.stderr) == (1, True)
    assert not (tmp_path / "out").exists()
    asked = fatwheel("install", "choose", made.sdist, "--for", without)
    assert (asked.status, "torch 2.11.0+cpu is a build without CUDA" in asked.stdout) == (1, True)


def test_the_facts_of_this_machine_are_taken_as_they_are_printed(fatwheel: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "here.json"
    path.write_text(fatwheel("install", "facts").stdout, encoding="utf-8")
    assert json.loads(path.read_text())["python"] == "{}.{}".format(*sys.version_info[:2])
    made = release(tmp_path, "http://127.0.0.1:9", cuda="13.0", torch=("2.10", None))
    from_file, own = (
        fatwheel("install", "choose", made.sdist, *options).stdout for options in (["--for", str(path)], [])
    )
    assert from_file == own


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        pytest.param("{", "cluster.json", id="no-json"),
        pytest.param('{"python": 3}', "python", id="another-type"),
        pytest.param('{"pyhton": "3.12"}', "pyhton", id="a-misspelt-fact"),
    ],
)
def test_facts_that_are_none_are_a_mistake(fatwheel: CommandLine, wrong: str, said: str, tmp_path: Path) -> None:
    made = release(tmp_path, "http://127.0.0.1:9", cuda="13.0")
    path = tmp_path / "cluster.json"
    path.write_text(wrong, encoding="utf-8")
    ran = fatwheel("install", "bundle", made.sdist, "--for", path, "--out", tmp_path / "out")
    assert (ran.status, said in ran.stderr) == (2, True), ran.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "empty file"), (b"\x1f\x8b\x08", "Compressed file ended"), (b"text", "not a gzip file")],
)
def test_what_is_no_sdist_is_one_line(fatwheel: CommandLine, tmp_path: Path, content: bytes, said: str) -> None:
    sdist = tmp_path / "demo-1.0.tar.gz"
    sdist.write_bytes(content)
    ran = fatwheel("install", "choose", sdist)
    assert (ran.status, len(ran.stderr.splitlines())) == (2, 1)
    assert ran.stderr.startswith(f"fatwheel: {sdist} cannot be read: {said}")


def test_an_sdist_that_is_not_smart_is_a_mistake(fatwheel: CommandLine, tmp_path: Path) -> None:
    sdist = plain_sdist(tmp_path, {"pyproject.toml": ""})
    ran = fatwheel("install", "bundle", sdist, "--for", facts(tmp_path, CLUSTER), "--out", tmp_path / "out")
    assert (ran.status, "it is not a smart sdist" in ran.stderr) == (2, True), ran.stderr
