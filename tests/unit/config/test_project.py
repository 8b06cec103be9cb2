"""Which folders of a source are packages, and which one a config is for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools.config.project import choose_package, find_packages, names_outside
from ci_tools.errors import InputError
from ci_tools.source.files import tree_at
from tests.builders.sources import committed, write

NAMED = '[project]\nname = "NAME"\n'
TWO = {"a/pyproject.toml": NAMED.replace("NAME", "acme-one"), "b/setup.py": ""}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"pyproject.toml": NAMED}, ["NAME"], id="the-root"),
        pytest.param({"setup.py": ""}, ["."], id="a-setup.py-tells-no-name"),
        pytest.param({"pyproject.toml": "[build-system]\n"}, ["."], id="a-build-system-alone"),
        pytest.param({"pyproject.toml": "[tool.ruff]\n", **TWO}, ["acme-one", "b"], id="a-root-of-settings-is-none"),
        pytest.param({"pyproject.toml": NAMED, **TWO}, ["NAME", "acme-one", "b"], id="the-root-comes-first"),
        pytest.param({**TWO, "tests/pyproject.toml": NAMED, "a/Examples/setup.py": ""}, ["acme-one", "b"],
                     id="samples-and-tests-are-not-released"),
        pytest.param({"examples/pyproject.toml": NAMED}, ["NAME"], id="unless-there-is-nothing-else"),
        pytest.param({"pyproject.toml": f"{NAMED}[tool.uv]\npackage = false\n", **TWO}, ["acme-one", "b"], id="uv"),
        pytest.param({"pyproject.toml": f"{NAMED}[tool.poetry]\npackage-mode = false\n"}, ["NAME"], id="only-poetrys"),
        pytest.param({"README": ""}, [], id="none"),
    ],
)  # fmt: skip
def test_what_the_packages_of_a_source_are(tmp_path: Path, files: dict[str, str], expected: list[str]) -> None:
    assert list(map(str, find_packages(tree_at(write(tmp_path, files), {})))) == expected


def test_a_submodule_is_no_package_of_its_repository(tmp_path: Path) -> None:
    committed(write(tmp_path / "binder", TWO))
    committed(tmp_path)
    assert find_packages(tree_at(tmp_path, {})) == ()


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        pytest.param("Cargo.toml", "[package]\nversion.workspace = true\n", True, id="workspace-above"),
        pytest.param("Cargo.toml", '[dependencies]\ncore = { path = "../core" }\n', True, id="crate-beside"),
        pytest.param("pyproject.toml", '[project]\nreadme = "../README.md"\n', True, id="readme-above"),
        pytest.param("CMakeLists.txt", "add_library(a ${CMAKE_CURRENT_SOURCE_DIR}/../core/a.cpp)\n", True, id="source"),
        pytest.param("setup.py", 'open(os.path.join(HERE, "..", "README.md"))\n', True, id="joined-path"),
        pytest.param("csrc/CMakeLists.txt", "include_directories(../include)\n", False, id="inside"),
        pytest.param("setup.py", 'open("../NEWS")\n', False, id="nothing-there"),
        pytest.param("notes.md", "see ../README.md\n", False, id="no-build-file"),
    ],
)
def test_a_project_that_needs_what_is_beside_its_folder(
    tmp_path: Path, name: str, content: str, *, expected: bool
) -> None:
    beside = {"Cargo.toml": "[workspace]\n", "README.md": "", "core/a.cpp": "", "py/include/a.h": ""}
    committed(write(tmp_path, {**beside, f"py/{name}": content}))
    assert names_outside(tree_at(tmp_path / "py", dict(os.environ))) is expected


@pytest.mark.parametrize(
    ("asked", "folder"), [("acme_One", "a"), ("a", "a"), ("./b/", "b"), ("b", "b")]
)  # fmt: skip
def test_a_package_is_named_by_its_name_or_its_folder(tmp_path: Path, asked: str, folder: str) -> None:
    chosen, others = choose_package(tree_at(write(tmp_path, TWO), {}), asked)
    assert (chosen.folder, len(others)) == (folder, 1)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param("setup.py", "setuptools.setup(\n    name='acme-two', version='1')\n", "acme-two", id="call"),
        pytest.param(
            "setup.py", 'setup(ext_modules=[Extension(name="a._C")], name="acme")\n', "acme", id="after-others"
        ),
        pytest.param("setup.py", 'Extension(name="a._C")\nsetup(name=NAME)\n', "", id="computed"),
        pytest.param("setup.cfg", "[metadata]\nversion = 1\nname = acme\n", "acme", id="setup-cfg"),
        pytest.param("setup.cfg", "[metadata]\nversion = 1\n[options]\nname = acme\n", "", id="another-section"),
    ],
)
def test_the_name_that_setuptools_takes_is_that_of_the_package(
    tmp_path: Path, name: str, text: str, expected: str
) -> None:
    chosen, _ = choose_package(tree_at(write(tmp_path, {"setup.py": "setup()\n", name: text}), {}), "")
    assert chosen.name == expected


@pytest.mark.parametrize(
    ("files", "asked", "message"),
    [
        pytest.param(TWO, "", "the source has 2 packages: acme-one (a), b, expected --package with one of them\n"
                     "  hint: `fatwheel init --package acme-one` writes a config for one of them", id="not-told"),
        pytest.param(TWO, "acme-on", 'the source has no package "acme-on", did you mean "acme-one"?', id="typo"),
        pytest.param({"README": ""}, "", "has no pyproject.toml with a project and no setup.py", id="none"),
    ],
)  # fmt: skip
def test_where_only_a_person_can_choose_it_asks(
    tmp_path: Path, files: dict[str, str], asked: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        choose_package(tree_at(write(tmp_path, files), {}), asked)
    assert message in str(caught.value)
