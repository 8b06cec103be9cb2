"""A first recipe: what it takes from an sdist of a package index, and from a repository without tags."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ci_tools.errors import InputError
from ci_tools.machine.context import Outside
from ci_tools.recipes.first import write_first
from tests.builders.sources import committed, git, shared_world, write
from tests.servers.package_index import index_of

pytestmark = pytest.mark.slow

# As causal-conv1d has it: the name is a constant, and the only literal one is that of an extension.
NATIVE = """\
from setuptools import Extension, setup

PACKAGE = "de-mo"
setup(
    name=PACKAGE,
    version="1.0",
    packages=["de_mo"],
    ext_modules=[Extension(name="de_mo_fast", sources=["fast.c"])],
)
"""
# As torchac has it: C++ for torch, which a user's machine compiles.
JIT = 'from setuptools import setup\n\nsetup(name="de-mo", version="2.1", packages=["de_mo"])\n'
CPP = "#include <torch/extension.h>\n"


def sdist(stem: str, files: Mapping[str, str]) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"{stem}/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return into.getvalue()


def with_index(url: str) -> Outside:
    outside = shared_world()
    return replace(outside, environ={**outside.environ, "PIP_INDEX_URL": url})


def test_it_has_the_name_of_the_sdist_and_a_release_for_each_python(tmp_path: Path) -> None:
    files = {"setup.py": NATIVE, "fast.c": "#include <Python.h>\n", "de_mo/__init__.py": ""}
    found = {
        "de_mo-1.0.tar.gz": sdist("de_mo-1.0", files),
        "de-mo-0.14.2-4.tar.gz": sdist("de-mo-0.14.2-4", files),  # read as version 4 of "de-mo-0.14.2"
        "de-mo-unknown.tar.gz": b"",
    }
    with index_of("de-mo", found, hashes=True) as index:
        written = write_first("de-mo", tmp_path / "recipe", with_index(index.url))
    recipe = yaml.safe_load(written.config.read_text(encoding="utf-8"))
    assert (recipe["package"], recipe["version"], recipe["source"]["sdist"]["version"]) == ("de-mo", "1.0", "1.0")
    assert recipe["release"]["tag"] == "{package}-v{version}-py{python}"
    assert (len(recipe["python"]), recipe["validate"]["imports"]) == (3, ["de_mo", "de_mo_fast"])
    assert "torch" not in recipe


def test_a_project_that_compiles_nothing_has_one_release(tmp_path: Path) -> None:
    upstream = write(tmp_path / "up", {"setup.py": JIT, "de_mo/__init__.py": "", "de_mo/fast.cpp": CPP})
    commit = committed(upstream)
    written = write_first(str(upstream), tmp_path / "recipe", shared_world())
    recipe = yaml.safe_load(written.config.read_text(encoding="utf-8"))
    assert recipe["source"] == {"git": str(upstream), "ref": commit}
    assert recipe["version"] == "2.1"
    assert recipe["release"]["tag"] == "{package}-v{version}"
    assert "torch" not in recipe
    assert "no tag of a final version" in written.decisions[0]


@pytest.mark.parametrize(
    ("tag", "version", "ref"),
    [
        pytest.param("v2.1", "2.1", "v{version}", id="a-version"),
        pytest.param("25.09", "25.9", "25.09", id="a-month"),  # as apex has them
    ],
)
def test_the_newest_tag_is_taken_where_there_is_one(tag: str, version: str, ref: str, tmp_path: Path) -> None:
    upstream = write(tmp_path / "up", {"setup.py": JIT, "de_mo/__init__.py": ""})
    committed(upstream)
    for each in ("v2.0", tag, "v30.0rc1", "nightly"):
        git(upstream, "tag", each)
    written = write_first(str(upstream), tmp_path / "recipe", shared_world())
    recipe = yaml.safe_load(written.config.read_text(encoding="utf-8"))
    assert (recipe["version"], recipe["source"]["ref"]) == (version, ref)


def test_an_index_without_an_sdist_is_an_error(tmp_path: Path) -> None:
    with (
        index_of("de-mo", {"de-mo-0.14.2-4.tar.gz": b""}, hashes=True) as index,
        pytest.raises(InputError, match="no sdist of de-mo"),
    ):
        write_first("de-mo", tmp_path / "recipe", with_index(index.url))
    assert not (tmp_path / "recipe").exists()


# OpenCV includes such a name by a macro, which only a compiler reads, and has nothing to do with torch.
BY_MACRO = "#include GENERATED_HEADER\n"
COMPILED = 'from setuptools import Extension, setup\nsetup(name="demo", ext_modules=[Extension("x", ["x.cpp"])])\n'


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        pytest.param("int x;\n", False, id="no-torch"),
        pytest.param(BY_MACRO, False, id="a-header-by-a-macro"),
        pytest.param(f"#include <torch/extension.h>\n{BY_MACRO}", True, id="a-header-of-torch"),
    ],
)
def test_a_recipe_names_torch_only_where_the_source_uses_it(tmp_path: Path, text: str, uses: bool) -> None:  # noqa: FBT001 - a table's column
    upstream = write(tmp_path / "up", {"setup.py": COMPILED, "x.cpp": text})
    committed(upstream)
    git(upstream, "tag", "v1.0")
    written = write_first(str(upstream), tmp_path / "recipe", shared_world())
    recipe = yaml.safe_load(written.config.read_text(encoding="utf-8"))
    named = [name for name in ("tag", "title", "local") if "{torch}" in recipe["release"][name]]
    assert ("torch" in recipe, bool(named)) == (uses, uses)
    assert any("`torch`" in line for line in written.decisions) == uses
