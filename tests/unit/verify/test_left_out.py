"""Which files of a package no wheel has, and which of them are no loss."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_tools.source.files import tree_at
from ci_tools.verify.left_out import find_left_out, left_out_by_rule
from tests.builders.sources import write
from tests.builders.wheels import PURE, make

MODULE = b'"""A package."""\n'
TABLE = "demo/data/table.json"


def said(folder: Path, files: Mapping[str, str | bytes], members: Mapping[str, bytes], *, compiles: bool) -> list[str]:
    """Return what is said of a source, with these files beside its package, and a wheel with these members."""
    root = write(folder / "source", {"src/demo/__init__.py": MODULE, **files})
    wheel = make(folder, PURE, {"demo/__init__.py": MODULE, **members})
    return list(find_left_out(tree_at(root, {}), "", [wheel], compiles=compiles))


def test_the_data_of_a_package_that_no_wheel_has_is_named(tmp_path: Path) -> None:
    files = {"src/demo/kernels/mul.cuh": "float x;", "src/demo/tuning/h100.json": "{}"}
    (sentence,) = said(tmp_path, files, {}, compiles=False)
    assert sentence.startswith("src/demo has 2 files that no wheel built here has: kernels/mul.cuh, tuning/h100.json; ")


@pytest.mark.parametrize("name", ["demo/sub/__init__.py", "demo/py.typed", "demo/vocab.txt", "demo/a.so"])
def test_what_a_wheel_lacks_may_be_of_any_kind(tmp_path: Path, name: str) -> None:
    (sentence,) = said(tmp_path, {f"src/{name}": "" if name.endswith("typed") else "x"}, {}, compiles=True)
    assert name.removeprefix("demo/") in sentence


@pytest.mark.parametrize(
    ("files", "members"),
    [
        pytest.param({"src/demo/a.json": "{}"}, {"demo/a.json": b"{}"}, id="it-has-it"),
        pytest.param({"src/demo/a.json": "{1}"}, {"demo/other/b.json": b"{1}"}, id="it-has-it-under-another-name"),
        pytest.param({"src/demo/_version.py": "1"}, {"demo/_version.py": b"2"}, id="it-has-it-with-another-content"),
        pytest.param({"src/demo/tests/test_a.py": "1", "src/demo/tests/a.json": "{}"}, {}, id="tests"),
        pytest.param({"src/demo/README.md": "1", "src/demo/CMakeLists.txt": "1"}, {}, id="for-work-on-the-source"),
        pytest.param({"src/demo/a.cpp": "1", "src/demo/b.cuh": "1", "src/demo/c.pyx": "1"}, {}, id="compiled"),
        pytest.param({"benchmarks/a.json": "{}", "src/other/a.json": "{}"}, {}, id="of-no-package"),
        pytest.param({"src/demo/empty.txt": ""}, {}, id="empty"),
    ],
)
def test_what_is_no_loss_is_not_said(tmp_path: Path, files: Mapping[str, str], members: Mapping[str, bytes]) -> None:
    assert said(tmp_path, files, members, compiles=True) == []


def test_a_source_that_a_module_reads_is_data_though_others_are_compiled(tmp_path: Path) -> None:
    reads = {"demo/jit.py": b"def source(name): return read(f'{name}.cuh')"}
    files = {"src/demo/jit.py": "1", "src/demo/a.cuh": "1", "src/demo/b.cpp": "1"}
    (sentence,) = said(tmp_path, files, reads, compiles=True)
    assert "a file that no wheel built here has: a.cuh; name it" in sentence


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("MANIFEST.in", "include x\nrecursive-exclude demo *.json *.txt\n"),
        ("MANIFEST.in", "prune demo/data\n"),
        ("MANIFEST.in", "global-exclude *.json\n"),
        ("MANIFEST.in", f"exclude {TABLE}\n"),
        (".gitattributes", "*.py text\ndemo/data export-ignore\n"),
        ("setup.cfg", "[options.exclude_package_data]\ndemo =\n    data/*.json\n"),
        ("setup.py", 'from setuptools import setup\nsetup(exclude_package_data={"demo": ["data/*.json"]})\n'),
        ("pyproject.toml", '[tool.setuptools.exclude-package-data]\ndemo = ["data/*.json"]\n'),
        ("pyproject.toml", '[tool.setuptools.packages.find]\nexclude = ["demo.data*"]\n'),
        ("pyproject.toml", '[tool.hatch.build.targets.wheel]\nexclude = ["/demo/data"]\n'),
        ("hatch.toml", '[build]\nexclude = ["*.json"]\n'),
        ("pyproject.toml", '[tool.poetry]\nexclude = ["demo/data/*"]\n'),
        ("pyproject.toml", '[tool.pdm.build]\nexcludes = ["demo/data/**"]\n'),
        ("pyproject.toml", '[tool.flit.sdist]\nexclude = ["demo/data/"]\n'),
        ("pyproject.toml", '[tool.scikit-build]\nwheel.exclude = ["**.json"]\n'),
        ("pyproject.toml", '[tool.maturin]\nexclude = [{path = "demo/data/*", format = "wheel"}]\n'),
        ("pyproject.toml", '[tool.uv.build-backend]\nwheel-exclude = ["demo/data/**"]\n'),
        ("meson.build", "install_subdir('demo', exclude_files: ['data/table.json'])\n"),
        ("CMakeLists.txt", 'install(DIRECTORY demo DESTINATION . PATTERN "*.json" EXCLUDE)\n'),
    ],
)
def test_a_rule_of_the_project_leaves_it_out(tmp_path: Path, name: str, text: str) -> None:
    tree = tree_at(write(tmp_path / "source", {name: text, TABLE: "{}", "demo/kept.toml": ""}), {})
    is_left_out = left_out_by_rule(tree, "")
    assert is_left_out(TABLE, "data/table.json")
    assert not is_left_out("demo/kept.toml", "kept.toml")
