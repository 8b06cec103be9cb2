"""What the finder is told of recipes: it agrees with the releases that they give."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError, RejectedInput
from ci_tools.index.finder.data import Maker, parse_recipes, recipes_data
from ci_tools.index.finder.search import GivenMachine, ask_by, describe_machine, refuse_maker
from ci_tools.install.fatwheel_backend import Facts
from ci_tools.recipes.choice import RecipeChoice
from ci_tools.recipes.makers import list_makers
from ci_tools.recipes.releases import list_releases
from ci_tools.recipes.shelf import OURS, Recipe, list_recipes
from tests.builders.sources import world, write

RECIPES = list_recipes(OURS / "none")


@pytest.fixture(params=[recipe.name for recipe in RECIPES])
def recipe(request: pytest.FixtureRequest) -> Recipe:
    return next(one for one in RECIPES if one.name == request.param)


def maker_of(recipe: Recipe) -> Maker:
    (maker,) = list_makers([recipe])
    return maker


@pytest.mark.parametrize("python", ["3.12", "3.13", "3.14", "3.14t"])
def test_the_finder_names_a_recipe_where_it_has_a_release(recipe: Recipe, python: str, tmp_path: Path) -> None:
    maker = maker_of(recipe)
    wanted = GivenMachine(system="linux-x86_64", torch="2.10", cuda="13.0", python=python)
    machine = describe_machine(Facts(), wanted)
    torches = ("2.10",) if maker.uses_torch else ()
    choice = RecipeChoice(pythons=(python,), torches=torches, cudas=("13.0",))
    try:
        (release,) = list_releases(recipe, choice, tmp_path, world(tmp_path))
        cannot = " ".join(release.cannot)
    except InputError as error:
        cannot = error.message
    said = refuse_maker(maker, machine)
    assert bool(said) == bool(cannot), (said, cannot)
    words = ask_by(maker, machine).split()
    assert words[:5] == ["fatwheel", "recipe", "copy", recipe.name, "build"]
    assert ("--torch" in words) == bool(torches)


def test_another_system_is_refused_with_those_that_it_is_for(recipe: Recipe) -> None:
    machine = describe_machine(Facts(), GivenMachine(system="windows-x86_64", torch="2.10", cuda="13.0", python="3.13"))
    assert refuse_maker(maker_of(recipe), machine) == "it is for linux-x86_64 with cuda"


def test_what_is_written_is_read_again() -> None:
    makers = list_makers(RECIPES)
    content = recipes_data(makers, "https://host/new?template=<x>")
    assert b"<" not in content
    assert parse_recipes(content) == (tuple(sorted(makers)), "https://host/new?template=<x>")


@pytest.mark.parametrize("content", [b"", b"finder({});\n", b"recipes({);\n", b'recipes({"form": 1});\n'])
def test_a_file_that_is_not_whole_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"it is not a call|expected|Expecting"):
        parse_recipes(content)


def test_a_misshapen_recipe_is_an_error_with_its_place(tmp_path: Path) -> None:
    text = 'package: x\nversion: "1.0"\npython: "3.12"\nplatforms: [linux-cpu]\n'
    folder = write(tmp_path / "x", {"fatwheel.yml": text})
    with pytest.raises(RejectedInput) as caught:
        list_makers([Recipe("x", folder, is_ours=False)])
    assert [one.where.rpartition("fatwheel.yml")[2] for one in caught.value.problems] == [":3:9", ":4:12"]
