"""What must not happen without a word: one build in another's place, hidden source, a file nobody has looked at."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ci_tools.machine.storage import cache_folder, digest_of
from tests.integration.conftest import CommandLine, Ran, write_project

BUILD = ("build", "--job", "pure", "--out", "out")
WHEEL = "tiny-1.0-py3-none-any.whl"
slow = pytest.mark.slow


@slow
def test_two_caches_do_not_build_each_others_source(fatwheel: CommandLine, tmp_path: Path) -> None:
    def build(who: str) -> Ran:
        return fatwheel(*BUILD, cwd=tmp_path / who, FATWHEEL_CACHE=str(tmp_path / f"cache-{who}"))

    for who in ("one", "two"):
        (write_project(tmp_path / who) / "tiny/who.py").write_text(who)
    with ThreadPoolExecutor() as pool:
        assert [ran.status for ran in pool.map(build, ("one", "two"))] == [0, 0]
    for who in ("one", "two"):
        assert zipfile.ZipFile(tmp_path / who / "out" / WHEEL).read("tiny/who.py").decode() == who


def test_a_cache_that_cannot_be_written_is_named_with_its_variable(fatwheel: CommandLine, native_project: Path) -> None:
    (native_project.parent / "file").touch()  # a folder that is not ours, for whoever runs this
    ran = fatwheel("plan", cwd=native_project, FATWHEEL_CACHE=str(native_project.parent / "file" / "cache"))
    assert (ran.status, "/file/cache cannot be used: Not a directory" in ran.stderr) == (3, True), ran.stderr
    assert "hint: set FATWHEEL_CACHE to a folder" in ran.stderr


@pytest.mark.parametrize("out", [".", "tiny", "tiny/__init__.py"])
def test_nothing_is_written_where_the_source_lies(fatwheel: CommandLine, project: Path, out: str) -> None:
    before = sorted(project.rglob("*"))
    ran = fatwheel("build", "--job", "sdist", "--out", out, cwd=project)
    assert (ran.status, "expected a folder" in ran.stderr) == (2, True)
    assert sorted(project.rglob("*")) == before


def test_a_lock_file_in_the_source_hides_nothing(fatwheel: CommandLine, project: Path) -> None:
    (project / "csrc").mkdir()
    (project / "csrc/.fatwheel.lock").touch()
    (project / "csrc/fast.cpp").touch()
    jobs = json.loads(fatwheel("plan", "--format", "json", cwd=project).stdout)["jobs"]
    assert [job["kind"] for job in jobs] == ["native"]


@pytest.mark.parametrize(
    ("targets", "sentence"),
    [
        pytest.param(["--to", "dir:pyproject.toml"], "dir:pyproject.toml is a file", id="a-file"),
        pytest.param(["--to", "ftp://x"], '"ftp://x" is not a target, expected dir:PATH', id="none-that-is-known"),
        pytest.param(["--to", "zip:x", "--here"], '"zip:x" is not a target, expected dir:PATH', id="on-one-machine"),
        pytest.param([], "no target is named, neither with --to nor in the config", id="none-at-all"),
    ],
)
def test_what_is_no_target_is_refused_before_any_work(
    targets: list[str], sentence: str, fatwheel: CommandLine, project: Path
) -> None:
    ran = fatwheel("release", *targets, cwd=project)
    assert (ran.status, sentence in ran.stderr) == (2, True), ran.stderr
    assert not (project / "dist").exists()


@slow
def test_another_environment_builds_the_sdist_anew(fatwheel: CommandLine, project: Path) -> None:
    job = ("build", "../tiny.yml", "--job", "sdist", "--out", "../out")
    config = (project / "fatwheel.yml").read_text() + "source: {path: tiny}\n"
    for value in ("1", "2"):
        (project.parent / "tiny.yml").write_text(f"{config}build: {{env: {{VALUE: '{value}'}}}}\n")
        assert "keep" not in fatwheel(*job, cwd=project).stderr


@slow
def test_an_sdist_that_makes_another_wheel_is_not_released(fatwheel: CommandLine, project: Path) -> None:
    (project / "tiny/left_out.py").touch()
    with (project / "pyproject.toml").open("a") as file:
        file.write('[tool.flit.sdist]\nexclude = ["tiny/left_out.py"]\n')
    ran = fatwheel("release", "--to", "dir:dist/index", cwd=project)
    assert (ran.status, "it differs from the source's in tiny/left_out.py" in ran.stderr) == (1, True), ran.stderr
    assert not (project / "dist/index").exists()


@slow
def test_a_wheel_is_held_against_its_own_plan_before_it_is_published(fatwheel: CommandLine, project: Path) -> None:
    fatwheel(*BUILD, cwd=project)
    fatwheel("build", "--job", "sdist", "--out", "out", cwd=project)
    assert fatwheel("audit", "out/tiny-1.0.tar.gz", "--config", "fatwheel.yml", cwd=project).status == 0
    stranger = write_project(project.parent / "stranger")
    (stranger / "pyproject.toml").write_text((project / "pyproject.toml").read_text().replace("1.0", "2.0"))
    audit = ("audit", f"out/{WHEEL}", "--format", "json", "--config")
    found = json.loads(fatwheel(*audit, stranger / "fatwheel.yml", cwd=project).stdout)
    assert [finding["rule"] for finding in found if finding["level"] == "error"] == ["planned"]
    assert fatwheel("publish", "out", "--to", "dir:index", cwd=project).status == 2
    assert fatwheel(*audit, "fatwheel.yml", cwd=project).status == 0
    fatwheel("validate", f"out/{WHEEL}", cwd=project)
    assert fatwheel("publish", "out", "--to", "dir:index", cwd=project).status == 2
    fatwheel("validate", f"out/{WHEEL}", "--config", "fatwheel.yml", cwd=project)
    assert fatwheel("publish", "out", "--to", "dir:index", cwd=project).status == 0


@slow
@pytest.mark.usefixtures("cuda_home")
def test_a_build_cannot_write_into_what_later_builds_use(fatwheel: CommandLine, native_project: Path) -> None:
    headers = cache_folder(os.environ) / "torch" / "2.10.0"
    with (native_project / "backend.py").open("a") as backend:
        backend.write(
            "headers = os.environ['FATWHEEL_TORCH_INCLUDE']\n"
            "open(headers + '/torch/csrc/stable/library.h', 'a').write('#define X')\n"
        )
    config = native_project / "fatwheel.yml"
    config.write_text(config.read_text() + 'torch: ["2.10"]\n')
    job = f"linux-cpu-torch2.10-cp{sys.version_info.major}{sys.version_info.minor}"
    ran = fatwheel("build", "--job", job, "--out", "out", cwd=native_project)
    assert ran.status == 0, ran.stderr
    assert "#define X" not in (headers / "torch/include/torch/csrc/stable/library.h").read_text()
    assert digest_of(headers) == headers.with_name("2.10.0.sha256").read_text()


LINKER = """\
#!/bin/sh
case " $* " in *" -shared "*) set -- "$@" "-Wl,--build-id=0x$(od -An -N8 -tx1 /dev/urandom | tr -d ' ')" ;; esac
exec c++ "$@"
"""


@slow
@pytest.mark.parametrize(
    ("key", "status", "said"),
    [
        ("", 1, "`build: {reproducible: false}` accepts it"),
        (", reproducible: false", 0, "the config says so: `build: {reproducible: false}`"),
    ],
)
def test_a_library_that_is_another_in_each_build_is_released_only_if_the_config_says_so(
    key: str, status: int, said: str, fatwheel: CommandLine, native_project: Path
) -> None:
    compiler = native_project.parent / "compiler"
    compiler.write_text(LINKER)
    compiler.chmod(0o755)
    with (native_project / "fatwheel.yml").open("a") as file:
        file.write(f"build: {{env: {{CXX: {compiler}}}{key}}}\n")
    ran = fatwheel("release", "--to", "dir:dist/index", "--here", cwd=native_project)
    assert (ran.status, ".note.gnu.build-id" in f"{ran.stdout}{ran.stderr}") == (status, True), ran.stderr
    assert said in f"{ran.stdout}{ran.stderr}"
    assert (native_project / "dist/index").exists() == (status == 0)
