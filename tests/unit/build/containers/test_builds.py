"""What a failed build in a container says here."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from ci_tools.build.containers import builds
from ci_tools.build.containers.builds import Container, explain_failure, read_requirements
from ci_tools.build.containers.engines import EngineImage
from ci_tools.build.containers.runs import OUT, Mount, Runs
from ci_tools.errors import FatwheelError, InputError, MachineError, Rejected
from ci_tools.machine.process import Ended
from ci_tools.plan import make
from tests.builders.sources import demo, world, world_with_tools

PRINTED = """\
build demo-1.0.whl (2.0 s)
fatwheel: the build failed; the last lines of /fatwheel/out/logs/cpu.log:
error: no such thing
  hint: do it otherwise
  See Fatwheel's docs/how-to/a.md#b
"""


def _end(folder: Path, status: int, printed: str, *, timed_out: bool = False) -> Ended:
    (folder / "log").write_text(printed, encoding="utf-8")
    return Ended(status, 120.0, timed_out, folder / "log", 0)


@pytest.mark.parametrize(("status", "kind"), [(1, Rejected), (2, InputError), (3, MachineError)])
def test_the_error_is_the_one_in_the_container_with_paths_of_this_machine(
    tmp_path: Path, status: int, kind: type[FatwheelError]
) -> None:
    error = explain_failure(_end(tmp_path, status, PRINTED), "cpu in a/b", {"/fatwheel/out": tmp_path / "dist"})
    assert type(error) is kind
    assert error.message == (
        f"cpu in a/b: the build failed; the last lines of {tmp_path}/dist/logs/cpu.log:\nerror: no such thing"
    )
    assert (error.hint, error.page) == ("do it otherwise", "how-to/a.md#b")


def test_a_part_of_a_build_leaves_its_units_on_this_machine(tmp_path: Path) -> None:
    asked: list[tuple[list[str], list[Mount]]] = []

    def run(command: list[str], mounts: list[Mount], **_: object) -> Ended:
        asked.append((command, [*mounts]))
        return _end(tmp_path, 0, "")

    planned = make.make_plan(demo(tmp_path / "source") / "fatwheel.yml", world_with_tools(tmp_path))
    runs = cast("Runs", SimpleNamespace(run=run, outside=world(tmp_path), image=EngineImage("c0ffee", "a/b:1")))
    container = Container(runs=runs, environment=tmp_path)
    container.build_part(planned.plan.jobs[0], planned, tmp_path / "out", "--shard", "2/4")
    ((command, mounts),) = asked
    assert command[-2:] == ["--shard", "2/4"]
    folder = f"shards/{planned.plan.jobs[0].name}"
    assert Mount(tmp_path / "out" / folder, f"{OUT}/{folder}", is_writable=True) in mounts


def test_an_engine_that_fails_is_a_failure_of_the_machine(tmp_path: Path) -> None:
    error = explain_failure(_end(tmp_path, 125, "Error: no space left\n"), "cpu in a/b", {})
    assert type(error) is MachineError
    assert error.message == "cpu in a/b ended with status 125: Error: no space left"


def test_a_build_that_takes_too_long_says_so(tmp_path: Path) -> None:
    error = explain_failure(_end(tmp_path, -9, PRINTED, timed_out=True), "cpu in a/b", {})
    assert error.message == "cpu in a/b took longer than 2 minutes"


def test_an_image_gets_the_versions_of_this_run() -> None:
    needed = read_requirements()
    assert any(one.startswith("build>=") for one in needed.asked)
    assert f"build=={metadata.version('build')}" in needed.pinned


def _run_from_source(monkeypatch: pytest.MonkeyPatch, folder: Path, project: str) -> None:
    """Let Fatwheel lie in a source with this project file, without being installed."""

    def refuse(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    (folder / "pyproject.toml").write_text(project, encoding="utf-8")
    monkeypatch.setattr(metadata, "requires", refuse)
    monkeypatch.setattr(builds, "SELF", Mount(folder / "ci_tools", "/fatwheel/toolkit/ci_tools"))


def test_a_source_that_is_not_installed_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run_from_source(monkeypatch, tmp_path, '[project]\nname = "fatwheel"\ndependencies = ["build>=1.6"]\n')
    assert read_requirements().asked == ("build>=1.6",)


def test_the_project_file_of_another_project_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run_from_source(monkeypatch, tmp_path, '[project]\nname = "other"\ndependencies = ["build>=1.6"]\n')
    with pytest.raises(MachineError, match="what Fatwheel requires is not known here"):
        read_requirements()
