from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.config import loader
from ci_tools.model.evidence import Binding, Extensions
from ci_tools.model.versions import Python
from ci_tools.source import backends
from ci_tools.source import files as source
from ci_tools.source.backends import CellFacts, select_binaries
from ci_tools.source.project_file import ProjectFile
from tests.builders.sources import demo, world

NONE, SOME, UNKNOWN = Extensions.NONE, Extensions.SOME, Extensions.UNKNOWN
CELL = CellFacts("linux", "x86_64", Python.parse("3.12"))
HOOK = "[tool.hatch.build.targets.wheel.hooks.mypyc]\nenable-by-default = false\n"
JUPYTER = "[tool.hatch.build.hooks.jupyter-builder]\n"
PACKS = "from packer import run\ndef initialize(self, version, build_data):\n    {}\n"
BINARY = Path(sys.executable).read_bytes()[:4096]  # a real program of this machine


def opened(folder: Path, files: dict[str, str | bytes]) -> ProjectFile:
    request = loader.load(demo(folder / "a", files) / "fatwheel.yml", catalog.load())
    return ProjectFile(request, source.open_tree(request, folder / "a", world(folder)))


def pyproject(backend: str, more: str = "", requires: str = "") -> str:
    requirements = f'requires = ["{requires}"]\n' if requires else ""
    return f'[build-system]\nbuild-backend = "{backend}"\n{requirements}[project]\nname = "demo"\nversion = "1"\n{more}'


