from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.config import loader
from ci_tools.model.evidence import Binding, Extensions, PythonApi, name_tag
from ci_tools.model.platforms import Platform
from ci_tools.model.versions import Python, parse_specifiers
from ci_tools.plan.wheel_names import find_false_tags
from ci_tools.source import backends
from ci_tools.source import files as source
from ci_tools.source.backends import CellFacts, select_binaries
from ci_tools.source.backends.facts import Read, explain_foreign
from ci_tools.source.project_file import ProjectFile
from tests.builders.sources import demo, world

NONE, SOME, UNKNOWN = Extensions.NONE, Extensions.SOME, Extensions.UNKNOWN
LINUX_CPU = Platform.LINUX_CPU
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


BUILDS = "[tool.py-build-cmake.cmake]\nbuild_type = 'Release'\n"
WHEEL = f"{BUILDS}[tool.py-build-cmake.wheel]\n"
ABI3 = f"{WHEEL}python_abi = 'abi3'\nabi3_minimum_cpython_version = 311\n"
NO_API = "python_abi = 'none'\npython_tag = ['py3']\n"


@pytest.mark.parametrize(
    ("settings", "python", "tag"),
    [
        pytest.param("", "3.12", "any", id="nothing-that-cmake-makes"),
        pytest.param("[tool.py-build-cmake.cmake]\n", "3.12", "any", id="an-empty-table"),
        pytest.param(BUILDS.replace(".cmake]", ".mac.cmake]"), "3.12", "any", id="cmake-on-another-system"),
        pytest.param(BUILDS.replace(".cmake]", ".linux.cmake]"), "3.12", "", id="cmake-on-this-one"),
        pytest.param(f"{WHEEL}pure_python = true\n", "3.12", "any", id="said-to-be-pure"),
        pytest.param(WHEEL + NO_API, "3.12", "py3-none", id="no-api"),
        pytest.param(f"{WHEEL}python_abi = 'none'\n", "3.12", "cp312-none", id="no-api-but-one-python"),
        pytest.param(f"{WHEEL}python_tag = ['auto', 'py3']\nabi_tag = 'none'\n", "3.12", "cp312.py3-none", id="two"),
        pytest.param(f"{BUILDS}[tool.py-build-cmake.linux.wheel]\n{NO_API}", "3.12", "py3-none", id="for-one-system"),
        pytest.param(f"{BUILDS}[tool.py-build-cmake.mac.wheel]\n{NO_API}", "3.12", "", id="for-another-system"),
        pytest.param(ABI3, "3.12", "cp311-abi3", id="limited"),
        pytest.param(ABI3, "3.10", "", id="older-than-its-floor"),
        pytest.param(ABI3, "3.13t", "", id="free-threaded"),
    ],
)
def test_py_build_cmake_tags_a_wheel_as_its_tables_say(tmp_path: Path, settings: str, python: str, tag: str) -> None:
    files = {"pyproject.toml": pyproject("py_build_cmake.build", settings), "CMakeLists.txt": "add_library(a a.c)\n"}
    found = backends.read(opened(tmp_path, dict(files)), {}, CELL._replace(python=Python.parse(python)))
    assert found is not None
    assert (found.extensions is NONE) == (tag == "any")
    own = found.python_api.kind is Binding.FULL and not found.python_api.tag
    assert tag == "any" or tag == ("" if own else name_tag(found.python_api))
    assert bool(found.python_api.mislabel) == ("abi3" in tag)  # no module is seen to ask for the limited API


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
        pytest.param("import py_build_cmake, pythran\n", UNKNOWN, id="with-compilers"),
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


WHEEL = "[tool.hatch.build.targets.wheel]\n"


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        pytest.param("demo/kernel.so", "", SOME, id="library-in-the-package"),
        pytest.param("src/demo/bin/weights.bin", "", SOME, id="library-by-another-name"),
        pytest.param("other/kernel.so", "", SOME, id="library-in-another-package"),
        pytest.param("assets/kernel.so", f"{WHEEL}force-include = {{'assets/kernel.so' = 'demo/k.so'}}\n", SOME,
                     id="library-by-its-path"),
        pytest.param("assets/kernel.so", "", NONE, id="library-beside-the-package"),
        pytest.param("demo/kernel.so", f"{WHEEL}exclude = ['*.so']\n", NONE, id="library-that-may-be-left-out"),
        pytest.param("tests/data/kernel.so", "", NONE, id="library-that-tests-read"),
        pytest.param("tests/data/kernel.so", f"{WHEEL}packages = ['tests']\n", SOME, id="tests-that-are-packed"),
    ],
)  # fmt: skip
def test_a_compiled_file_in_the_source_is_no_pure_wheel(
    tmp_path: Path, name: str, more: str, expected: Extensions
) -> None:
    files = {"pyproject.toml": pyproject("hatchling.build", more), "other/__init__.py": "", name: BINARY}
    found = backends.read(opened(tmp_path, files), {}, CELL)
    assert found is not None
    assert (found.extensions, found.where.startswith(f"{name}:1: a compiled file")) == (expected, expected is SOME)
    assert (found.ships, bool(found.python_api.mislabel)) == ((name,) * (expected is SOME), expected is SOME)
    assert ("the audit of it decides" in "".join(found.warnings)) == ("exclude" in more)


