"""What upstream has published, beside what a recipe names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_tools.recipes.shelf import Recipe
from ci_tools.recipes.upstream import find_newer
from tests.builders.sources import committed, git, world, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with the tags of two versions and of a candidate."""
    folder = write(tmp_path_factory.mktemp("upstream") / "upstream", {"a": "a"})
    committed(folder)
    for tag in ("v13.6.0", "v14.0.0rc1", "v13.5.0", "nightly"):
        git(folder, "tag", tag)
    return folder


@pytest.mark.parametrize(
    ("named", "newer"),
    [
        pytest.param('version: "13.5.0"', "13.6.0", id="an-older-version"),
        pytest.param('version: "13.6.0"', None, id="the-newest"),
        pytest.param('version: "14.0.0rc1"', None, id="a-candidate-of-the-next"),
        pytest.param('versions: { "13.5.0": ["3.13"], "14.0.0rc1": ["3.14"] }', None, id="one-of-two"),
    ],
)
def test_only_a_newer_version_is_news(upstream: Path, tmp_path: Path, named: str, newer: str | None) -> None:
    text = f'package: cupy\n{named}\nsource: {{ git: {upstream}, ref: "v{{version}}" }}\npython: ["3.13", "3.14"]\n'
    folder = write(tmp_path / "cupy", {"fatwheel.yml": f"{text}platforms: {{ linux-cpu: }}\n"})
    recipe = Recipe("cupy", folder, is_ours=False)
    found = find_newer(recipe.read(), recipe, world(tmp_path))
    assert (str(found) if found else None) == newer
