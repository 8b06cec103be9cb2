from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.config import loader
from ci_tools.config.native import read_archs
from ci_tools.errors import InputError, RejectedInput
from ci_tools.recipes.choice import RecipeChoice
from ci_tools.recipes.releases import list_releases
from ci_tools.recipes.shelf import Recipe
from tests.builders.sources import world, write


def answering(folder: Path, text: str) -> str:
    """Return a PATH on which the driver's program prints a text."""
    write(folder, {"nvidia-smi": f"#!/bin/sh\nprintf '{text}'\n"})
    (folder / "nvidia-smi").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_native_is_the_architectures_of_the_gpus_here(tmp_path: Path) -> None:
    outside = world(tmp_path, PATH=answering(tmp_path / "bin", "12.0\\n8.9\\n12.0\\n"))
    assert read_archs(["native", "8.0"], outside) == ("8.9", "12.0", "8.0")


def test_native_without_a_gpu_is_an_error_and_no_guess(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_archs(["native"], world(tmp_path, PATH=str(tmp_path)))
    assert caught.value.message.startswith("--archs native: no GPU of this machine answers (nvidia-smi)")


def test_named_architectures_ask_no_gpu(tmp_path: Path) -> None:
    assert read_archs(["8.9"], world(tmp_path, PATH=str(tmp_path))) == ("8.9",)


PLAIN = """\
package: demo
python: ["3.13"]
platforms:
  linux-cuda: {{ owner: me, native: ["*.cu"], cuda: ["13.0"], archs: {archs} }}
"""


def archs_of_config(folder: Path, archs: str, path: str) -> tuple[str, ...]:
    """Return the architectures of a plain config."""
    config = write(folder, {"fatwheel.yml": PLAIN.format(archs=archs)}) / "fatwheel.yml"
    return loader.load(config, catalog.load(), outside=world(folder, PATH=path)).platforms[0].archs


@pytest.mark.parametrize(("archs", "found"), [("native", ("8.9",)), ("[native, '12.0+PTX']", ("8.9", "12.0+PTX"))])
def test_a_plain_config_may_say_native(tmp_path: Path, archs: str, found: tuple[str, ...]) -> None:
    assert archs_of_config(tmp_path, archs, answering(tmp_path / "bin", "8.9\\n")) == found


def test_a_gpu_that_the_toolkit_does_not_know_is_a_mistake_of_the_line_that_says_native(tmp_path: Path) -> None:
    with pytest.raises(RejectedInput) as caught:
        archs_of_config(tmp_path, "native", answering(tmp_path / "bin", "5.2\\n"))
    (problem,) = caught.value.problems
    assert problem.where == f"{tmp_path}/fatwheel.yml:4:69"
    assert problem.what.startswith('nvcc of CUDA 13.0 does not know the architecture "5.2"')


def test_a_plain_config_without_a_gpu_says_where_it_asks_for_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"fatwheel.yml: linux-cuda: archs: native: no GPU of this machine answers"):
        archs_of_config(tmp_path, "native", str(tmp_path))


def test_a_config_that_is_read_for_no_machine_guesses_nothing(tmp_path: Path) -> None:
    config = write(tmp_path, {"fatwheel.yml": PLAIN.format(archs="native")}) / "fatwheel.yml"
    with pytest.raises(InputError, match="this reads the config for no machine"):
        loader.load(config, catalog.load())


DEFAULT = RecipeChoice()
RECIPE = """\
package: demo
version: "1.0"
source: {{ git: https://github.com/octo/demo, ref: "v{{version}}" }}
python: ["3.13"]
platforms: {{ linux-cuda: {{ cuda: ["13.0"], archs: {archs} }}, linux-cpu: }}
"""


def archs_of(folder: Path, archs: str, path: str, choice: RecipeChoice = DEFAULT) -> tuple[str, ...]:
    """Return the architectures of a recipe's release."""
    recipe = Recipe("demo", write(folder / "demo", {"fatwheel.yml": RECIPE.format(archs=archs)}), is_ours=False)
    (release,) = list_releases(recipe, choice, folder / "out", world(folder, PATH=path))
    return release.request.platforms[0].archs


@pytest.mark.parametrize(("archs", "found"), [("native", ("8.9",)), ("[native, '12.0+PTX']", ("8.9", "12.0+PTX"))])
def test_a_recipe_may_say_native(tmp_path: Path, archs: str, found: tuple[str, ...]) -> None:
    assert archs_of(tmp_path, archs, answering(tmp_path / "bin", "8.9\\n")) == found


@pytest.mark.parametrize("answer", ["", "[N/A]\\n", "NVIDIA-SMI has failed\\n"])
def test_a_native_recipe_without_a_gpu_says_what_to_write(tmp_path: Path, answer: str) -> None:
    with pytest.raises(InputError, match=r"yml: linux-cuda: archs: native: no GPU .* such as 8.9") as caught:
        archs_of(tmp_path, "native", answering(tmp_path / "bin", answer))
    assert "nvidia-smi --query-gpu=compute_cap --format=csv,noheader" in caught.value.hint


def test_a_choice_takes_the_place_of_native(tmp_path: Path) -> None:
    assert archs_of(tmp_path, "native", str(tmp_path), RecipeChoice(archs=("9.0",))) == ("9.0",)