@pytest.mark.parametrize(
    "backend", ["hatchling.build", "pdm.backend", "poetry.core.masonry.api", "flit_core.buildapi", "uv_build"]
)
def test_the_tag_of_a_backend_that_knows_no_machine_is_not_true_of_a_library(tmp_path: Path, backend: str) -> None:
    content = pyproject(backend, 'requires-python = ">=3.10"\n')
    found = backends.read(opened(tmp_path, {"pyproject.toml": content, "demo/a.so": BINARY}), {}, CELL)
    assert found
    (problem,) = find_false_tags(LINUX_CPU, found.python_api, [CELL.python], parse_specifiers(">=3.10"))
    assert "pyproject.toml:2: linux-cpu: the wheel is tagged py3-none, though demo/a.so is compiled" in str(problem)
    assert "expected a tag for its machine, by a build hook" in str(problem)


def test_a_wheel_that_is_tagged_for_its_machine_ships_what_is_for_that_machine(tmp_path: Path) -> None:
    content = pyproject("pdm.backend", "[tool.pdm.build]\nis-purelib = false\n")
    found = backends.read(opened(tmp_path, {"pyproject.toml": content, "demo/a.so": BINARY}), {}, CELL)
    assert found
    assert (found.extensions, found.ships, found.python_api.mislabel) == (UNKNOWN, ("demo/a.so",), None)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        pytest.param("build_data['tag'] = f'py3-none-{platform}'", Binding.NONE, id="for-every-python"),
        pytest.param('    build_data["tag"] = "py2.py3-none-win_amd64"', Binding.NONE, id="for-python-2-too"),
        pytest.param("build_data['tag'] = f'cp39-abi3-{platform}'", Binding.STABLE, id="for-the-limited-api"),
        pytest.param("build_data['tag'] = 'py3-none-any'\nbuild_data['tag'] = tag", Binding.FULL, id="or-another"),
        pytest.param("build_data['tag'] = f'cp{major}{minor}-{abi}-{platform}'", Binding.FULL, id="computed"),
        pytest.param("# build_data['tag'] = 'py3-none-any'", Binding.FULL, id="in-a-comment"),
    ],
)
def test_the_tag_that_a_hook_writes_is_foretold(tmp_path: Path, line: str, kind: Binding) -> None:
    content = pyproject("hatchling.build", "[tool.hatch.build.hooks.custom]\n")
    own = line.strip().replace("\n", "\n    ")
    hook = f"import hatchling\nif platform:\n    pass\nif pure:\n    {own}\n    tag = 1\n"
    found = backends.read(opened(tmp_path, {"pyproject.toml": content, "hatch_build.py": hook}), {}, CELL)
    assert found
    assert (found.python_api.kind, found.extensions is SOME) == (kind, kind is not Binding.FULL)


@pytest.mark.parametrize(
    ("lines", "served"),
    [
        pytest.param("'cp39-abi3-manylinux_2_28_x86_64'", "linux-cpu", id="one"),
        pytest.param("'py3-none-macosx_11_0_universal2'", "macos-arm64", id="both-machines-of-macos"),
        pytest.param("'py3-none-linux_aarch64' 'py3-none-win_amd64'", "linux-aarch64 windows", id="two"),
        pytest.param("'py3-none-win_amd64' f'py3-none-{machine}'", "", id="and-one-that-is-computed"),
    ],
)
def test_a_platform_that_a_hook_writes_is_the_only_one_served(tmp_path: Path, lines: str, served: str) -> None:
    content = pyproject("hatchling.build", "[tool.hatch.build.hooks.custom]\n")
    hook = "".join(f"if x:\n    build_data['tag'] = {line}\n" for line in lines.split())
    own = opened(tmp_path, {"pyproject.toml": content, "hatch_build.py": f"import hatchling\n{hook}"})
    found = backends.read(own, {}, CELL)
    assert found
    every = [Platform(name) for name in ("linux-cpu", "linux-aarch64", "macos-arm64", "windows")]
    foreign = {one: explain_foreign(own.tree, found, catalog.load().platforms[one]) for one in every}
    assert [one for one in every if not foreign[one]] == (served.split() or every)


@pytest.mark.parametrize(
    ("ships", "os", "is_foreign"),
    [
        pytest.param(("a.so",), "linux", False, id="its-own"),
        pytest.param(("a.so",), "windows", True, id="of-another-system"),
        pytest.param(("a.so", "b.bin"), "windows", False, id="beside-one-of-no-system"),
        pytest.param((), "windows", False, id="none"),
    ],
)
def test_a_wheel_is_of_no_use_where_none_of_its_libraries_is(
    tmp_path: Path, ships: tuple[str, ...], os: str, *, is_foreign: bool
) -> None:
    tree = opened(tmp_path, {"a.so": BINARY, "b.bin": b"data"}).tree
    facts = catalog.load().platforms[LINUX_CPU]._replace(os=os)
    found = Read(SOME, "", PythonApi(Binding.FULL, ""), ships=ships)
    assert bool(explain_foreign(tree, found, facts)) == is_foreign


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
