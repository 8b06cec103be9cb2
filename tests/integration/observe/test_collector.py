"""What the builds of setuptools and other backends compile, as evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.model.evidence import Extensions
from tests.builders.sources import demo, evidence_of, write
from tests.unit.observe.test_collector import CONFIG, NAMED, NONE, SCIKIT, SOME, UNKNOWN, backend, found

pytestmark = pytest.mark.slow


SETUPTOOLS = f'[build-system]\nbuild-backend = "setuptools.build_meta"\nrequires = ["setuptools>=77"]\n{NAMED}'


def unless(condition: str) -> str:
    """Return a pyproject.toml that compiles nothing unless a condition of scikit-build-core's holds."""
    return f"{SCIKIT}wheel.cmake = false\n[[tool.scikit-build.overrides]]\n{condition}\nwheel.cmake = true\n"


@pytest.mark.parametrize(
    ("pyproject", "files", "expected", "where"),
    [
        pytest.param(backend("flit_core.buildapi"), {}, NONE, "pyproject.toml:2: flit_core.buildapi compiles nothing",
                     id="flit"),
        pytest.param(backend("uv_build"), {}, NONE, "pyproject.toml:2: ", id="uv"),
        pytest.param(backend("hatchling.build"), {}, NONE, "pyproject.toml:2: ", id="hatchling"),
        pytest.param(backend("hatchling.build", "[tool.hatch.build.hooks.cmake]\n"), {}, UNKNOWN, "",
                     id="hatchling-with-a-plugin"),
        pytest.param(backend("hatchling.build"), {"hatch.toml": "[build.hooks.custom]\n"}, UNKNOWN, "hatch.toml:1: ",
                     id="hatchling-with-a-file-of-its-own"),
        pytest.param(backend("poetry.core.masonry.api"), {}, NONE, "pyproject.toml:2: ", id="poetry"),
        pytest.param(backend("poetry.core.masonry.api", '[tool.poetry]\nbuild = "build.py"\n'), {}, UNKNOWN,
                     "pyproject.toml:7: ", id="poetry-with-a-script"),
        pytest.param(backend("pdm.backend"), {}, NONE, "pyproject.toml:2: ", id="pdm"),
        pytest.param(backend("pdm.backend"), {"pdm_build.py": ""}, UNKNOWN, "pdm_build.py:1: ", id="pdm-with-a-hook"),
        pytest.param(backend("pdm.backend", "[tool.pdm.build]\nrun-setuptools = true\n"), {}, SOME,
                     "pyproject.toml:7: ", id="pdm-with-setuptools"),
        pytest.param(backend("pdm.backend").replace("\n", '\nrequires = ["pdm.backend", "wheel"]\n', 1), {}, NONE,
                     "pyproject.toml:3: ", id="pdm-with-what-is-known"),
        pytest.param(backend("maturin"), {}, SOME, "pyproject.toml:2: maturin compiles", id="maturin"),
        pytest.param(backend("my_backend"), {"a.c": ""}, UNKNOWN,
                     "pyproject.toml:2: what my_backend compiles is not known, beside a.c", id="unknown-backend"),
        # scikit-build-core
        pytest.param(SCIKIT, {}, SOME, "pyproject.toml:1: wheel.cmake = true", id="cmake"),
        pytest.param(f"{SCIKIT}wheel.cmake = false", {}, NONE, "pyproject.toml:7: wheel.cmake = false", id="no-cmake"),
        pytest.param(unless("if.env.FAST = true"), {}, SOME,
                     "pyproject.toml:8: wheel.cmake = true with the platform's env", id="cmake-by-the-platform's-env"),
        pytest.param(unless("if.env.BUILD = true"), {}, SOME, "pyproject.toml:8: ",
                     id="cmake-by-the-build's-env"),
        pytest.param(unless("if.env.SLOW = true"), {}, NONE, "pyproject.toml:7: ",
                     id="no-cmake-for-0"),
        pytest.param(unless("if.env.OTHER = true"), {}, NONE, "pyproject.toml:7: ",
                     id="no-cmake-for-what-is-not-set"),
        pytest.param(unless("if.env.OTHER = false"), {}, SOME, "pyproject.toml:8: ",
                     id="cmake-for-what-is-not-set"),
        pytest.param(unless('if.env.FAST = "^[1-3]$"'), {}, SOME,
                     "pyproject.toml:8: ", id="cmake-by-a-pattern"),
        pytest.param(unless('if.env.OTHER = ".*"'), {}, NONE, "pyproject.toml:7: ",
                     id="a-pattern-needs-a-value"),
        pytest.param(unless('if.env.FAST = "("'), {}, UNKNOWN, "pyproject.toml:7: ",
                     id="a-broken-pattern"),
        pytest.param(unless("if.any.env = {A = true, FAST = true}"), {}, SOME,
                     "pyproject.toml:8: ", id="any-of-two-holds"),
        pytest.param(unless("if.any.env = {A = true, B = true}"), {}, NONE,
                     "pyproject.toml:7: ", id="any-of-two-does-not-hold"),
        pytest.param(unless("if.env.CUDA_HOME = true"), {}, UNKNOWN,
                     "pyproject.toml:7: ", id="override-by-what-a-job-sets"),
        pytest.param(unless('if.env.HOME = "/root"'), {}, UNKNOWN,
                     "pyproject.toml:7: ", id="override-by-what-a-machine-sets"),
        pytest.param(unless("if.env.A = true").replace("false", "false\nenv.A = '1'"), {}, UNKNOWN,
                     "pyproject.toml:7: ", id="override-by-what-the-project-sets"),
        pytest.param(f"{SCIKIT}wheel.cmake = true\n[[tool.scikit-build.overrides]]\nif.state = 'x'\nsdist.a = 1\n",
                     {}, SOME, "pyproject.toml:7: wheel.cmake = true", id="override-of-something-else"),
        # setuptools
        pytest.param(SETUPTOOLS, {}, NONE, "observed by running setup.py: compiles nothing; its wheel has 1 file",
                     id="no-setup.py"),
        pytest.param("", {"setup.py": "import setuptools\nsetuptools.setup(name='demo', version='1.0')\n",
                          "setup.cfg": "[metadata]\nversion = 1.0\n"}, NONE, "observed by running setup.py: ",
                     id="no-pyproject.toml"),
        pytest.param(SETUPTOOLS, {"setup.py": "from setuptools import Extension as E, setup\nsetup(ext_modules=[E('a', "
                                  "['a.c', 'b.c']), E('b', ['b.c'])])\n", "a.c": "", "b.c": ""}, SOME,
                     "observed by running setup.py: compiles 3 files into a and 1 more", id="extensions"),
        pytest.param(f"{SETUPTOOLS}[tool.setuptools]\next-modules = [{{name = 'x', sources = ['x.c']}}]\n",
                     {"x.c": ""}, SOME, "observed by running setup.py: compiles 1 file into x",
                     id="ext-modules-in-pyproject"),
        pytest.param(SETUPTOOLS, {"setup.py": "from setuptools import setup\nsetup(\n  (\n"}, UNKNOWN,
                     "setup.py:3: SyntaxError: ", id="broken-setup.py"),
        pytest.param(SETUPTOOLS, {"setup.py": "x = 1\n"}, UNKNOWN, "", id="no-setup"),
        pytest.param(SETUPTOOLS.replace("77", '77", "setuptools-secret'), {}, UNKNOWN,
                     "pyproject.toml:3: what setuptools-secret adds to setuptools is not known", id="plugin"),
        pytest.param(SETUPTOOLS.replace("77", '77", "coherent.licensed'), {"tests/a.c": ""}, NONE,
                     "observed by running setup.py: ", id="plugin-with-nothing-to-compile"),
        pytest.param(SETUPTOOLS.replace("setuptools>=77", "setuptools_scm[toml]>=8"), {}, NONE,
                     "observed by running setup.py: ", id="harmless-plugin"),
    ],
)  # fmt: skip
def test_what_a_backend_compiles(
    tmp_path: Path, pyproject: str, files: dict[str, str], expected: Extensions, where: str
) -> None:
    platform = found(tmp_path, {"pyproject.toml": pyproject, **files})
    assert (platform.extensions, platform.extensions_where[: len(where)]) == (expected, where)


