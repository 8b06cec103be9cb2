"""The projects of a repository with several configs: names of their artifacts, and the outputs of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.github.projects import collect_outputs, list_projects

OUTPUTS = 'package={0}\nversion=1.0\nchannel={1}\nfiles=[]\nunits=["core"]\nwithheld=[]\npypi={2}\n'


@pytest.mark.parametrize(
    ("configs", "names"),
    [
        pytest.param(["fatwheel.yml", "package/fatwheel.yml"], ["x-root", "x-package"], id="the-root-and-a-folder"),
        pytest.param(["a/pyproject.toml", "configs/b.yml"], ["x-a", "x-configs_b"], id="a-table-and-a-name-of-its-own"),
        pytest.param(["a-built/fatwheel.yml"], ["x-a_built"], id="no-pattern-of-another's-artifacts"),
        pytest.param(["ä b/fatwheel.yml"], ["x-b"], id="characters-that-no-artifact-has"),
    ],
)
def test_each_project_has_a_prefix_of_its_own(configs: list[str], names: list[str]) -> None:
    assert [one["artifacts"] for one in list_projects(configs, "x")] == names


def test_prefixes_that_would_be_one_are_told_apart() -> None:
    one, other = (row["artifacts"] for row in list_projects(["a/b/fatwheel.yml", "a-b/fatwheel.yml"], "x"))
    assert one != other
    assert "-" not in one.removeprefix("x-") + other.removeprefix("x-")


def test_a_config_that_is_named_twice_is_refused() -> None:
    with pytest.raises(InputError, match=r"a\.yml is named twice"):
        list_projects(["a.yml", "a.yml"], "x")


def test_of_several_calls_those_that_are_complete_are_told(tmp_path: Path) -> None:
    """One is released, one of them to PyPI as well, one is only built, and one failed and left nothing."""
    for name, channel, pypi in (("a", "stable", "true"), ("b", "test", "false"), ("c", "none", "false")):
        (tmp_path / f"x-{name}-outputs").mkdir()
        (tmp_path / f"x-{name}-outputs" / "outputs.txt").write_text(OUTPUTS.format(name, channel, pypi))
    found = collect_outputs(list_projects([f"{name}/fatwheel.yml" for name in "abcd"], "x"), tmp_path)
    said = {key: [one["package"] for one in json.loads(text)] for key, text in found.items()}
    assert said == {"built": ["a", "b", "c"], "releases": ["a", "b"], "pypi": ["a"]}
