"""The command line of a container, and what is left after it."""

from __future__ import annotations

import itertools
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.build.containers.engines import Engine, EngineImage
from ci_tools.build.containers.mounts import ContainerIndex, Mount
from ci_tools.build.containers.runs import Runs
from tests.builders.engines import write_engine
from tests.builders.sources import world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containers are for Linux")
# It notes what it is asked, lists one container that a killed run left, and becomes the command after the image.
NOTES = (
    'echo "$*" >>"$NOTES"',
    '[ "$1" = ps ] && echo fatwheel-left',
    '[ "$1" = run ] || exit 0',
    'echo "$PIP_INDEX_URL"',
    "exit 7",
)


def _runs(folder: Path, *lines: str, is_rootless: bool = False, **variables: str) -> Runs:
    program = write_engine(folder / "podman", *lines)
    environ = {"PATH": "/usr/bin:/bin", "NOTES": str(folder / "notes"), **variables}
    settings = ContainerIndex({"PIP_INDEX_URL": "https://user:word@index.example"}, {"PIP_CERT": "/ca.pem"}, ())
    return Runs(
        engine=Engine("podman", str(program), is_rootless),
        image=EngineImage("c0ffee", "a/b:1"),
        settings=settings,
        outside=world(folder, **environ),
    )


def test_a_command_line_has_the_users_settings_by_name_only(tmp_path: Path) -> None:
    words = _runs(tmp_path).spell("name", ["sh", "-c", "true"], [Mount(Path("/a"), "/b")], {"HOME": "/home"})
    assert not any("word@" in word for word in words)
    pairs = list(itertools.pairwise(words))
    for pair in (("--env", "PIP_INDEX_URL"), ("--env", "PIP_CERT=/ca.pem"), ("--env", "HOME=/home")):
        assert pair in pairs
    assert {"--rm", "--interactive", "--pull=never", "type=bind,source=/a,target=/b,readonly"} <= {*words}
    assert words[-5:] == ["--entrypoint", "sh", "c0ffee", "-c", "true"]
    assert not any(word.startswith("--network") for word in words)


@pytest.mark.parametrize(("is_rootless", "user"), [(True, "0:0"), (False, f"{os.getuid()}:{os.getgid()}")])
def test_files_are_the_callers(tmp_path: Path, user: str, *, is_rootless: bool) -> None:
    words = _runs(tmp_path, is_rootless=is_rootless).spell("name", ["true"], (), {})
    assert words[words.index("--user") + 1] == user


def test_a_run_passes_values_removes_its_container_and_those_of_killed_runs(tmp_path: Path) -> None:
    runs = _runs(tmp_path, *NOTES)
    log = tmp_path / "log"
    ended = runs.run(["true"], (), log=log, minutes=1)
    assert ended.status == 7
    assert log.read_text(encoding="utf-8").splitlines()[-1] == "https://user:word@index.example"
    asked = (tmp_path / "notes").read_text(encoding="utf-8").splitlines()
    assert [line.split()[0] for line in asked] == ["ps", "rm", "run", "rm"]
    assert asked[1] == "rm --force fatwheel-left"
    name = asked[3].removeprefix("rm --force ")
    assert f"--name {name} " in asked[2]
    assert f"label=fatwheel={os.getuid()}" in asked[0]


def test_a_command_that_takes_too_long_is_ended_with_its_container(tmp_path: Path) -> None:
    runs = _runs(tmp_path, 'echo "$1" >>"$NOTES"', '[ "$1" = run ] && exec sleep 60', "exit 0")
    ended = replace(runs).run(["true"], (), log=tmp_path / "log", minutes=0)
    assert ended.timed_out
    assert (tmp_path / "notes").read_text(encoding="utf-8").split()[-1] == "rm"
