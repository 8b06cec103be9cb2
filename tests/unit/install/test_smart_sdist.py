"""A setup.py in a smart sdist: it serves `bdist_wheel` first, and is as it was in everything else."""

from __future__ import annotations

import ast
import tarfile
from pathlib import Path

import pytest

from ci_tools.install.smart_sdist import SERVES
from tests.builders.smart_sdists import smart_sdist


def setup_py(folder: Path, text: str) -> str:
    """Return the setup.py of a smart sdist that is made from one with this setup.py."""
    with tarfile.open(smart_sdist([], folder, {"setup.py": text})) as archive:
        file = archive.extractfile("demo-1.0/setup.py")
        assert file
        return file.read().decode()


@pytest.mark.parametrize(
    "text",
    [
        "from setuptools import setup\nsetup()\n",
        '"""What it is."""\nfrom __future__ import annotations\nimport os\nfrom setuptools import setup\nsetup()\n',
        "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nimport setuptools\nsetuptools.setup(name='\u00e9')",
        "import os; import setuptools; setuptools.setup()\r\n",
        "@print\ndef what():\n    pass\nwhat\n",
    ],
    ids=["plain", "future", "coding", "one-line", "decorator"],
)
def test_it_serves_before_anything_else(text: str, tmp_path: Path) -> None:
    found = setup_py(tmp_path, text)
    served = SERVES.decode()
    assert found.replace(served, "") == text
    nodes = [
        node for node in ast.parse(found).body if not isinstance(node, ast.Expr) or "serve_setup" in ast.dump(node)
    ]
    first = next(node for node in nodes if not (isinstance(node, ast.ImportFrom) and node.module == "__future__"))
    assert ast.unparse(first) == "import os, sys"


@pytest.mark.parametrize(
    "text",
    [
        "print 'Python 2'\n",
        "",
        '"""What it is,\nand more."""; from setuptools import setup\nsetup()\n',
        '"""Only a text."""\n',
    ],
    ids=["python-2", "empty", "in-the-middle-of-a-line", "nothing-to-serve"],
)
def test_what_cannot_be_changed_safely_stays_as_it_is(text: str, tmp_path: Path) -> None:
    assert setup_py(tmp_path, text) == text
