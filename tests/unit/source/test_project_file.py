"""What a project states of itself, where its files and its tool say different things."""

from __future__ import annotations

from pathlib import Path

from ci_tools.observe.versions.ask import OwnVersion
from ci_tools.source.files import open_tree
from ci_tools.source.project_file import ProjectFile
from tests.builders.sources import request_of, shared_world, write

FILES = {
    "fatwheel.yml": "package: demo\npython: ['3.12']\nplatforms:\n  linux-cpu:\n",
    "pyproject.toml": '[project]\nname = "demo"\ndynamic = ["version"]\n',
    "PKG-INFO": "Metadata-Version: 2.1\nName: demo\nVersion: 1.6.0\n",
}


def test_an_sdist_in_a_repository_without_tags_has_its_own_version_and_tells_its_build(tmp_path: Path) -> None:
    request = request_of(write(tmp_path, FILES))
    project = ProjectFile(request, open_tree(request, tmp_path, shared_world()))
    project.told = OwnVersion("0.1.dev1+g123", "setuptools-scm", uses_git=True, is_of_tag=False, told_tag="v{version}")
    found = project.project()
    assert (found.version, found.told_tag) == ("1.6.0", "v{version}")
    assert found.told == "PKG-INFO says 1.6.0, as no tag of the repository says a version"
