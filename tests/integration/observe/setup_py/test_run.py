"""What was observed is the same wherever and by whomever it is observed, and is never half an observation."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ci_tools import sandbox
from ci_tools.errors import MachineError
from ci_tools.machine import seals
from ci_tools.model.evidence import Evidence
from ci_tools.observe import laboratory
from tests.builders.sources import evidence_of, write

pytestmark = pytest.mark.slow  # many real processes

CONFIG = """\
package: demo
version: "1.0"
python: ["3.10", "3.14t"]
platforms:
  linux-cpu: {owner: x}
"""
SETUP = """\
import subprocess, sys, sysconfig, tempfile
from setuptools import Extension, setup
said = subprocess.check_output([sys.executable, '-c', 'print(1)'], text=True)
paths = [tempfile.mkdtemp(), sys.prefix, sysconfig.get_path('include'), sys.executable]
setup(name='demo', version='1.0', description=said.strip(), packages=['demo'],
      ext_modules=[Extension('demo.a', ['a.c'], extra_compile_args=[f'-DA={path}' for path in paths])])
"""


def project(folder: Path) -> Path:
    return write(folder / "a", {"fatwheel.yml": CONFIG, "setup.py": SETUP, "demo/__init__.py": "", "a.c": ""})


def test_another_folder_and_another_cache_show_the_same(tmp_path: Path) -> None:
    assert evidence_of(project(tmp_path / "one")) == evidence_of(project(tmp_path / "two" / "deeper"))


def test_no_folder_of_this_machine_and_no_version_of_its_python_is_evidence(tmp_path: Path) -> None:
    shown = str(evidence_of(project(tmp_path)))
    assert "-DA=" in shown
    assert [own for own in (str(tmp_path), sys.prefix, sys.base_prefix) if own in shown] == []
    assert set(re.findall(r"python(3\.\d+)", shown)) <= {"3.10", "3.14"}  # those of the cells


def test_two_plans_at_once_in_one_cache_show_the_same(tmp_path: Path) -> None:
    source = project(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(evidence_of, [source, source])
    assert first == second


def test_a_run_that_is_killed_leaves_nothing_that_is_taken_for_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: object, **more: object) -> sandbox.Confined:
        raise MachineError(str(len(arguments) + len(more)))

    monkeypatch.setattr(laboratory, "run_in_sandbox", killed)
    with pytest.raises(MachineError):
        evidence_of(project(tmp_path))
    left = {path.name for path in (tmp_path / "cache").rglob("*")}
    # A folder and its lock, none of them where the stage is in memory, and the programs that tests lend it.
    assert left <= {"stages", "sweep", "tools", "version-tools"}
    monkeypatch.undo()
    assert evidence_of(tmp_path / "a").platforms[0].shown.built


def test_what_was_observed_once_is_not_run_again(
    shown: tuple[Path, Evidence], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laboratory, "run_in_sandbox", None)
    assert evidence_of(copy(shown[0], tmp_path)) == shown[1]


BY_PYTHON = """\
import sys
from setuptools import Extension, setup
setup(name='demo', version='1.0', packages=['demo'],
      ext_modules=[Extension('demo.a', ['a.c'], extra_compile_args=['-DA=%d' % sys.version_info[1]])])
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Evidence]:
    """A folder with a project, its user's key and what was observed of it, once for each Python; and its evidence."""
    folder = tmp_path_factory.mktemp("shown")
    files = {"fatwheel.yml": CONFIG, "setup.py": BY_PYTHON, "demo/__init__.py": "", "a.c": ""}
    evidence = evidence_of(write(folder / "a", files))
    assert len(kept(folder)) > 1
    return folder, evidence


def copy(folder: Path, target: Path) -> Path:
    """Copy a folder with a project and what was observed of it; return the project."""
    shutil.copytree(folder, target, symlinks=True, dirs_exist_ok=True)
    return target / "a"


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "cache" / "observations").glob("*.json"))


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def without_compilations(path: Path) -> None:
    path.write_text(path.read_text().replace("compiles", "imports"))


