"""What pip installed for one build, in the environment of another one: real pip, and a wheel with a script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci_tools.build.bench.copies import Installations
from ci_tools.machine.installers import INSTALLER
from ci_tools.machine.python import Environment, create
from tests.builders.wheels import make

pytestmark = pytest.mark.slow  # real processes

SCRIPTS = b"[console_scripts]\nwhere = demo:where\n"
DEMO = b"import sys\ndef where():\n    print(sys.prefix)\n"


def test_the_next_build_gets_what_pip_installed_with_its_own_scripts(tmp_path: Path) -> None:
    files = {"demo/__init__.py": DEMO, "demo-1.0.dist-info/entry_points.txt": SCRIPTS}
    wheel = make(tmp_path / "wheels", files=files)
    installations, installed = Installations(tmp_path / "kept"), []

    def fill(name: str, asked: str) -> Environment:
        environment = create(Path(sys.executable), tmp_path / name, tmp_path / "log", {**os.environ, INSTALLER: "pip"})
        environment.log.touch()

        def install() -> None:
            environment.install("--no-index", wheel)
            installed.append(name)

        installations.fill(environment, [asked], install)
        return environment

    made = [fill("one", "demo"), fill("two", "demo"), fill("three", "demo>=1")]
    said = [subprocess.check_output([one.scripts / "where"], text=True).strip() for one in made]
    assert (said, installed) == ([str(one.path) for one in made], ["one", "three"])
    (made[0].packages / "demo/__init__.py").write_text("raise SystemExit\n")  # a build may change its own
    assert "sys.prefix" in (fill("four", "demo").packages / "demo/__init__.py").read_text()
