"""The starter config: what it says is what the source shows, and it plans at once where nothing is left to choose."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ci_tools import catalog
from ci_tools.config import loader, starter
from ci_tools.errors import InputError
from ci_tools.model.platforms import Platform
from ci_tools.model.request import Route
from ci_tools.model.versions import Minor
from tests.builders.sources import git

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.model.request import Request

PROJECT = '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.12"\ndependencies = ["torch"]\n'


def started(root: Path, **files: str) -> Request:
    for name, text in {"pyproject.toml": PROJECT, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return loader.load(starter.write(root, catalog.load(), {}), catalog.load())


def test_a_pure_project_gets_a_config_that_plans(tmp_path: Path) -> None:
    request = started(tmp_path)
    assert min(request.pythons).version == Minor(3, 12)
    assert Platform.LINUX_CUDA not in {platform.platform for platform in request.platforms}


def test_cuda_files_get_their_platform(tmp_path: Path) -> None:
    request = started(tmp_path, **{"csrc/op.cu": "// CUDA\n"})
    cuda = next(platform for platform in request.platforms if platform.platform is Platform.LINUX_CUDA)
    assert (cuda.native.include, bool(cuda.archs)) == (("**/*.cu", "**/*.cuh"), True)


def test_torch_starts_where_the_source_says(tmp_path: Path) -> None:
    define = "#define TORCH_TARGET_VERSION 0x020b000000000000\n#include <torch/csrc/stable/library.h>\n"
    request = started(tmp_path, **{"csrc/op.cpp": define})
    assert request.torch
    assert request.torch.lowest == Minor(2, 11)


def test_a_project_below_is_found(tmp_path: Path) -> None:
    (tmp_path / "python").mkdir()
    (tmp_path / "python/pyproject.toml").write_text(PROJECT)
    request = loader.load(starter.write(tmp_path, catalog.load(), {}), catalog.load())
    assert request.subdirectory == "python"


def test_a_config_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "fatwheel.yml").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        starter.write(tmp_path, catalog.load(), {})
    assert (tmp_path / "fatwheel.yml").read_text() == "mine"


@pytest.mark.parametrize("text", [pytest.param(None, id="none"), pytest.param("not [toml", id="broken")])
def test_without_a_readable_project_it_says_so(tmp_path: Path, text: str | None) -> None:
    if text:
        (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(InputError, match=r"pyproject\.toml"):
        starter.write(tmp_path, catalog.load(), {})


@pytest.mark.parametrize(
    ("project", "message"),
    [
        pytest.param("project = 'x'", "project is 'x', expected a table", id="project"),
        pytest.param("[project]\nname = 5", "project.name is 5, expected text", id="name-is-a-number"),
        pytest.param('[project]\nname = "a: b\\nplatforms: x"', "project.name is 'a: b.*expected a name of", id="name"),
        pytest.param("[project]\nname = 'a'\nrequires-python = 5", "project.requires-python is 5, expected text",
                     id="requires-python"),
        pytest.param("[project]\nname = 'a'\nrequires-python = '>4'", "is '>4', expected one that admits some of 3.10",
                     id="no-python"),
        pytest.param("[project]\nname = 'a'\ndependencies = [1]", r"project.dependencies is \[1\], expected a list",
                     id="dependencies"),
    ],
)  # fmt: skip
def test_a_project_that_cannot_be_is_refused(tmp_path: Path, project: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"^pyproject\.toml: .*{message}"):
        started(tmp_path, **{"pyproject.toml": project})


@pytest.mark.parametrize("name", ["yes", "1.10", "null", "3d-tools", "0x10", "a.b_c-d", "1e3"])
@pytest.mark.parametrize("folder", ["", "a: b #/", "[x/", "no/", "a,b/"])
def test_whatever_a_project_is_called_its_config_loads(tmp_path: Path, name: str, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / f"{folder}pyproject.toml").write_text(PROJECT.replace("demo", name))
    (tmp_path / f"{folder}a\n: b.cu").touch()
    request = loader.load(starter.write(tmp_path, catalog.load(), {}), catalog.load())
    assert (request.name, request.subdirectory) == (name, folder.rstrip("/"))


@pytest.mark.parametrize(
    ("origin", "target"),
    [
        pytest.param("git@github.com:some-org/some.project.git", "github:some-org/some.project", id="ssh"),
        pytest.param("https://github.com/some-org/project", "github:some-org/project", id="https"),
        pytest.param("https://example.org/some-org/project", "github:your-org/your-project", id="elsewhere"),
        pytest.param("", "github:your-org/your-project", id="nowhere"),
    ],
)
def test_a_smart_sdist_has_its_wheels_in_the_repository(tmp_path: Path, origin: str, target: str) -> None:
    git(tmp_path, "init", "--quiet")
    if origin:
        git(tmp_path, "remote", "add", "origin", origin)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    path = starter.write(tmp_path, catalog.load(), dict(os.environ), smart=True)
    request = loader.load(path, catalog.load())
    assert (request.publish.pypi, request.publish.targets) == (Route.SMART, (target, "pypi"))
