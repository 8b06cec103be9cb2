"""What a setup.py may do to whoever runs it: each ends, changes nothing outside its copy, and collapses nothing."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_tools.model.plan import Plan
from ci_tools.observe import observation
from ci_tools.observe.setup_py import run
from ci_tools.sandbox import Limits, why_not
from ci_tools.sandbox.usage import living
from tests.builders.sources import plan_of, write

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=f"needs confinement: {why_not()}"),
    pytest.mark.slow,
]

CONFIG = """\
package: demo
version: "1.0"
python: ["3.10", "3.14t"]
platforms:
  linux-cpu: {owner: x}
  macos-arm64: {owner: x}
"""
SETUP = "from setuptools import setup\nsetup(name='demo', version='1.0', packages=['demo'])\n"
SLEPT = 600  # seconds, of a script that is ended before


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait a minute for what hangs, nor read all that can be read of what tells too much."""
    limits = Limits(seconds=1.5, memory=512 << 20, processes=16, written=64 << 20)
    monkeypatch.setattr(run, "LIMITS", limits)
    monkeypatch.setattr(observation, "MAX_LINES", 5000)


@pytest.fixture
def listener() -> Iterator[int]:
    """A port on this machine that somebody answers at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        yield server.getsockname()[1]
        with pytest.raises(TimeoutError):
            server.accept()


def planned(folder: Path, script: str) -> Plan:
    """Return the plan of a project whose setup.py does that first; its source must be as it was afterwards."""
    source = write(
        folder / "a", {"fatwheel.yml": CONFIG, "setup.py": f"{script}\n{SETUP}", "demo/__init__.py": "x = 1\n"}
    )
    (folder / "outside").write_text("untouched")
    before = digest(folder)
    plan = plan_of(source)
    assert digest(folder) == before
    return plan


def digest(folder: Path) -> dict[str, str]:
    """Return a hash of every file, the cache and the key of its user left out."""
    files = (
        path
        for path in folder.rglob("*")
        if path.is_file() and not {"cache", ".local"} & {*path.relative_to(folder).parts}
    )
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(
    ("script", "warning"),
    [
        pytest.param("while True: pass", "setup.py computes or waits for over", id="hangs"),
        pytest.param("import time, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
                     "setup.py computes or waits for over", id="hangs-and-takes-no-hint"),
        pytest.param("import os; os._exit(0)", "setup.py ended Python before the build was done", id="ends-python"),
        pytest.param("while True: print('rubbish' * 1000)", "setup.py wrote over", id="prints-rubbish-for-ever"),
        pytest.param("import os\nwhile True: os.fork()", "setup.py started over", id="forks"),
        pytest.param("import os, time\nif os.fork() == 0:\n  time.sleep(600)", "", id="leaves-a-child"),
        pytest.param("x = []\nwhile True: x.append(bytearray(10 << 20))", "setup.py took over", id="eats-memory"),
        pytest.param("import tempfile\nf = tempfile.TemporaryFile()\nwhile True: f.write(bytes(1 << 20))",
                     "setup.py", id="fills-the-disk"),
        pytest.param("import os\nfor i in range(3000):\n  os.mkdir('d'); os.chdir('d')", "",
                     id="makes-folders-within-folders"),
        pytest.param("import missing_module", "No module named 'missing_module'", id="needs-a-missing-module"),
        pytest.param("raise RuntimeError('no, I will not')", "RuntimeError: no, I will not (setup.py:1)", id="raises"),
        pytest.param("import sys; sys.exit('I need a licence')", "I need a licence", id="exits"),
        pytest.param("import sys; sys.exit()", "setup.py", id="exits-as-if-all-were-well"),
        pytest.param("input('continue? ')", "EOFError", id="asks-a-question"),
    ],
)  # fmt: skip
def test_a_hostile_script_ends_and_collapses_nothing(
    script: str, warning: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "computes or waits" in warning:  # it is ended in any case
        monkeypatch.setattr(run, "LIMITS", run.LIMITS._replace(seconds=0.4))
    started = time.monotonic()
    plan = planned(tmp_path, script)
    assert time.monotonic() - started < SLEPT
    if warning:
        assert not any(job.name == "pure" for job in plan.jobs)
        assert [warning in line for line in plan.warnings] == [True], plan.warnings
    assert not [task for task in living(os.getpgid(0)) if task.pid != os.getpid() and b"setup.py" in command(task.pid)]


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("../../outside", id="above"),
        pytest.param("{outside}", id="absolute"),
        pytest.param("link", id="through-a-link-of-its-own"),
    ],
)
def test_a_script_that_writes_outside_fails_and_changes_nothing(path: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    name = path.format(outside=outside)
    plan = planned(tmp_path, f"import os\nos.symlink({str(outside)!r}, 'link')\nopen({name!r}, 'w').write('changed')")
    assert outside.read_text() == "untouched"
    assert not any(job.name == "pure" for job in plan.jobs)


def test_a_script_cannot_read_what_is_not_its_own(tmp_path: Path) -> None:
    plan = planned(tmp_path, f"secret = open({str(tmp_path / 'outside')!r}).read()")
    assert not any(job.name == "pure" for job in plan.jobs)
    assert "untouched" not in str(plan)


def test_a_script_reaches_no_network(listener: int, tmp_path: Path) -> None:
    plan = planned(tmp_path, f"import socket\nsocket.create_connection(('127.0.0.1', {listener}), 2)")
    assert ["opens the network" in line for line in plan.warnings] == [True]
    assert not any(job.name == "pure" for job in plan.jobs)


# What it leaves is read, replaced and removed by a process that is not confined.
LEFT = """\
import json, os, shutil, sys
asked = json.load(open(sys.orig_argv[-1]))
secret, wheels = {secret!r}, asked['wheels']
"""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("os.rmdir(wheels); os.symlink(os.path.dirname(secret), wheels)", id="its-wheels-are-elsewhere"),
        pytest.param(
            "shutil.rmtree(os.path.dirname(wheels)); os.symlink(os.path.dirname(secret), os.path.dirname(wheels))",
            id="its-machine-is-elsewhere",
        ),
        pytest.param(
            "shutil.rmtree(asked['root']); os.symlink(os.path.dirname(secret), asked['root'])",
            id="its-source-is-elsewhere",
        ),
        pytest.param(
            "shutil.rmtree('demo'); os.symlink(os.path.dirname(secret), 'demo')", id="a-folder-of-it-is-elsewhere"
        ),
        pytest.param("open(sys.orig_argv[-1], 'w').write('{}')", id="rewrites-what-it-is-asked"),
    ],
)
def test_what_a_script_leaves_leads_nowhere(script: str, tmp_path: Path) -> None:
    outside = tmp_path / "private"
    secret = write(outside, {"secret-1.0-py3-none-any.whl": "the secret of the house"}) / "secret-1.0-py3-none-any.whl"
    outside.chmod(0o750)
    plan = planned(tmp_path, LEFT.format(secret=str(secret)) + script)
    assert outside.stat().st_mode & 0o777 == 0o750
    assert "secret of the house" not in str(plan)
    assert not any(job.name == "pure" for job in plan.jobs)
    assert plan.warnings


# The observed build asks for what no cell says, or compiles, and then tries to have that forgotten.
FORGED = """\
import hmac, json, os, posix, subprocess, sys
asked = json.load(open(sys.orig_argv[-1]))
journal, observer = asked['journal'], 'ci_tools.observe.inside.'
facts, seen = sys.modules[observer + 'facts'].FACTS, sys.modules[observer + 'build_ext'].Recorder

