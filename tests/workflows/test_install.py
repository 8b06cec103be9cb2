"""The only installer: what it needs, what it refuses, and that nothing of the caller's has a say in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.workflows import harness, repositories
from tests.workflows.harness import World
from tests.workflows.projects import PURE, call, ran, say, told
from tests.workflows.repositories import ROOT

pytestmark = pytest.mark.slow

SETUP = ROOT / ".github" / "actions" / "setup"
# A Python itself comes before pyenv's commands, which look for one at each start.
PATH = os.pathsep.join([str(Path(sys.base_prefix) / "bin"), os.environ["PATH"]])
LOCK = (SETUP / "requirements.txt").read_text(encoding="utf-8")
(FEW,) = re.findall(r"^packaging==.*\n(?:    .*\n)+", LOCK, re.MULTILINE)
NO_INDEX = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0"}
NO_INDEX |= {"PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": "", "PIP_NO_CACHE_DIR": "1"}
ENDS = "raise SystemExit('a module of the caller was imported')\n"


def installed(
    home: Path,
    environ: Mapping[str, str] | None = None,
    path: str = "",
    changed: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run a copy of the installer with some files changed; return its status, and all that it said."""
    place = home / "ours" / ".github" / "actions" / "setup"
    shutil.copytree(SETUP, place)
    for name, text in (changed or {}).items():
        (place / name).write_text(text)
    (home / "temp").mkdir()
    (home / "ours" / "ci_tools").symlink_to(ROOT / "ci_tools")
    runner = {name: str(home / name.lower()) for name in ("GITHUB_PATH", "GITHUB_ENV")}
    known = {name: value for name, value in os.environ.items() if harness.PASSED_ON.fullmatch(name)}
    known |= {"PATH": path or PATH, "HOME": str(home), "RUNNER_TEMP": str(home / "temp"), **runner}
    command = [shutil.which("sh") or "sh", str(place / "install.sh")]
    done = subprocess.run(
        command, env={**known, **(environ or {})}, cwd=home, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_runner_without_a_python_of_today_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("dirname", "sh"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    (tmp_path / "bin" / "python3").write_text("#!/bin/sh\nexit 1\n")  # as one before 3.10 answers
    (tmp_path / "bin" / "python3").chmod(0o755)
    status, said = installed(tmp_path, path=str(tmp_path / "bin"))
    assert status == 3
    assert said == (
        "::error title=Fatwheel::there is no Python 3.10 or later with venv on this runner, expected one on PATH\n"
    )


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with uv and the few packages."""
    folder = tmp_path_factory.mktemp("wheels")
    (folder / "few.txt").write_text(FEW)
    asked = (
        "--require-hashes",
        "--no-deps",
        "--only-binary",
        ":all:",
        "-r",
        SETUP / "uv.txt",
        "-r",
        folder / "few.txt",
    )
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--dest", folder, *asked], check=True)
    return folder


def without_index(wheels: Path) -> dict[str, str]:
    return {**NO_INDEX, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}


def test_packages_come_from_where_pip_is_told(wheels: Path, tmp_path: Path) -> None:
    few = {"requirements.txt": FEW}
    assert installed(tmp_path / "variables", without_index(wheels), changed=few)[0] == 0
    (tmp_path / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {wheels}\nuser = true\n")
    file = {**dict.fromkeys(NO_INDEX, ""), "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}
    assert installed(tmp_path / "file", file, changed=few)[0] == 0


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        pytest.param("uv.txt", "pip could not install uv", id="uv"),
        pytest.param("requirements.txt", "uv could not install what Fatwheel needs", id="the-rest"),
    ],
)
def test_a_package_with_another_hash_is_refused(name: str, sentence: str, wheels: Path, tmp_path: Path) -> None:
    texts = {"uv.txt": (SETUP / "uv.txt").read_text(encoding="utf-8"), "requirements.txt": FEW}
    texts[name] = re.sub("sha256:[0-9a-f]{4}", "sha256:0000", texts[name])
    status, said = installed(tmp_path, without_index(wheels), changed=texts)
    assert status == 3
    assert re.search("DO NOT MATCH THE HASHES|Hash mismatch", said), said
    assert f"::error title=Fatwheel::{sentence}: the words of the installer are above\n" in said
    assert not (tmp_path / "github_path").exists()


@pytest.mark.long
def test_nothing_of_the_callers_has_a_say(tmp_path: Path) -> None:
    """Modules on PYTHONPATH and in the working folder, settings of pip and uv, and an environment that is active."""
    for name in ("ci_tools", "packaging", "yaml", "pip", "venv", "sitecustomize"):
        (tmp_path / "evil" / name).mkdir(parents=True)
        (tmp_path / "evil" / name / "__init__.py").write_text(ENDS)
        (tmp_path / f"{name}.py").write_text(ENDS)
    for place in (".config/pip/pip.conf", ".pip/pip.conf"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("[global]\nuser = true\nrequire-virtualenv = true\nno-deps = true\n")
    (tmp_path / "uv.toml").write_text("no-index = true\n")
    environ = {"PYTHONPATH": str(tmp_path / "evil"), "VIRTUAL_ENV": str(tmp_path / "none"), "PIP_USER": "1"}
    status, said = installed(tmp_path, environ)
    assert status == 0, said
    bin_ = Path((tmp_path / "github_path").read_text().strip())
    assert [path.name for path in bin_.iterdir()] == ["fatwheel"]
    command = [str(bin_ / "fatwheel"), "--version"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **environ}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout[:9]) == (0, "fatwheel "), done.stderr


def test_the_command_takes_no_module_of_the_callers(tmp_path: Path) -> None:
    (tmp_path / "ci_tools").mkdir()
    (tmp_path / "ci_tools" / "__main__.py").write_text(ENDS)
    (tmp_path / "packaging.py").write_text(ENDS)
    part = "import pathlib, runpy, sys; folder, python, path = map(pathlib.Path, sys.argv[1:])"
    make = "runpy.run_path(path)['make_commands'](folder, python)"
    arguments = (tmp_path / "bin", sys.executable, SETUP / "install.py")
    subprocess.run([sys.executable, "-I", "-c", f"{part}; {make}", *arguments], check=True)
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": str(tmp_path / "packaging.py")}
    command = [str(tmp_path / "bin" / "fatwheel"), "--version"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:9]) == (0, "fatwheel "), done.stderr


@pytest.mark.long
def test_a_release_is_made_with_what_the_installer_installs(tmp_path: Path) -> None:
    ours = repositories.copy_ours(tmp_path / "ours", installs=True)
    hostile = {"ci_tools/__init__.py": ENDS, "ci_tools/cli/main.py": ENDS, "yaml.py": ENDS}
    config = f"{PURE['fatwheel.yml']}source:\n  include: [/tiny/, /pyproject.toml]\n"
    # The other tests install with uv; a caller who says nothing gets pip, which is in the installer's environment.
    world = World(environ={"PYTHONPATH": str(tmp_path / "caller"), "FATWHEEL_INSTALLER": "pip"})
    calls = (call("wheels"), say("tell", "wheels"))
    run = ran(tmp_path, ours, *calls, files={**PURE, **hostile, "fatwheel.yml": config}, world=world)
    assert run.succeeded, run.log
    assert told(run)["units"] == '["core"]'