def sealed_by_another(path: Path) -> None:
    entry = json.loads(path.read_text())
    path.write_bytes(seals.seal(path.stem, json.loads(entry["value"]) | {"compiles": []}, b"another's key"))


def as_it_was_kept_before(path: Path) -> None:
    path.write_text(json.loads(path.read_text())["value"])


def of_another_cell(path: Path) -> None:
    first, *_, last = sorted(path.parent.glob("*.json"))
    first.write_bytes(last.read_bytes())


@pytest.mark.parametrize(
    "change", [damaged, without_compilations, sealed_by_another, as_it_was_kept_before, of_another_cell]
)
def test_a_kept_answer_that_was_damaged_or_forged_is_observed_again(
    change: Callable[[Path], None], shown: tuple[Path, Evidence], tmp_path: Path
) -> None:
    folder = copy(shown[0], tmp_path)
    before = [path.read_bytes() for path in kept(tmp_path)]
    for path in kept(tmp_path):
        change(path)
    assert (evidence_of(folder), [path.read_bytes() for path in kept(tmp_path)]) == (shown[1], before)


FIRST_DOUBT = """\
import os, platform, sys
from setuptools import Extension, setup
BEFORE
print(platform.node())
ask = [sys.platform, sys.version_info, os.environ.get('USE_IT'), os.environ.get('FORCE_IT')]
setup(name='demo', version='1.0', ext_modules=[Extension('demo.a', ['a.c'])] if os.name == 'nt' else [])
"""


@pytest.mark.parametrize(("before", "runs"), [("", 1), ("ask = sys.platform", 2)], ids=["by-none", "by-the-system"])
def test_a_doubt_is_met_once_by_all_cells_that_differ_in_nothing_asked_before(
    before: str, runs: int, tmp_path: Path
) -> None:
    config = CONFIG.replace("platforms:", "platforms:\n  windows: {owner: x}")
    files = {"fatwheel.yml": config, "setup.py": FIRST_DOUBT.replace("BEFORE", before), "a.c": ""}
    found = evidence_of(write(tmp_path / "a", files))
    assert {one.shown.extensions_where.split(": ")[0] for one in found.platforms} == {"setup.py:4"}
    assert len(kept(tmp_path)) == runs


READING = """\
import os
from setuptools import Extension, setup
from pathlib import Path
sized = os.path.getsize('sized.txt') + os.stat('looked.txt').st_size + Path('asked.txt').stat().st_size
listed = sum(entry.stat().st_size for entry in os.scandir('listed'))
read = open('read.txt').read() + Path('more.txt').read_text()
os.link('linked.txt', 'build-linked')
os.rename('renamed', 'build-renamed')
os.mkdir('made')
os.symlink('../targets', 'made/link')
folder = os.open('below', os.O_RDONLY)
below = os.read(os.open('x.txt', os.O_RDONLY, dir_fd=folder), 99).decode()
read += below + open('build-linked').read()
read += open('build-renamed/x.txt').read() + open('made/link/deep/x.txt').read()
sized += os.stat('stat.txt', dir_fd=folder).st_size + sum(one.stat().st_size for one in os.scandir(folder))
read += open('through/x.txt').read()
flags = ['-DSIZED=%d' % sized, '-DLISTED=%d' % listed, '-DREAD=' + ''.join(read.split())]
setup(name='demo', version='1.0', packages=['demo'], package_data={'demo': ['*.dat']},
      ext_modules=[Extension('demo.a', ['a.c'], extra_compile_args=flags)])
"""
READ = (
    "read.txt",
    "more.txt",
    "sized.txt",
    "looked.txt",
    "asked.txt",
    "listed/x.txt",
    "demo/table.dat",
    "demo/__init__.py",
    "linked.txt",
    "renamed/x.txt",
    "targets/deep/x.txt",
    "below/x.txt",
    "below/stat.txt",
    "below/listed.txt",
    "behind/x.txt",
)
UNREAD = ("README.md", "docs/page.rst", "tests/test_it.py", "fatwheel.yml", "a.c", ".github/workflows/ci.yml")


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a project that reads files, and what was observed of it."""
    files = dict.fromkeys((*READ, *UNREAD), "x\n")
    folder = write(tmp_path_factory.mktemp("reading") / "a", {**files, "fatwheel.yml": CONFIG, "setup.py": READING})
    (folder / "through").symlink_to("behind")
    evidence_of(folder)
    return folder.parent


@pytest.fixture
def observed(reading: Path, tmp_path: Path) -> Path:
    """A project that was observed once."""
    return copy(reading, tmp_path)


class Again(Exception):
    """Something would be observed."""


@pytest.fixture
def observing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Again be raised where something would be observed."""

    def start(*arguments: object, **more: object) -> sandbox.Confined:
        raise Again(arguments, more)

    monkeypatch.setattr(laboratory, "run_in_sandbox", start)