@pytest.mark.parametrize(
    ("content", "env", "expected", "where"),
    [
        pytest.param(pyproject("flit_core.buildapi"), {}, NONE, "pyproject.toml:2: flit_core.buildapi", id="flit"),
        pytest.param(pyproject("flit_core.buildapi", requires="cython"), {}, NONE, "", id="flit-has-no-plugins"),
        pytest.param(pyproject("uv_build"), {}, NONE, "", id="uv"),
        pytest.param(pyproject("poetry.core.masonry.api", requires="numpy"), {}, NONE, "", id="poetry-has-no-plugins"),
        pytest.param(pyproject("poetry_dynamic_versioning.backend"), {}, NONE, "", id="poetry-with-a-version-from-git"),
        pytest.param(
            pyproject("poetry.core.masonry.api", "[tool.poetry.build]\nscript = 'b.py'\n"),
            {},
            UNKNOWN,
            "pyproject.toml:6: poetry.core.masonry.api runs the project's own code",
            id="poetry-with-a-script",
        ),
        pytest.param(pyproject("hatchling.build"), {}, NONE, "", id="hatchling"),
        pytest.param(
            pyproject("hatchling.build", "[tool.hatch.build.hooks.vcs]\nversion-file = 'v.py'\n"),
            {},
            NONE,
            "",
            id="hook-that-writes-the-version",
        ),
        pytest.param(
            pyproject("hatchling.build", "[tool.hatch.build.hooks.custom]\n"),
            {},
            UNKNOWN,
            "pyproject.toml:6: hatchling.build runs the project's own code",
            id="hook-of-the-project",
        ),
        pytest.param(pyproject("hatchling.build", HOOK), {}, NONE, "", id="hook-that-is-off"),
        pytest.param(
            pyproject("hatchling.build", HOOK),
            {"HATCH_BUILD_HOOKS_ENABLE": "1"},
            UNKNOWN,
            "pyproject.toml:6: ",
            id="hook-that-a-variable-turns-on",
        ),
        pytest.param(
            pyproject("hatchling.build", HOOK),
            {"HATCH_BUILD_HOOK_ENABLE_MYPYC": "true"},
            UNKNOWN,
            "",
            id="hook-that-its-own-variable-turns-on",
        ),
        pytest.param(
            pyproject("hatchling.build", "[tool.hatch.build.hooks.custom]\n"),
            {"HATCH_BUILD_NO_HOOKS": "1"},
            NONE,
            "",
            id="no-hooks-by-a-variable",
        ),
        pytest.param(
            pyproject("hatchling.build", requires="hatch-cython"), {}, NONE, "", id="plugin-that-is-not-named"
        ),
        pytest.param(
            pyproject("hatchling.build", "[tool.hatch.build.hooks.cython]\n", "hatch-cython"),
            {},
            UNKNOWN,
            "pyproject.toml:7: ",
            id="plugin-that-is-named",
        ),
        pytest.param(
            pyproject("hatchling.build", f"{JUPYTER}build-function = 'hatch_jupyter_builder.npm_builder'\n"),
            {},
            NONE,
            "",
            id="hook-that-packs-javascript",
        ),
        pytest.param(
            pyproject("hatchling.build", f"{JUPYTER}build-function = 'demo.build'\n"),
            {},
            UNKNOWN,
            "",
            id="hook-that-calls-the-project",
        ),
        pytest.param(
            pyproject("pdm.backend", requires="pdm-backend-cython"),
            {},
            UNKNOWN,
            "pyproject.toml:3: what pdm-backend-cython adds to pdm is not known",
            id="pdm-plugin",
        ),
        pytest.param(
            pyproject("pdm.backend", "[tool.pdm.build]\nis-purelib = false\n"),
            {},
            UNKNOWN,
            "pyproject.toml:7: the wheel is tagged for the machine",
            id="pdm-for-one-machine",
        ),
        pytest.param(
            pyproject("pdm.backend", "[tool.pdm.build]\nrun-setuptools = true\n"),
            {},
            SOME,
            "pyproject.toml:7: ",
            id="pdm-with-setuptools",
        ),
    ],
)
def test_what_compiles_nothing_is_told_from_what_may(
    tmp_path: Path, content: str, env: dict[str, str], expected: Extensions, where: str
) -> None:
    found = backends.read(opened(tmp_path, {"pyproject.toml": content}), env, CELL)
    assert found is not None
    assert (found.extensions, found.where[: len(where)]) == (expected, where)
    assert found.python_api.kind is Binding.FULL


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("import subprocess\nsubprocess.run(['npm', 'run', 'build'])\n", NONE, id="that-runs-programs"),
        pytest.param("from hatchling.builders.hooks.plugin.interface import BuildHookInterface\n", NONE, id="of-hatch"),
        pytest.param("build_data['infer_tag'] = stage\n", UNKNOWN, id="that-infers-a-tag"),
        pytest.param("build_data.update(tag=name)\n", UNKNOWN, id="that-gives-a-tag"),
        pytest.param("context.builder.config_settings['--plat-name'] = 'x'\n", UNKNOWN, id="that-names-a-platform"),
        pytest.param(PACKS.format("run(self.root)"), NONE, id="with-code-of-others-that-gets-no-data"),
        pytest.param(PACKS.format("run(build_data)"), UNKNOWN, id="with-code-of-others-that-gets-the-data"),
        pytest.param("import packer\nclass Hook(packer.Base):\n    pass\n", UNKNOWN, id="that-is-a-class-of-others"),
        pytest.param("from mypyc.build import mypycify\n", UNKNOWN, id="with-code-of-others"),
        pytest.param("from .tools import build\n", UNKNOWN, id="with-a-module-beside-it"),
        pytest.param("exec(open('more.py').read())\n", UNKNOWN, id="with-a-script-of-another-name"),
        pytest.param("def broken(:\n", UNKNOWN, id="that-is-not-python"),
    ],
)
@pytest.mark.parametrize(
    ("backend", "settings", "name"),
    [
        pytest.param("hatchling.build", "[tool.hatch.build.hooks.custom]\n", "hatch_build.py", id="hatch"),
        pytest.param("hatchling.build", "[tool.hatch.build.targets.wheel.hooks.custom]\npath = 'b.py'\n", "b.py",
                     id="hatch-by-name"),
        pytest.param("pdm.backend", "", "pdm_build.py", id="pdm"),
        pytest.param("pdm.backend", "[tool.pdm.build]\ncustom-hook = 'b.py'\n", "b.py", id="pdm-by-name"),
    ],
)  # fmt: skip
def test_a_script_that_sets_no_tag_leaves_the_wheel_pure(
    tmp_path: Path, backend: str, settings: str, name: str, script: str, expected: Extensions
) -> None:
    found = backends.read(opened(tmp_path, {"pyproject.toml": pyproject(backend, settings), name: script}), {}, CELL)
    assert found is not None
    assert (found.extensions, f"runs {name}, which sets no tag" in found.where) == (expected, expected is NONE)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(pyproject("setuptools.build_meta"), id="setuptools"),
        pytest.param("[project]\nname = 'demo'\nversion = '1'\n", id="no-backend-named"),
        pytest.param(
            pyproject("hatchling.build").replace("[project]", "backend-path = ['.']\n[project]"), id="in-tree"
        ),
    ],
)
def test_what_only_code_tells_is_left_to_it(tmp_path: Path, content: str) -> None:
    assert backends.read(opened(tmp_path, {"pyproject.toml": content}), {}, CELL) is None


