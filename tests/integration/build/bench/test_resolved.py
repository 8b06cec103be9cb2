"""What was installed into an environment is told with the hash of its archive, by each installer."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

from ci_tools.build.bench.resolved import list_report, read_resolved
from ci_tools.machine.python import create
from ci_tools.model.files import Resolved
from tests.builders.remade import write_wheel_of_others

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_what_was_installed_is_told_with_its_hash(tmp_path: Path, installer: str) -> None:
    house = tmp_path / "house"
    house.mkdir()
    told = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(house)}
    environ = {**os.environ, **told, "FATWHEEL_INSTALLER": installer, "UV_CACHE_DIR": str(tmp_path / "cache")}
    environment = create(Path(sys.executable), tmp_path / "env", tmp_path / "log", environ, told)
    for name in ("maker", "tool_er"):
        write_wheel_of_others(house / f"{name}-1.0-py3-none-any.whl")
        environment.install(name, *list_report(environment))
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(house.iterdir())]
    assert read_resolved(environment) == (Resolved("maker", "1.0", hashes[0]), Resolved("tool-er", "1.0", hashes[1]))