@pytest.mark.parametrize("name", UNREAD)
def test_a_file_that_the_build_does_not_read_observes_nothing_again(
    name: str, observed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (observed / name).open("a") as file:
        file.write("# one more line\n")
    before = [path.read_bytes() for path in kept(observed.parent)]
    monkeypatch.setattr(laboratory, "run_in_sandbox", None)
    evidence_of(observed)
    assert [path.read_bytes() for path in kept(observed.parent)] == before


@pytest.mark.usefixtures("observing")
@pytest.mark.parametrize("name", READ)
def test_a_file_that_the_build_reads_or_looks_at_is_observed_again(name: str, observed: Path) -> None:
    with (observed / name).open("a") as file:
        file.write("y")
    with pytest.raises(Again):
        evidence_of(observed)


@pytest.mark.parametrize("name", ["read.txt", "behind/x.txt", "setup.py"])
def test_what_is_observed_again_takes_the_place_of_what_was_kept(name: str, observed: Path) -> None:
    before = evidence_of(observed).platforms[0].shown.recipe
    with (observed / name).open("a") as file:
        file.write("read = 'again'\n" if name == "setup.py" else "y")
    entries = [path.read_bytes() for path in kept(observed.parent)]
    assert (evidence_of(observed).platforms[0].shown.recipe != before) == (name != "setup.py")
    assert all(path.read_bytes() not in entries for path in kept(observed.parent))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda folder: (folder / "demo" / "new.dat").write_text("x"), id="a-new-file"),
        pytest.param(lambda folder: (folder / "demo" / "table.dat").unlink(), id="a-file-less"),
        pytest.param(lambda folder: (folder / "sized.txt").chmod(0o755), id="a-mode"),
    ],
)
@pytest.mark.usefixtures("observing")
def test_another_list_of_files_or_another_mode_is_observed_again(
    change: Callable[[Path], object], observed: Path
) -> None:
    change(observed)
    with pytest.raises(Again):
        evidence_of(observed)


def test_a_file_outside_the_source_that_a_project_reports_is_not_looked_at(tmp_path: Path) -> None:
    forged = """\
import os
from setuptools import setup
from ci_tools.observe.inside.facts import FACTS
for name in ('/etc/passwd', '../secret', 'a/../../secret', '/proc/kcore', 'link/secret'):
    FACTS.tell(reads={name: ''})
os.symlink(os.path.dirname(os.getcwd()), 'link')
setup(name='demo', version='1.0', packages=['demo'])
"""
    (tmp_path / "secret").write_text("secret")
    evidence_of(write(tmp_path / "a", {"fatwheel.yml": CONFIG, "setup.py": forged, "demo/__init__.py": ""}))
    (entry, *_) = [json.loads(json.loads(path.read_text())["value"]) for path in kept(tmp_path)]
    states = entry["states"]
    assert {name for name, state in states.items() if state and name not in {"setup.py", "demo/__init__.py"}} == set()
    assert states["/etc/passwd"] == states["../secret"] == states["link/secret"] == ""