def test_hooks_of_hatch_toml_count(tmp_path: Path) -> None:
    files = {"pyproject.toml": pyproject("hatchling.build"), "hatch.toml": "[build.hooks.vcs]\n[build.hooks.cmake]\n"}
    found = backends.read(opened(tmp_path, dict(files)), {}, CELL)
    assert found is not None
    assert (found.extensions, found.where.partition(" ")[0]) == (UNKNOWN, "hatch.toml:2:")


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        pytest.param("demo/kernel.so", "", UNKNOWN, id="library-in-the-package"),
        pytest.param("demo/weights.bin", "", UNKNOWN, id="library-by-another-name"),
        pytest.param("tests/data/kernel.so", "", NONE, id="library-that-tests-read"),
        pytest.param(
            "tests/data/kernel.so",
            "[tool.hatch.build.targets.wheel]\npackages = ['tests']\n",
            UNKNOWN,
            id="tests-that-are-packed",
        ),
    ],
)
def test_a_compiled_file_in_the_source_is_no_pure_wheel(
    tmp_path: Path, name: str, more: str, expected: Extensions
) -> None:
    project = opened(tmp_path, {"pyproject.toml": pyproject("hatchling.build", more), name: BINARY})
    found = backends.read(project, {}, CELL)
    assert found is not None
    assert (found.extensions, found.where.startswith(f"{name}:1: a compiled file")) == (expected, expected is UNKNOWN)


def test_what_an_sdist_alone_is_told_to_hold_is_not_packed(tmp_path: Path) -> None:
    content = pyproject("flit_core.buildapi", "[tool.flit.sdist]\ninclude = ['tests/']\n")
    found = backends.read(opened(tmp_path, {"pyproject.toml": content, "tests/a.so": BINARY}), {}, CELL)
    assert found is not None
    assert found.extensions is NONE


def test_compiled_files_are_those_below_the_project(tmp_path: Path) -> None:
    tree = opened(tmp_path, {"one/a.so": BINARY, "two/b.so": BINARY, "one/c.so": "not one"}).tree
    assert [*select_binaries(tree, "one")] == ["one/a.so"]


PYTHON_2 = ("", ">=2.7", "!=3.0.*", "<4")
PYTHON_3 = ("==3.11.9", "~=3.9", ">3", ">=3,<4", "==3.*")


@pytest.mark.parametrize(
    ("backend", "with_python_2"),
    [
        pytest.param("flit_core.buildapi", True, id="flit"),
        pytest.param("hatchling.build", True, id="hatchling"),
        pytest.param("pdm.backend", True, id="pdm"),
        pytest.param("poetry.core.masonry.api", True, id="poetry"),
        pytest.param("uv_build", False, id="uv"),
    ],
)
def test_a_pure_wheel_is_foretold_as_its_backend_tags_it(tmp_path: Path, backend: str, *, with_python_2: bool) -> None:
    for number, said in enumerate((*PYTHON_2, *PYTHON_3)):
        content = pyproject(backend, f'requires-python = "{said}"\n' if said else "")
        tag = tag_of(tmp_path / str(number), content)
        assert tag == ("py2.py3" if with_python_2 and said in PYTHON_2 else "py3"), said


@pytest.mark.parametrize(
    ("backend", "more", "expected"),
    [
        pytest.param("poetry.core.masonry.api", "[tool.poetry.dependencies]\npython = '^3.10'\n", "py3", id="poetry"),
        pytest.param("poetry.core.masonry.api", "[tool.poetry.dependencies]\npython = '~2.7 || ^3.10'\n", "py2.py3",
                     id="poetry-with-2"),
        pytest.param("flit_core.buildapi", "[tool.flit.metadata]\nrequires-python = '>=3.10'\n", "py3", id="flit"),
    ],
)  # fmt: skip
def test_a_backend_s_own_table_says_which_pythons(tmp_path: Path, backend: str, more: str, expected: str) -> None:
    assert tag_of(tmp_path, pyproject(backend, more)) == expected


def tag_of(folder: Path, content: str) -> str:
    read = backends.read(opened(folder, {"pyproject.toml": content}), {}, CELL)
    assert read
    return read.pure_tag
