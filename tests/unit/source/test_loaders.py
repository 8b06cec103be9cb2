"""How a package's Python files load its libraries: only what is certain by their text counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.formats.wheel import Hashing
from ci_tools.source.files import Tree
from ci_tools.source.loaders import Loader, find_loaders
from tests.builders.sources import write

USUAL = """\
import torch
from pathlib import Path
for file in Path(__file__).parent.glob('_C*.so'):
    try:
        torch.ops.load_library(str(file))
    except OSError:
        pass
"""


def loaders_of(folder: Path, text: str, shipped: str | None = None) -> tuple[Loader, ...]:
    """Return the loaders of a package with this `__init__.py`, or with another one in its wheel."""
    tree = Tree(write(folder, {"demo/__init__.py": text}), ("demo/__init__.py",))
    hashing = Hashing()
    hashing.update((text if shipped is None else shipped).encode())
    return find_loaders(tree, [("demo/__init__.py", hashing.record_value)])


def replaced(old: str, new: str) -> str:
    assert old in USUAL
    return USUAL.replace(old, new)


IN_A_LIST = replaced("for file in Path(__file__).parent.glob('_C*.so'):", "files = sorted({})\nfor file in files:")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(USUAL, id="usual"),
        pytest.param(replaced("str(file)", "file"), id="a-path"),
        pytest.param(IN_A_LIST.format("Path(__file__).parent.glob('_C*.so')"), id="a-list"),
        pytest.param(IN_A_LIST.format("glob.glob(os.path.join(os.path.dirname(__file__), '_C*.so'))"), id="glob"),
        pytest.param(replaced("OSError", "(ImportError, Exception) as error"), id="several-errors"),
        pytest.param(replaced("except OSError:", "except:"), id="any-error"),
    ],
)
def test_a_loop_over_a_pattern_takes_each_library(text: str, tmp_path: Path) -> None:
    (loader,) = loaders_of(tmp_path, text)
    taken = {name: loader.takes(name) for name in ("demo/_C.cpython-310-x.so", "demo/_D.so", "demo/sub/_C.so")}
    assert taken == {"demo/_C.cpython-310-x.so": True, "demo/_D.so": False, "demo/sub/_C.so": False}
    assert loader.is_tolerant


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(replaced("        pass", "        raise"), id="raised-again"),
        pytest.param(replaced("        pass", "        break"), id="the-others-are-not-loaded"),
        pytest.param(replaced("        pass", "        import sys; sys.exit(1)"), id="the-end"),
        pytest.param(replaced("OSError", "ImportError"), id="another-error"),
        pytest.param(replaced("        pass", "        pass\n    finally:\n        raise KeyError"), id="finally"),
        pytest.param(
            replaced("    try:\n        torch.ops.load_library(str(file))\n    except OSError:\n        pass\n",
                     "    torch.ops.load_library(str(file))\n"), id="no-try"),
        pytest.param(replaced("        torch.ops", "        0\n    except OSError:\n        torch.ops"), id="handler"),
    ],
)  # fmt: skip
def test_a_loop_that_an_error_may_end_is_not_tolerant(text: str, tmp_path: Path) -> None:
    assert [loader.is_tolerant for loader in loaders_of(tmp_path, text)] == [False]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(replaced("torch.ops", "ctypes"), id="another-function"),
        pytest.param(replaced("str(file)", "'_C.so'"), id="a-name"),
        pytest.param(replaced("str(file)", "other"), id="another-variable"),
        pytest.param(replaced("'_C*.so'", "pattern()"), id="a-pattern-that-is-computed"),
        pytest.param(replaced("'_C*.so'", "'**/_C*.so'"), id="folders"),
        pytest.param(replaced("Path(__file__).parent", "Path('/opt/demo')"), id="another-folder"),
        pytest.param(replaced("Path(__file__).parent", "Path(__file__).parent.parent"), id="the-folder-above"),
        pytest.param(IN_A_LIST.format("Path(__file__).parent.glob('_C*.so')") + "files = []\n", id="assigned-twice"),
        pytest.param("torch.ops.load_library(\n", id="no-python"),
        pytest.param(f"a{'()' * 400}\n", id="calls-of-calls"),
        pytest.param("", id="nothing"),
    ],
)
def test_what_is_not_certain_is_no_loader(text: str, tmp_path: Path) -> None:
    assert loaders_of(tmp_path, text) == ()


def test_a_file_that_the_build_writes_is_not_read(tmp_path: Path) -> None:
    assert loaders_of(tmp_path, USUAL, shipped=f"{USUAL}# built\n") == ()
