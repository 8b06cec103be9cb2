"""What a config runs beside the build: before it, after it, and what an installed wheel is tried with."""

from __future__ import annotations

import _ctypes
import json
import zipfile
from pathlib import Path

import pytest

from tests.builders import own_backend
from tests.builders.sources import write
from tests.integration.conftest import CommandLine, Ran, write_project

pytestmark = pytest.mark.slow

ADD = """\
import os, zipfile
with zipfile.ZipFile(os.environ["FATWHEEL_WHEEL"], "a") as wheel:
    wheel.writestr("{member}", b"{content}")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "tiny")


def built(fatwheel: CommandLine, project: Path, build: str, **files: str) -> Ran:
    write(project, {name.replace("_dot_", "."): text for name, text in files.items()})
    with (project / "fatwheel.yml").open("a") as config:
        config.write(f"build:\n{build}")
    return fatwheel("build", "--job", "pure", "--out", "dist", cwd=project)


def content(project: Path, member: str) -> str:
    wheel = next((project / "dist").glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(member).decode()


@pytest.fixture(scope="module")
def hooked(fatwheel: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that was built once, with a command before its build and another after it."""
    project = write_project(tmp_path_factory.mktemp("hooked") / "tiny")
    (project / "tiny/__init__.py").write_text('"""Tiny."""\nANSWER = 1\n')
    said = '"""Tiny."""'
    script = f'printf \'%s\\nANSWER = "%s"\\n\' \'{said}\' "$KIND" > tiny/__init__.py && test -n "$VIRTUAL_ENV"\n'
    hooks = "  before: [bash set.sh]\n  after: [python add.py]\n  env: {KIND: made}\n"
    add = ADD.format(member="tiny/notes.txt", content="said after")
    ran = built(fatwheel, project, hooks, set_dot_sh=script, add_dot_py=add)
    assert ran.status == 0, ran.stderr
    return project


def test_before_changes_what_the_backend_sees_and_nothing_of_the_source(hooked: Path) -> None:
    assert 'ANSWER = "made"' in content(hooked, "tiny/__init__.py")
    assert "ANSWER = 1" in (hooked / "tiny/__init__.py").read_text()
    assert "/bash set.sh\n" in (hooked / "dist/logs/pure.log").read_text()


def test_after_sees_the_wheel_and_the_audit_sees_what_it_made_of_it(fatwheel: CommandLine, hooked: Path) -> None:
    assert content(hooked, "tiny/notes.txt") == "said after"
    assert "tiny/notes.txt,sha256=" in content(hooked, "tiny-1.0.dist-info/RECORD")
    wheel = next((hooked / "dist").glob("*.whl"))
    audited = fatwheel("audit", wheel, "--config", "fatwheel.yml", "--format", "json", cwd=hooked)
    assert (audited.status, [one for one in json.loads(audited.stdout) if one["level"] == "error"]) == (0, [])


def test_a_failed_command_fails_the_build_with_its_line_and_last_words(fatwheel: CommandLine, project: Path) -> None:
    ran = built(fatwheel, project, "  before:\n    - bash set.sh\n", set_dot_sh="echo no such luck\nexit 3\n")
    assert (ran.status, "build.before (fatwheel.yml:15) failed; the last lines of" in ran.stderr) == (1, True), (
        ran.stderr
    )
    assert "no such luck" in ran.stderr
    assert list((project / "dist").glob("*.whl")) == []


def test_what_the_plan_did_not_foretell_is_refused(fatwheel: CommandLine, project: Path) -> None:
    write(project, {name: text for name, text in own_backend.FILES.items() if name != "fast.cpp"})
    ran = built(fatwheel, project, "  before: [bash set.sh]\n", set_dot_sh="touch tiny/more.py\n")
    assert (ran.status, "tiny/more.py" in ran.stderr) == (1, True), ran.stderr
    assert list((project / "dist").glob("*.whl")) == []


def test_a_library_that_after_adds_is_refused(fatwheel: CommandLine, project: Path) -> None:
    script = ADD.format(member="tiny/fast.so", content="").replace('b""', f"open({_ctypes.__file__!r}, 'rb').read()")
    built(fatwheel, project, "  after: [python add.py]\n", add_dot_py=script)
    wheel = next((project / "dist").glob("*.whl"))
    audited = fatwheel("audit", wheel, "--config", "fatwheel.yml", cwd=project)
    assert (audited.status, "tiny/fast.so" in audited.stdout) == (1, True), audited


def test_after_leaves_the_wheel_where_it_was(fatwheel: CommandLine, project: Path) -> None:
    script = 'rm "$FATWHEEL_WHEEL"\n'
    ran = built(fatwheel, project, "  after: [bash drop.sh]\n", drop_dot_sh=script)
    assert (ran.status, "build.after (fatwheel.yml:14) left no tiny-1.0-py3-none-any.whl" in ran.stderr) == (1, True)


@pytest.mark.long
def test_built_twice_the_bytes_are_the_same(fatwheel: CommandLine, project: Path) -> None:
    script = ADD.format(member="tiny/notes.txt", content="again")
    ran = built(fatwheel, project, "  after: [python add.py]\n", add_dot_py=script)
    again = fatwheel("build", "--job", "pure", "--out", "again", cwd=project)
    assert (ran.status, again.status) == (0, 0), again.stderr
    one, other = (next((project / folder).glob("*.whl")).read_bytes() for folder in ("dist", "again"))
    assert one == other


@pytest.mark.long
def test_a_release_tries_a_script_of_the_source_and_says_that_its_sdist_runs_no_commands(
    fatwheel: CommandLine, project: Path, tmp_path: Path
) -> None:
    write(project, {
        "checks/smoke.py": "import tiny, sys\nassert tiny.__file__.startswith(sys.prefix), tiny.__file__\n",
        "set.sh": "echo 'ANSWER = 42 # told' >> tiny/__init__.py\n",
    })  # fmt: skip
    config = (
        (project / "fatwheel.yml").read_text().replace("  commands:\n", "  commands:\n    - python checks/smoke.py\n")
    )
    (project / "fatwheel.yml").write_text(config + "build:\n  before: [bash set.sh]\n")
    ran = fatwheel("release", "--to", f"dir:{tmp_path / 'index'}", "--out", "dist", cwd=project)
    assert ran.status == 0, ran.stdout + ran.stderr
    assert "build.before and build.after are not run for an sdist" in " ".join(ran.stdout.split())
    logs = [log.read_text() for log in (project / "dist/logs").glob("validate-*.log")]
    assert all("/checks/smoke.py\n" in log for log in logs)
    wheel = next((project / "dist").glob("*.whl"))
    alone = fatwheel("validate", wheel, "--config", "fatwheel.yml", cwd=project)
    assert alone.status == 0, alone.stderr
    (project / "checks/smoke.py").write_text("raise SystemExit('changed')\n")
    changed = fatwheel("validate", wheel, "--config", "fatwheel.yml", cwd=project)
    assert (changed.status, "changed" in changed.stderr) == (1, True), changed.stderr
