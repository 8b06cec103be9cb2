from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from packaging.utils import parse_wheel_filename

from ci_tools.errors import InputError, RejectedInput
from ci_tools.recipes import shelf
from ci_tools.recipes.check import check_recipes
from ci_tools.recipes.choice import RecipeChoice, cut
from ci_tools.recipes.releases import (
    RecipeRelease,
    copy_release,
    list_or_reject,
    list_releases,
    name_release,
    write_config,
)
from ci_tools.recipes.shelf import Recipe, copy_recipe, find_recipe, list_recipes
from tests.builders.sources import committed, git, world, write

OURS = Path(shelf.__file__).parent
NAMES = ["cupy-cuda13x", "flash-attn", "nunchaku", "opencv-python", "sageattention"]


def released(folder: Path, recipe: str, **chosen: object) -> RecipeRelease:
    """Return the one release of a recipe for a choice; an sdist's hash is not asked for."""
    (part,) = cut(find_recipe(recipe, folder).read(), RecipeChoice(**chosen), recipe)  # type: ignore[arg-type]
    sdist = part["source"].get("sdist")
    if sdist:
        sdist["version"] = part["version"]
    return name_release(recipe, write_config(part, find_recipe(recipe, folder).folder, folder / "config"))


# The names that people who build these packages by hand have given their releases, one for each of their workflows.
NAMED = """\
nunchaku 1.0.2 3.13|nunchaku-v1.0.2-py313-torch2.10.0-cu130|Nunchaku v1.0.2 Wheel for Python 3.13 + PyTorch 2.10.0 + CUDA 13.0
nunchaku 1.0.2 3.14|nunchaku-v1.0.2-py314-torch2.10.0-cu130|Nunchaku v1.0.2 Wheel for Python 3.14 + PyTorch 2.10.0 + CUDA 13.0
flash-attn 2.8.2 3.13|flash-attn-v2.8.2-py313-torch2.10.0-cu130|Flash Attention v2.8.2 Wheel for Python 3.13 + PyTorch 2.10.0 + CUDA 13.0
flash-attn 2.8.2 3.14|flash-attn-v2.8.2-py314-torch2.10.0-cu130|Flash Attention v2.8.2 Wheel for Python 3.14 + PyTorch 2.10.0 + CUDA 13.0
sageattention 2.2.0 3.13|sageattention-v2.2.0-py313-torch2.10.0-cu130|SageAttention v2.2.0 Wheel for Python 3.13 + PyTorch 2.10.0 + CUDA 13.0
sageattention 2.2.0 3.14|sageattention-v2.2.0-py314-torch2.10.0-cu130|SageAttention v2.2.0 Wheel for Python 3.14 + PyTorch 2.10.0 + CUDA 13.0
cupy-cuda13x 13.6.0 3.13|cupy-cuda13x-v13.6.0-py313-torch2.10.0-cu130|CuPy-CUDA13x v13.6.0 Wheel for Python 3.13 + PyTorch 2.10.0 + CUDA 13.0
cupy-cuda13x 14.0.0rc1 3.14|cupy-cuda13x-v14.0.0rc1-py314-torch2.10.0-cu130|CuPy-CUDA13x v14.0.0rc1 Wheel for Python 3.14 + PyTorch 2.10.0 + CUDA 13.0
cupy-cuda13x 14.0.0rc1 3.14t|cupy-cuda13x-v14.0.0rc1-py314t-torch2.10.0-cu130|CuPy-CUDA13x v14.0.0rc1 Wheel for Python 3.14t (Free-threaded) + CUDA 13.0
opencv-python 4.11.0.92 3.14t|opencv-python-v4.11.0.92-py314t-cu130|OpenCV-Python v4.11.0.92 Wheel for Python 3.14t (Free-threaded) + CUDA 13.0
opencv-python 4.11.0.92 3.14|opencv-python-v4.11.0.92-cu130|OpenCV-Python v4.11.0.92 Wheel for CUDA 13.0
"""  # noqa: E501 - a table


@pytest.mark.parametrize(
    ("asked", "tag", "title"), [pytest.param(*line.split("|"), id=line.split("|")[1]) for line in NAMED.splitlines()]
)
def test_a_release_has_the_names_that_people_know(tmp_path: Path, asked: str, tag: str, title: str) -> None:
    recipe, version, python = asked.split()
    release = released(tmp_path, recipe, version=version, pythons=(python,))
    assert (release.tag, release.title, release.cannot) == (tag, title, ())


def test_free_threaded_pythons_are_released_apart_where_they_have_other_names(tmp_path: Path) -> None:
    """Without names of their own, they share a release with the others."""
    root = find_recipe("opencv-python", tmp_path).read()
    apart = cut(root, RecipeChoice(), "opencv-python")
    del root["release"]["free-threaded"]
    together = cut(root, RecipeChoice(), "opencv-python")
    assert [part["python"] for part in apart] == [["3.13", "3.14"], ["3.14t"]]
    assert [part["python"] for part in together] == [["3.13", "3.14", "3.14t"]]


def test_a_rebuild_has_a_tag_of_its_own_and_the_same_title(tmp_path: Path) -> None:
    release = released(tmp_path, "nunchaku", pythons=("3.13",), rebuild=2)
    assert release.tag == "nunchaku-v1.0.2-py313-torch2.10.0-cu130-r2"
    assert release.request.release.rebuild == 2


@pytest.mark.parametrize("recipe", NAMES)
def test_a_recipe_of_ours_is_short_and_gives_each_of_its_patches_a_reason(recipe: str) -> None:
    config = OURS / recipe / "fatwheel.yml"
    patches = yaml.safe_load(config.read_text(encoding="utf-8"))["source"].get("patches", [])
    assert len(config.read_text(encoding="utf-8").splitlines()) <= 40
    assert {patch["file"] for patch in patches} == {path.name for path in config.parent.glob("*.patch")}