def extensions(*texts: str) -> dict[str, str]:
    """Return a project of setuptools with those extensions."""
    setup = f"from setuptools import Extension as E, setup\nsetup(ext_modules=[{', '.join(texts)}])\n"
    sources = {"c/a.c": "", "c/a.cpp": "#include <torch/extension.h>\n"}
    return {"pyproject.toml": SETUPTOOLS, "setup.py": setup, **sources}


def test_two_sources_of_one_stem_overwrite_each_other(tmp_path: Path) -> None:
    platform = found(tmp_path, extensions("E('a', ['c/a.cpp', 'c/a.c'])"))
    said = "LinkError: c/a.c and c/a.cpp would be compiled into one object, a.o, and linked twice"
    assert platform.unsupported == f"{said} (observed by running setup.py)"


def test_two_libraries_may_each_have_a_source_of_one_stem(tmp_path: Path) -> None:
    platform = found(tmp_path, extensions("E('a', ['c/a.cpp'])", "E('b', ['c/a.c'])"))
    assert [[one.source for one in built.compiles] for built in platform.built] == [["c/a.cpp"], ["c/a.c"]]
    assert platform.torch_abi.uses_torch


def test_a_file_that_git_ignores_is_no_evidence(tmp_path: Path) -> None:
    folder = demo(
        tmp_path / "a", {"fatwheel.yml": CONFIG.replace("platforms", "source: {include: ['*.toml']}\nplatforms")}
    )
    write(folder, {"pyproject.toml": SETUPTOOLS, "setup.py": "from setuptools import setup\nsetup(ext_modules=[])\n"})
    assert evidence_of(folder).platforms[0].shown.extensions is NONE


def test_setup_cfg_says_it_as_well(tmp_path: Path) -> None:
    config = "[metadata]\nname = demo\nversion = 1.5\n[options]\npython_requires = >=3.11\n"
    files = {"pyproject.toml": "", "setup.cfg": config, "x/setup.py": ""}
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="neither"):
        evidence_of(demo(tmp_path / "a", files))
    facts = evidence_of(demo(tmp_path / "a", {**files, "setup.py": "#"})).project
    assert (facts.name, facts.version, facts.requires_python) == ("demo", "1.5", ">=3.11")
    assert facts.where == "setup.cfg:5"


def test_setup_py_says_its_name_version_and_pythons_when_it_runs(tmp_path: Path) -> None:
    script = (
        "from setuptools import *\nv = '.'.join('25')\nsetup(name='demo', version=v, python_requires='>=3.' + '11')\n"
    )
    project = evidence_of(demo(tmp_path / "a", {"pyproject.toml": "", "setup.py": script})).project
    assert (project.name, project.version, project.requires_python) == ("demo", "2.5", ">=3.11")
    assert project.where == "setup.py:1"
