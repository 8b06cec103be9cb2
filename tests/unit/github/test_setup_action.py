"""The parts of `.github/actions/setup/install.py`; tests/workflows/test_install.py runs it whole."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from tests.builders.sources import committed, write

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def install() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", ROOT / ".github" / "actions" / "setup" / "install.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_s_own_checkout_is_nobody_else_s(install: ModuleType, tmp_path: Path) -> None:
    assert not install.belongs_to_another(str(tmp_path))
    assert not install.belongs_to_another(str(tmp_path / "none"))
    assert not install.belongs_to_another("")


def variables(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def test_what_a_job_has_told_git_already_stays(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "2")
    install.let_git_read_it(tmp_path / "env")
    assert variables(tmp_path / "env") == {
        "GIT_CONFIG_COUNT": "3",
        "GIT_CONFIG_KEY_2": "safe.directory",
        "GIT_CONFIG_VALUE_2": "*",
    }


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a folder to another user")
def test_git_reads_a_checkout_of_another_user_as_in_a_container(install: ModuleType, tmp_path: Path) -> None:
    folder = write(tmp_path / "checkout", {"demo.py": ""})
    committed(folder)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 1001, 1001)
    assert install.belongs_to_another(str(folder))
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    ask = ["git", "-C", str(folder), "status"]
    assert b"dubious ownership" in subprocess.run(ask, env=plain, capture_output=True, check=False).stderr
    install.let_git_read_it(tmp_path / "env")
    assert subprocess.run(ask, env={**plain, **variables(tmp_path / "env")}, check=True, capture_output=True).stdout
