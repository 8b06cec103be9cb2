"""Values that differ between systems or Pythons under one name of the standard library: none of them decides unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.model.plan import Plan
from tests.builders.setuptools_projects import jobs_of, planned, setup

pytestmark = pytest.mark.slow  # many real processes

CONFIG = """\
package: demo
version: "1.0"
python: ["3.10"]
platforms: {linux-cpu: {owner: "@demo/cpu"}, windows: {owner: "@demo/w"}, macos-arm64: {owner: "@demo/m"}}
"""
LONG = pytest.mark.long


def deciding(folder: Path, condition: str, before: str) -> Plan:
    script = setup(f"ext_modules=[Extension('demo.a', ['a.c'])] if {condition} else []", before)
    return planned(folder, {"setup.py": script, "a.c": ""}, CONFIG)


@pytest.mark.parametrize(
    ("condition", "before", "native"),
    [
        pytest.param("errno.EAGAIN == 35", "import errno\n", {"windows", "macos-arm64"}, id="an-error"),
        pytest.param("EAGAIN % 2", "from errno import EAGAIN\n", {"windows", "macos-arm64", "linux-cpu"},
                     id="a-number-by-itself"),
        pytest.param("errno.errorcode[35] == 'EAGAIN'", "import errno\n", {"windows", "macos-arm64"}, id="errors",
                     marks=LONG),
        pytest.param("socket.AF_INET6 == 30", "import socket\n", {"windows", "macos-arm64"}, id="a-socket", marks=LONG),
        pytest.param("{0x200: 1}.get(os.O_CREAT)", "", {"windows", "macos-arm64"}, id="a-key", marks=LONG),
        pytest.param("len(os.linesep) == 2", "", {"windows"}, id="the-end-of-a-line", marks=LONG),
        pytest.param("'SystemRoot' in os.environ", "", {"windows"}, id="a-variable-of-windows", marks=LONG),
        pytest.param("not os.path.exists('/dev/null')", "", {"windows"}, id="a-device", marks=LONG),
        pytest.param("'x' in inspect.signature(os.path.exists).parameters", "import inspect\n",
                     {"linux-cpu", "windows", "macos-arm64"}, id="a-parameter", marks=LONG),
        pytest.param("MAGIC_NUMBER == b''", "from importlib.util import MAGIC_NUMBER\n",
                     {"linux-cpu", "windows", "macos-arm64"}, id="bytecode", marks=LONG),
        pytest.param("found", "try:\n    found = compile('type X = int', 'x', 'exec')\nexcept SyntaxError:\n"
                     "    found = 0\n", {"linux-cpu", "windows", "macos-arm64"}, id="a-newer-syntax"),
    ],
)  # fmt: skip
def test_a_value_that_differs_decides_nothing_unseen(
    condition: str, before: str, native: set[str], tmp_path: Path
) -> None:
    plan = deciding(tmp_path, condition, before)
    assert {name for name in ("linux-cpu", "windows", "macos-arm64") if "pure" not in jobs_of(plan, name)} == native


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(
            "import errno\ntry: os.mkdir('demo')\nexcept OSError as e: assert e.errno == errno.EEXIST\n",
            id="an-error-that-all-have",
        ),
        pytest.param(
            "import errno\ntry: os.rmdir('demo')\nexcept OSError as e: assert e.errno == errno.ENOTEMPTY\n",
            id="the-error-that-was-raised",
            marks=LONG,
        ),
        pytest.param("os.close(os.open('x', os.O_CREAT | os.O_WRONLY))\nos.remove('x')\n", id="a-flag", marks=LONG),
        pytest.param("import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n", id="a-signal", marks=LONG),
        pytest.param("assert os.path.normcase('a.c') == os.path.normcase('a.c')\n", id="a-path"),
        pytest.param("exec(compile('VERSION = 1', 'version.py', 'exec'))\n", id="a-syntax-that-all-know", marks=LONG),
    ],
)
def test_a_value_that_is_only_handed_on_costs_no_wheel(before: str, tmp_path: Path) -> None:
    assert [job.name for job in deciding(tmp_path, "0", before).jobs] == ["pure"]