def write(*lines):
    with open(journal, 'w') as file:
        file.write(''.join(f'{json.dumps(line)}\\n' for line in lines))

def forge(seal):
    with open(journal, 'w') as file:
        file.write(f'answer {seal} {json.dumps(nothing)}\\n')

def attempt(function, *arguments):
    try:
        function(*arguments)
    except OSError:
        pass

nothing = {'asked': {}, 'doubts': {}, 'imports': {}, 'compiles': [], 'links': [], 'error': None, 'generated': {}}
"""
OWN_COMPILER = "subprocess.run(['gcc', '-c', 'a.c', '-o', 'a.o'], check=True)\n"


@pytest.mark.parametrize(
    ("script", "warning"),
    [
        pytest.param("forge('0' * 64)\nos._exit(0)", "ended Python before the build was done",
                     id="answers-without-a-seal"),
        pytest.param("forge(hmac.new(b'', json.dumps(nothing).encode(), 'sha256').hexdigest())\nos._exit(0)",
                     "ended Python before the build was done", id="answers-with-a-seal-of-no-word"),
        pytest.param("forge('\\n')\nwrite([], 3, {'asked': 3, 'doubts': [1]})\nos._exit(0)",
                     "ended Python before the build was done", id="answers-what-cannot-be-read"),
        pytest.param("forge('')", "writes its own answer", id="answers-before-it-is-done"),
        pytest.param("word = os.environ.get('FATWHEEL_WORD') or posix.environ.get(b'FATWHEEL_WORD')\n"
                     "os._exit(3 if word else 0)", "exit status 0", id="looks-for-the-word"),
        pytest.param("os.getlogin\nos.getgroups()\nfacts.doubts.clear(); facts.asked.clear()",
                     "os.getgroups()", id="clears-its-doubts"),
        pytest.param("os.getgroups()\nvars(facts)['doubts'] = {}", "os.getgroups()", id="has-other-doubts"),
        pytest.param("facts.doubt = print\nos.getgroups()", "changes its observer", id="changes-its-observer"),
        pytest.param("type(facts).doubt = type(facts).tell = print\nos.getgroups()", "changes its observer",
                     id="changes-the-class-of-its-observer"),
        pytest.param("sys.modules[observer + 'machine'].FACTS = None\nos.getgroups()", "changes its observer",
                     id="changes-a-module-of-its-observer"),
        pytest.param("del sys.modules[observer + 'programs'].heard\nos.getgroups()", "changes its observer",
                     id="removes-a-part-of-its-observer"),
        pytest.param("facts.journal = os.devnull\nos.getgroups()", "changes its observer",
                     id="names-another-journal"),
        pytest.param("json.dumps = os.write = os.open = lambda *_: b''\nos.getgroups()", "setup.py",
                     id="changes-what-its-observer-uses"),
        pytest.param("import ci_tools.observe.inside.facts", "imports its observer",
                     id="imports-its-observer"),
        pytest.param(OWN_COMPILER + "attempt(os.remove, journal); attempt(os.truncate, journal, 0)",
                     "compiles by its own command: gcc", id="removes-its-commands"),
        pytest.param(OWN_COMPILER + "attempt(os.rename, 'a.o', journal); attempt(os.symlink, 'a.o', journal)",
                     "compiles by its own command: gcc", id="replaces-its-commands"),
        pytest.param(OWN_COMPILER + "attempt(lambda: os.read(os.open(journal, os.O_RDONLY | os.O_NONBLOCK), 9999))",
                     "compiles by its own command: gcc", id="takes-its-commands-out"),
        pytest.param("subprocess.run([sys.executable, '-c', 'import os; os.getgroups()'])",
                     "os.getgroups()", id="asks-by-another-python"),
        pytest.param("subprocess.run([sys.executable, '-c', 'import os; os._exit(0)'])",
                     "whose end is not observed", id="has-a-python-that-does-not-end"),
        pytest.param("subprocess.run([sys.executable, '-c', 'import os; os._exit(0)'])\nwrite({'ended': 1, 'by': 1})",
                     "whose end is not observed", id="ends-it-for-it"),
        pytest.param("seen('').spawn(['cc', '-c', 'setup.py'])\nseen.compiles.append({})\nseen.compiles.clear()",
                     "changes the record", id="forgets-what-it-compiled"),
        pytest.param("attempt(lambda: open('../../../observations/x.json', 'w'))\nos.getgroups()",
                     "setup.py", id="writes-into-the-cache"),
        pytest.param("open(journal, 'wb').write(b'\\xff{\\n' + b'[' * 100000 + b'\\n')",
                     "compiles by its own command", id="writes-what-is-no-line"),
        pytest.param("open(journal, 'w').write('{}\\n' * 10_000)", "reports more than can be read", id="tells-a-lot"),
        pytest.param("with open(journal, 'w') as file:\n  while True: file.write('x' * (1 << 20))",
                     "setup.py wrote over", id="writes-for-ever"),
    ],
)  # fmt: skip
def test_a_forged_observation_is_not_believed(script: str, warning: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, FORGED + script)
    assert not any(job.name == "pure" for job in plan.jobs)
    assert [warning in line for line in plan.warnings] == [True], plan.warnings
