"""An accelerator and a target that nobody has, each in one file, are planned, built, audited, published and found."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[1] / "samples" / "made_up"
WHEEL = f"demo-1.0+zap3.1-cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_x86_64.whl"
COMMIT = "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm x && git tag v1.0"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="zapcc runs on Linux"),
]


def fatwheel(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command with the made-up accelerator and target, on a machine with the made-up compiler."""
    environ = {**os.environ, "ZAP_HOME": str(folder.parent / "zap"), "FATWHEEL_CACHE": str(folder.parent / "cache")}
    command = [sys.executable, SAMPLES / "run.py", *words]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def project(folder: Path, archs: str = "$ZAP_ARCHS") -> Path:
    """Write the project, tagged, and its compiler, which compiles for `archs`."""
    shutil.copytree(SAMPLES / "project", folder / "demo")
    compiler = folder / "zap" / "bin" / "zapcc"
    compiler.parent.mkdir(parents=True)
    compiler.write_text((folder / "demo" / "zapcc").read_text("utf-8").replace("$ZAP_ARCHS", archs), encoding="utf-8")
    compiler.chmod(0o755)
    config = (folder / "demo" / "config.in").read_text("utf-8").replace("PYTHON", f"3.{sys.version_info.minor}")
    (folder / "demo" / "fatwheel.yml").write_text(config, encoding="utf-8")
    subprocess.run(COMMIT, shell=True, cwd=folder / "demo", check=True)  # noqa: S602 - words of this file
    return folder / "demo"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a project that was released to an index and to a tape."""
    folder = project(tmp_path_factory.mktemp("made-up"))
    done = fatwheel(
        folder, "release", "--to", f"dir:{folder.parent / 'index'}", "--to", f"tape:{folder.parent / 'tape'}"
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_the_plan_has_its_job_and_what_the_machine_code_is_for(published: Path) -> None:
    plan = json.loads(fatwheel(published, "plan", "--format", "json").stdout)
    (job,) = plan["jobs"]
    assert (job["wheel"], job["accelerator"]) == (
        WHEEL,
        {"kind": "zap", "version": "3.1", "label": "zap3.1", "archs": ["z1", "z2"]},
    )


def test_the_target_holds_what_the_index_holds(published: Path) -> None:
    assert sorted(path.name for path in (published.parent / "tape").iterdir()) == [WHEEL, "demo-1.0.tar.gz"]
    assert (published.parent / "index" / "zap3.1" / WHEEL).is_file()


@pytest.mark.parametrize(
    ("torch", "found"),
    [pytest.param("2.13.0+zap3.1", WHEEL, id="its-own"), pytest.param("2.13.0+cpu", None, id="none")],
)
def test_it_is_found_for_a_machine_whose_torch_is_for_it_only(published: Path, torch: str, found: str | None) -> None:
    facts = json.loads(fatwheel(published, "install", "facts").stdout) | {"torch": torch}
    (published.parent / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    place = f"dir:{published.parent / 'index'}"
    said = fatwheel(published, "index", "find", place, "demo", "--for", "../facts.json", "--format", "json").stdout
    assert (f'"{WHEEL}"' in said, "it is for zap3.1" in said) == (found is not None, found is None)


def test_a_library_that_lacks_an_architecture_is_not_published(tmp_path: Path) -> None:
    folder = project(tmp_path, archs="z1")
    done = fatwheel(folder, "release", "--to", f"tape:{tmp_path / 'tape'}")
    assert done.returncode == 1
    assert (
        "is not for the planned architectures: a GPU that the plan promises has no kernel image (found z1,"
        in done.stderr
    )
    assert not (tmp_path / "tape").exists()


def test_an_architecture_that_its_compiler_does_not_know_is_a_mistake(tmp_path: Path) -> None:
    folder = project(tmp_path)
    config = folder / "fatwheel.yml"
    config.write_text(config.read_text("utf-8").replace("z2", "z9"), encoding="utf-8")
    done = fatwheel(folder, "plan")
    assert done.returncode == 2
    assert 'zapcc of Zap 3.1 does not know the architecture "z9", did you mean "z2"' in done.stderr
