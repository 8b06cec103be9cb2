"""A package that is said to do without a library of its wheel is imported without it, with a real torch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ci_tools.verify.modules import explain_failed_import, explain_failed_load
from tests.builders.wheels import library, linked, make
from tests.servers import calling
from tests.servers.prepared import TORCH, address_of

pytestmark = pytest.mark.slow  # torch is imported, and a library compiled
MEMBER = "demo/_C_new.so"
WHEEL = "demo-1.0-cp310-abi3-linux_x86_64.whl"
LOADER = """\
from pathlib import Path
import torch
for file in Path(__file__).parent.glob("_C*.so"):
    try:
        torch.ops.load_library(str(file))
    except OSError:
        ELSE
"""
# It starts at once, and its work is done by a fork of a Python that has imported torch.
PYTHON = """\
#!{program} -IS
import os, sys
sys.path.insert(0, {servers!r})
from calling import call
status = call({address!r}, sys.argv[1:], cwd=os.getcwd(), env=dict(os.environ), files=(1, 2))
sys.exit(1 if status is None else status)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with torch."""
    program = tmp_path_factory.mktemp("python") / "python"
    servers = str(Path(calling.__file__).parent)
    program.write_text(PYTHON.format(program=sys.executable, servers=servers, address=address_of(TORCH)))
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("otherwise", "fails"), [("pass", False), ("raise", True)])
def test_a_package_is_imported_with_a_library_that_nothing_loads(
    otherwise: str,
    fails: bool,  # noqa: FBT001 - a column of the table
    python: Path,
    tmp_path: Path,
) -> None:
    files = {"demo/__init__.py": LOADER.replace("ELSE", otherwise).encode(), MEMBER: library("int answer = 42;")}
    wheel = make(tmp_path, WHEEL, files)
    variables = {"PATH": os.environ["PATH"]}
    if fails:  # and else it cannot be seen whether the library was loaded
        assert explain_failed_import(wheel, (), python, variables, tmp_path / "log") == ""
    why = explain_failed_import(wheel, (MEMBER,), python, variables, tmp_path / "log")
    assert why.startswith(f"`import demo` fails without {MEMBER}: OSError: ") is fails
    assert bool(why) is fails


@pytest.mark.parametrize(
    ("code", "needs", "expected"),
    [
        pytest.param(
            "int aoti_torch_abi_version(void); int a(void) { return aoti_torch_abi_version(); }",
            "libtorch_cpu.so",
            "",
            id="in-this-torch",
        ),
        pytest.param(
            "int torch_none(void); int a(void) { return torch_none(); }",
            "",
            "_C.so cannot be loaded with that torch: it has no torch_none",
            id="not-in-this-torch",
        ),
        pytest.param("int a;", "libcudart.so.99", None, id="what-the-machine-lacks"),
    ],
)
def test_the_other_libraries_find_their_symbols_in_the_torch_that_is_there(
    python: Path, tmp_path: Path, code: str, needs: str, expected: str | None
) -> None:
    bad = linked("int nothing_has_it(void); int b(void) { return nothing_has_it(); }")
    wheel = make(tmp_path, WHEEL, {"demo/_C.so": linked(code, needs=needs), MEMBER: bad})
    variables = {"PATH": os.environ["PATH"]}
    assert explain_failed_load(wheel, (MEMBER,), python, variables, tmp_path / "log") == expected