def test_a_recipe_without_a_choice_gives_a_release_for_each_python(tmp_path: Path) -> None:
    parts = cut(find_recipe("cupy-cuda13x", tmp_path).read(), RecipeChoice(), "cupy-cuda13x")
    assert [(part["version"], part["python"]) for part in parts] == [
        ("13.6.0", ["3.13"]), ("14.1.0", ["3.14"]), ("14.1.0", ["3.14t"])]  # fmt: skip


def test_archs_go_where_the_project_looks_for_them(tmp_path: Path) -> None:
    release = released(tmp_path, "cupy-cuda13x", pythons=("3.13",), archs=("8.9", "9.0"))
    (platform,) = release.request.platforms
    assert dict(platform.env) == {"CUPY_NVCC_GENERATE_CODE": "arch=compute_89,code=sm_89;arch=compute_90,code=sm_90"}
    assert release.request.release.local == "cu{cuda}{archs}"


def test_what_a_package_cannot_do_is_said_before_its_source_is_fetched(tmp_path: Path) -> None:
    (reason,) = released(tmp_path, "sageattention", pythons=("3.14t",)).cannot
    assert "without the GIL (Py_mod_gil)" in reason


def test_one_release_of_opencv_has_the_wheel_of_every_python_that_has_a_limited_api(tmp_path: Path) -> None:
    found = list_releases(find_recipe("opencv-python", tmp_path), RecipeChoice(), tmp_path / "out", world(tmp_path))
    assert [[str(python) for python in release.request.pythons] for release in found] == [["3.13", "3.14"], ["3.14t"]]
    assert [release.cannot for release in found] == [(), ()]


@pytest.mark.parametrize("recipe", [name for name in NAMES if name != "opencv-python"])
def test_each_of_our_recipes_has_three_pythons_and_says_which_it_cannot_serve(tmp_path: Path, recipe: str) -> None:
    found = list_releases(find_recipe(recipe, tmp_path), RecipeChoice(), tmp_path / "out", world(tmp_path))
    assert [(str(python), bool(release.cannot)) for release in found for python in release.request.pythons] == [
        ("3.13", False), ("3.14", False), ("3.14t", recipe != "cupy-cuda13x")]  # fmt: skip


def test_a_recipe_of_the_callers_comes_before_ours(tmp_path: Path) -> None:
    config = (OURS / "nunchaku/fatwheel.yml").read_text(encoding="utf-8").replace("1.0.2", "1.0.9")
    write(tmp_path, {"nunchaku/fatwheel.yml": config, "mine/fatwheel.yml": config})
    found = {recipe.name: recipe.is_ours for recipe in list_recipes(tmp_path)}
    assert found == {**dict.fromkeys(NAMES, True), "nunchaku": False, "mine": False}
    assert find_recipe("nunchaku", tmp_path).read()["version"] == "1.0.9"


@pytest.mark.parametrize(
    ("recipe", "chosen", "expected"),
    [
        pytest.param("nunchakuu", {}, 'there is no recipe "nunchakuu", did you mean "nunchaku"?', id="name-misspelt"),
        pytest.param("cupy-cuda13x", {"pythons": ("3.12",)},
                     "the recipe cupy-cuda13x has no version for Python 3.12, its `versions`: 13.6.0 for 3.13, "
                     "14.1.0 for 3.14, 3.14t", id="python-that-no-version-serves"),
        pytest.param("opencv-python", {"torches": ("2.10",)},
                     "--torch 2.10: the recipe opencv-python names no torch, so its wheels depend on none",
                     id="torch-that-it-does-not-need"),
        pytest.param("nunchaku", {}, "the recipe nunchaku has 3 releases: 1.0.2 for Python 3.13, 1.0.2 for Python "
                     "3.14, 1.0.2 for Python 3.14t", id="several-releases"),
        pytest.param("nunchaku", {"pythons": ("3.13",), "archs": ("8.99",)},
                     '"8.99" is not allowed, expected an architecture such as "9.0"', id="arch-misspelt"),
        pytest.param("nunchaku", {"pythons": ("3.13",), "archs": ("5.0",)},
                     'nvcc of CUDA 13.0 does not know the architecture "5.0"', id="arch-that-the-toolkit-dropped"),
        pytest.param("nunchaku", {"pythons": ("3.21",)}, 'there is no Python "3.21" in the catalog',
                     id="python-unknown"),
    ],
)  # fmt: skip
def test_a_wrong_choice_is_one_clear_sentence(
    tmp_path: Path, recipe: str, chosen: dict[str, object], expected: str
) -> None:
    with pytest.raises(InputError) as caught:
        copy_release(find_recipe(recipe, tmp_path), RecipeChoice(**chosen), tmp_path / "x", world(tmp_path))  # type: ignore[arg-type]
    assert expected in caught.value.message
    assert not (tmp_path / "x").exists()


def test_the_tags_of_a_free_threaded_wheel_are_those_of_installers() -> None:
    name = "cupy_cuda13x-14.0.0rc1+cu130sm89-2-cp314-cp314t-manylinux_2_28_x86_64.whl"
    _, version, build, tags = parse_wheel_filename(name)
    assert (str(version), build, {str(tag) for tag in tags}) == (
        "14.0.0rc1+cu130sm89", (2, ""), {"cp314-cp314t-manylinux_2_28_x86_64"})  # fmt: skip


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


def test_a_copy_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, RECIPE)
    (recipe.folder / "a.patch").symlink_to("nowhere")
    with pytest.raises(OSError, match=r"a\.patch"):
        copy_recipe(recipe, tmp_path / "x")
    assert not (tmp_path / "x").exists()


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
