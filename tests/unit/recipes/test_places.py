"""Mistakes in a release's config, told by the recipe that it was written from, or by the option that was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_tools.errors import InputError, RejectedInput
from ci_tools.recipes.check import check_recipes
from ci_tools.recipes.choice import RecipeChoice
from ci_tools.recipes.releases import copy_release, list_or_reject, list_releases
from ci_tools.recipes.shelf import Recipe
from tests.builders.sources import committed, git, world, write

if TYPE_CHECKING:
    from pathlib import Path

RECIPE = """\
# A comment, which the config of a release does not have.
package: hello

version: "1.0"
source: { git: SOURCE, ref: "v{version}" } # its patches
python: ["3.12", "3.13"]
torch: ["2.10"]
platforms:
  linux-cuda: { required: true, cuda: ["13.0"], archs: ["8.9", "9.0"] }
release: { tag: "hello-v{version}-py{python}-torch{torch}", untagged: true }
"""
PROJECT = '[project]\nname = "hello"\nversion = "1.0"\n[build-system]\nrequires = ["setuptools"]\n'


def recipe_of(folder: Path, text: str) -> Recipe:
    return Recipe("hello", write(folder / "recipes" / "hello", {"fatwheel.yml": text}), is_ours=False)


def mistakes(tmp_path: Path, text: str, choice: RecipeChoice) -> list[str]:
    """Return the mistakes of a recipe's releases, with what a place has of this machine left out."""
    with pytest.raises(RejectedInput) as caught:
        list_releases(recipe_of(tmp_path, text), choice, tmp_path / "out", world(tmp_path))
    return [str(problem).replace(f"{tmp_path}/", "") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        pytest.param('"9.0"', '"5.0"', "9:64: nvcc of CUDA 13.0 does not know the architecture", id="arch"),
        pytest.param('"9.0"', '"sm_90"', '9:64: "sm_90" is not allowed, expected an architecture', id="shape"),
        pytest.param(
            '["3.12", "3.13"]', '"3.12"', '6:9: "3.12" is not allowed, expected the Python versions', id="a-text"
        ),
        pytest.param('"3.12", ', "banana, ", '6:10: "banana" is not allowed, expected a Python version', id="a-word"),
        pytest.param('"2.10"', '"2.99"', '7:9: there is no torch "2.99" in the catalog', id="torch"),
        pytest.param("linux-cuda:", "linux-cudda:", '9:3: unknown key "linux-cudda", did you mean', id="platform"),
    ],
)
def test_a_mistake_has_its_place_in_the_recipe(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in RECIPE
    found = mistakes(tmp_path, RECIPE.replace(before, after), RecipeChoice())
    assert [one for one in found if one.startswith(f"recipes/hello/fatwheel.yml:{said}")] == found


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        pytest.param(
            RecipeChoice(pythons=("3.99",)), '--python: there is no Python "3.99" in the catalog', id="python"
        ),
        pytest.param(RecipeChoice(torches=("2.99",)), '--torch: there is no torch "2.99" in the catalog', id="torch"),
        pytest.param(RecipeChoice(cudas=("99.0",)), '--cuda: there is no CUDA "99.0" in the catalog', id="cuda"),
        pytest.param(
            RecipeChoice(archs=("5.0",)), "--archs: nvcc of CUDA 13.0 does not know the architecture", id="archs"
        ),
        pytest.param(
            RecipeChoice(version="new"), '--version: "new" is not a version, expected one such as', id="version"
        ),
    ],
)
def test_a_mistake_of_a_choice_is_told_by_its_option(tmp_path: Path, choice: RecipeChoice, said: str) -> None:
    (found,) = mistakes(tmp_path, RECIPE, choice)
    assert found.startswith(said)


def test_a_chosen_python_that_is_no_version_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'--python: "banana" is not a version, expected one such as 3\.14'):
        copy_release(recipe_of(tmp_path, RECIPE), RecipeChoice(pythons=("banana",)), tmp_path / "x", world(tmp_path))
    assert not (tmp_path / "x").exists()


def test_what_only_the_plan_finds_has_its_place_in_the_recipe_too(tmp_path: Path) -> None:
    source = write(tmp_path / "upstream", {"pyproject.toml": PROJECT, "hello.py": "A = 1\n"})
    committed(source)
    git(source, "tag", "v1.0")
    text = RECIPE.replace("SOURCE, ", f"{source}, patches: [{{file: gone.patch, reason: it is gone}}], ")
    checks = check_recipes([recipe_of(tmp_path, text)], RecipeChoice(pythons=("3.12",)), world(tmp_path))
    said = str(checks[0].error).replace(f"{tmp_path}/", "")
    assert said.startswith("recipes/hello/fatwheel.yml:5:")
    assert 'there is no patch "gone.patch", expected a file in UTF-8 beside the config' in said


def test_one_bad_recipe_hides_no_other(tmp_path: Path) -> None:
    good = recipe_of(tmp_path, RECIPE)
    bad = Recipe(
        "bad", write(tmp_path / "recipes/bad", {"fatwheel.yml": RECIPE.replace('"9.0"', '"5.0"')}), is_ours=False
    )
    silent = Recipe("silent", write(tmp_path / "recipes/silent", {"fatwheel.yml": "package: x\n"}), is_ours=False)
    found, rejected = list_or_reject([bad, good, silent], world(tmp_path))
    assert {one.recipe for one in found} == {"hello"}
    assert rejected is not None
    assert [one.where.removeprefix(f"{tmp_path}/").partition(":")[0] for one in rejected.problems] == [
        "recipes/bad/fatwheel.yml", "recipes/silent/fatwheel.yml"]  # fmt: skip
    assert list_or_reject([good], world(tmp_path))[1] is None
