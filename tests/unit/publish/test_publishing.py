"""What publishing refuses before it looks at a file: a commit that nobody released."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_tools.cli.main import main
from ci_tools.errors import InputError
from ci_tools.publish.publishing import Destination, preview
from tests.builders.sources import world
from tests.unit.index.test_units import plan

UNTAGGED = {"channel": None, "candidate": None, "date": None}


def folder_of(home: Path, **changes: Any) -> Path:  # noqa: ANN401 - JSON
    """Return the folder of a release of which only the plan is there."""
    (home / "dist").mkdir()
    (home / "dist" / "plan.json").write_text(json.dumps(plan(edition=UNTAGGED, **changes)), encoding="utf-8")
    return home / "dist"


@pytest.mark.parametrize("target", ["s3://wheels/whl", "github:me/mine", "pypi", "dir:a|s3://wheels/whl"])
def test_a_commit_without_its_tag_is_shown_to_nobody(target: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"this is demo 1\.0 of a commit without its tag, and .* does not accept it"):
        preview(folder_of(tmp_path), Destination(("dir:own", target)), world(tmp_path))


def test_a_target_of_the_config_is_refused_as_one_that_is_named(tmp_path: Path) -> None:
    asked = {**plan()["request"], "publish": {"pypi": "none", "targets": ["s3://wheels/whl"]}}
    with pytest.raises(InputError, match="s3://wheels/whl does not accept it"):
        preview(folder_of(tmp_path, request=asked), Destination(), world(tmp_path))


def test_a_workflow_publishes_it_not_even_to_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a workflow does not accept it"):
        preview(folder_of(tmp_path), Destination(("dir:own",), released=True), world(tmp_path))


def test_a_folder_of_ones_own_may_have_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is missing"):  # it goes on to look for the files
        preview(folder_of(tmp_path), Destination(("dir:own",)), world(tmp_path))


@pytest.mark.parametrize("target", ["dir:own", "dir:own|s3://wheels/whl", "s3://wheels/whl|dir:own"])
def test_a_runner_s_own_folder_is_no_target(target: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="dir:own is a folder of the runner, which is deleted with it"):
        preview(folder_of(tmp_path), Destination(("github:me/mine", target), distant=True), world(tmp_path))


@pytest.mark.slow
def test_a_target_is_known_to_be_wrong_before_anything_is_planned(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "nothing.yml", "--distant", "--to", "s3://wheels/whl", "--to", "dir:own"]) == 2
    assert "dir:own is a folder of the runner" in capsys.readouterr().err
    assert main(["plan", "nothing.yml", "--to", "dir:own"]) == 2
    assert "there is no nothing.yml" in capsys.readouterr().err
    assert main(["plan", "nothing.yml", "--to", "gihtub:me/mine"]) == 2
    assert '"gihtub:me/mine" is not a target' in capsys.readouterr().err
