"""The version that a backend takes from another file: read where it is plainly stated, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.source.files import tree_at
from ci_tools.source.project_file import ProjectFile
from ci_tools.source.versions import read_file_version
from tests.builders.sources import CONFIG, request_of, write

DYNAMIC = "[tool.setuptools.dynamic]\nversion = "
HATCH = "[tool.hatch.version]\n"
PDM = "[tool.pdm.version]\n"
SCIKIT = "[tool.scikit-build.metadata.version]\n"
SHARED = '[package]\nversion.workspace = true\n[workspace.package]\nversion = "0.3.1"\n'
REGEX = 'provider = "scikit_build_core.metadata.regex"\n'


@pytest.mark.parametrize(
    ("backend", "more", "file", "content", "expected"),
    [
        pytest.param("mesonpy", "", "meson.build", "project('a', 'c',\n  version: '3.0.1')\n", "3.0.1", id="meson"),
        pytest.param("mesonpy", "", "meson.build", "project('a', version: files('V'))", "", id="meson-from-a-file"),
        pytest.param("mesonpy", "", "meson.build", "project('a', version: '1.' + '2')", "", id="meson-that-computes"),
        pytest.param("mesonpy", "", "meson.build", "# project('a', version: '1')", "", id="meson-in-a-comment"),
        pytest.param("maturin", "", "Cargo.toml", '[package]\nversion = "0.2.0"\n', "0.2.0", id="cargo"),
        pytest.param("maturin", "", "Cargo.toml", '[package]\nversion = "0.2.0-rc.1"\n', "0.2.0-rc.1", id="cargo-rc"),
        pytest.param("maturin", "", "Cargo.toml", "[package]\nversion.workspace = true\n", "", id="cargo-no-workspace"),
        pytest.param("maturin", "", "Cargo.toml", SHARED, "0.3.1", id="cargo-workspace"),
        pytest.param("maturin", "[tool.maturin]\nmanifest-path = 'py/Cargo.toml'", "Cargo.toml", "", "",
                     id="cargo-elsewhere"),
        pytest.param("maturin", "", "rust/Cargo.toml", '[package]\nversion = "4"\n', "4", id="cargo-in-rust"),
        pytest.param("hatchling.build", f'{HATCH}path = "a.py"\n', "a.py", '__version__: str = "v1.2"\n', "1.2",
                     id="hatch"),
        pytest.param("hatchling.build", f'{HATCH}path = "a.py"\npattern = "x"\n', "a.py", '__version__ = "1"\n', "",
                     id="hatch-by-a-pattern-of-its-own"),
        pytest.param("hatchling.build", f'{HATCH}source = "vcs"\n', "a.py", '__version__ = "1"\n', "", id="hatch-vcs"),
        pytest.param("pdm.backend", f'{PDM}source = "file"\npath = "a.py"\n', "a.py", "VERSION = '2'\n", "2", id="pdm"),
        pytest.param("scikit_build_core.build", f'{SCIKIT}{REGEX}input = "a.py"\n', "a.py", "__version__ = '2'\n", "2",
                     id="scikit-build-core"),
        pytest.param("flit_core.buildapi", "", "src/demo/__init__.py", '"""A demo."""\n__version__ = "4.5"\n', "4.5",
                     id="flit"),
        pytest.param("flit_core.buildapi", "", "demo.py", "__version__ = find()\n", "", id="flit-that-asks"),
        pytest.param("poetry.core.masonry.api", '[tool.poetry]\nversion = "7"\n', "a", "", "7", id="poetry"),
        pytest.param("setuptools.build_meta", "", "demo.py", '__version__ = "1"\n', "", id="setuptools-is-observed"),
        pytest.param("setuptools.build_meta", f'{DYNAMIC}{{ attr = "demo.v.__version__" }}\n', "src/demo/v.py",
                     '__version__ = "0.4"\n', "0.4", id="setuptools-by-an-attribute"),
        pytest.param("setuptools.build_meta", f'{DYNAMIC}{{ attr = "demo.v.__version__" }}\n', "demo/v.py",
                     "__version__ = find()\n", "", id="setuptools-by-an-attribute-that-asks"),
        pytest.param("setuptools.build_meta", "", "setup.py", 'setup(name="a", version="0.2")', "0.2", id="setup-py"),
        pytest.param("setuptools.build_meta", "", "setup.py", 'V = "2.1"\nsetuptools.setup(version=V)', "2.1",
                     id="setup-py-by-a-name"),
        pytest.param("setuptools.build_meta", "", "setup.py", 'V = "2"\nif x: V += "1"\nsetup(version=V)', "",
                     id="setup-py-that-changes-it"),
        pytest.param("setuptools.build_meta", "", "setup.py", "setup(version=find())", "", id="setup-py-that-asks"),
        pytest.param("setuptools.build_meta", "", "setup.py", "if x: setup(version='1')\nelse: setup(version='2')", "",
                     id="setup-py-with-two"),
        pytest.param("setuptools.build_meta", "", "setup.py", "setup(version='1'", "", id="setup-py-that-is-broken"),
        pytest.param("setuptools.build_meta", "", "setup.py", f"setup{'.x' * 400}(version='1')", "", id="setup-deep"),
        pytest.param("setuptools.build_meta", "", "setup.py", "[" * 9000, "", id="setup-py-deeper-than-python-reads"),
        pytest.param("setuptools.build_meta", "", "setup.py", "1if x else y\n", "", id="setup-py-python-warns-of"),
        pytest.param("mesonpy", "", "meson.build", "project('a', version: 'one')", "", id="no-version"),
    ],
)  # fmt: skip
def test_a_version_in_another_file(
    tmp_path: Path, backend: str, more: str, file: str, content: str, expected: str
) -> None:
    project = f'[build-system]\nbuild-backend = "{backend}"\n[project]\nname = "demo"\ndynamic = ["version"]\n{more}'
    write(tmp_path, {"pyproject.toml": project, "fatwheel.yml": CONFIG, file: content})
    assert read_file_version(ProjectFile(request_of(tmp_path), tree_at(tmp_path, {}))) == expected


@pytest.mark.parametrize(
    ("script", "name"), [("setup(name='d')", "d"), ("N = 'e'\nsetup(name=N)", "e"), ("setup(name=find())", "")]
)
def test_a_name_that_no_build_has_said_is_the_one_that_setup_py_gives(tmp_path: Path, script: str, name: str) -> None:
    write(tmp_path, {"fatwheel.yml": CONFIG, "setup.py": script})
    project = ProjectFile(request_of(tmp_path), tree_at(tmp_path, {}))
    assert (project.own_name(""), project.own_name("seen")) == (name, "seen")


@pytest.mark.parametrize(
    ("backend", "file", "text"),
    [
        pytest.param("maturin", "Cargo.toml", '[package]\nname = "d"\nversion = "1"\n', id="cargo"),
        pytest.param("poetry.core.masonry.api", "pyproject.toml", '[tool.poetry]\nname = "d"\n', id="poetry"),
    ],
)
def test_a_name_without_a_project_table_is_the_one_that_the_backend_reads(
    backend: str, file: str, text: str, tmp_path: Path
) -> None:
    system = f'[build-system]\nbuild-backend = "{backend}"\n'
    files = {"pyproject.toml": system, file: f"{system if file == 'pyproject.toml' else ''}{text}"}
    write(tmp_path, {"fatwheel.yml": CONFIG, **files})
    assert ProjectFile(request_of(tmp_path), tree_at(tmp_path, {})).own_name("") == "d"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param("^3.12", "<4,>=3.12", id="caret"),
        pytest.param("~3.12", "~=3.12.0", id="tilde"),
        pytest.param(">=3.11,<3.14", "<3.14,>=3.11", id="as-pep-440"),
        pytest.param("^2.7 || ^3.12", "", id="alternatives"),
        pytest.param("*", "", id="any"),
    ],
)
def test_the_pythons_of_poetrys_own_table_are_those_of_the_project(said: str, expected: str, tmp_path: Path) -> None:
    system = '[build-system]\nbuild-backend = "poetry.core.masonry.api"\n'
    project = f'{system}[tool.poetry.dependencies]\npython = "{said}"\n'
    write(tmp_path, {"fatwheel.yml": CONFIG, "pyproject.toml": project})
    pythons, where = ProjectFile(request_of(tmp_path), tree_at(tmp_path, {})).own_pythons({})
    assert (pythons, str(where)) == (expected, "pyproject.toml:4")
