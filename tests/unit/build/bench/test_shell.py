from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools.build.bench.copies import Copies
from ci_tools.build.bench.shell import Bench, Shell, add_cause, build_error, search_path
from ci_tools.catalog.accelerators import list_compilers
from ci_tools.errors import MachineError, Rejected
from ci_tools.machine.process import clean_environment
from ci_tools.machine.python import Environment
from ci_tools.model.request import Hook
from ci_tools.plan import make
from tests.builders.sources import demo, shared_world
from tests.builders.visual_studio import program
from tests.unit.build.test_folders import refuse
from tests.unit.machine.test_python import NOT_READ

EARLIER = "gcc: fatal error: Killed signal terminated program cc1\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param("no-such-program x", "there is no command no-such-program", id="no-such-program"),
        pytest.param("./set.sh", "./set.sh is not executable", id="not-executable"),
    ],
)
def test_a_command_that_cannot_start_says_so(tmp_path: Path, command: str, said: str) -> None:
    planned = make.make_plan(demo(tmp_path / "source", {"set.sh": "true\n"}) / "fatwheel.yml", shared_world())
    isolated = Environment(path=tmp_path, variables={"PATH": os.environ["PATH"]}, log=tmp_path / "log")
    shell = Shell(
        isolated, Bench(planned.plan, planned.tree, tmp_path, isolated.log, 1, Copies(tmp_path)), deadline=1.0
    )
    with pytest.raises(Rejected) as refused:
        shell.run_hooks("build.before", [Hook(command, "fatwheel.yml:14")])
    assert refused.value.message == f"build.before (fatwheel.yml:14) cannot be started: {said}"


def failed(folder: Path, said: str) -> Rejected:
    """Return the error of a command that printed `said`, after another of the same log."""
    log = folder / "job.log"
    log.write_text(f"{EARLIER}{said}", encoding="utf-8")
    return build_error(log, "the build failed", len(EARLIER), folder / "source")


def test_a_known_cause_is_said_first_with_its_line_and_what_helps(tmp_path: Path) -> None:
    line = f"{tmp_path}/source/a.c:2:10: fatal error: x.h: No such file or directory"
    error = failed(tmp_path, f"running build_ext\n{line}\ncompilation terminated.\nninja: build stopped\n")
    assert error.message.splitlines()[:3] == [
        "the build failed: x.h, which the source includes, is not there",
        "  a.c:2:10: fatal error: x.h: No such file or directory",
        f"  line 3 of {tmp_path}/job.log, whose last lines are:",
    ]
    assert error.hint.startswith("if it is the project's own")
    assert error.page == "reference/build-failures.md#missing-header"


def test_an_unknown_cause_has_the_last_lines_and_no_hint(tmp_path: Path) -> None:
    error = failed(tmp_path, "AssertionError: the widths differ\n")
    what = f"the build failed; the last lines of {tmp_path}/job.log:\nAssertionError: the widths differ"
    assert (error.message, error.hint, error.page) == (what, "", "")


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        pytest.param(
            Rejected("Backend 'mesonpy' is not available."), "the build backend mesonpy is not there", id="backend"
        ),
        pytest.param(Rejected("error: subprocess-exited-with-error"), "a requirement is built here", id="requirement"),
        pytest.param(MachineError("No space left on device", hint="free some"), "free some", id="has-a-hint"),
        pytest.param(Rejected("odd"), "", id="unknown"),
    ],
)
def test_an_error_gets_the_cause_that_its_words_show(error: Rejected, hint: str) -> None:
    assert add_cause(error).hint.startswith(hint)
    assert bool(error.hint) == bool(hint)


@pytest.mark.parametrize("links", [True, False])
def test_the_compilers_of_windows_are_hidden(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    for name in ("nvcc.exe", "HIPCC.exe", "git.exe"):
        program(tmp_path / "bin" / name, "exit 0")
    if not links:
        monkeypatch.setattr(Path, "symlink_to", refuse())
    shown = search_path(
        os.pathsep.join([str(tmp_path / "bin"), "/nowhere", NOT_READ]), tmp_path / "shadows", list_compilers()
    ).split(os.pathsep)
    assert [path.name for path in Path(shown[0]).iterdir()] == ["git.exe"]
    assert os.access(Path(shown[0]) / "git.exe", os.X_OK)
    assert shown[1:] == ["/nowhere", NOT_READ]


def test_a_build_on_windows_knows_its_machine() -> None:
    own = {
        "PROCESSOR_ARCHITECTURE": "AMD64",
        "COMSPEC": r"C:\Windows\cmd.exe",
        "PATHEXT": ".EXE",
        "SYSTEMROOT": r"C:\Windows",
    }
    assert clean_environment({**own, "CL": "/O1", "CUDA_PATH": r"C:\cuda"}, {}) == {**own, "PYTHONNOUSERSITE": "1"}
