"""What a release on this machine says, or refuses, before it builds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.build.jobs import refuse_place
from ci_tools.errors import InputError
from ci_tools.plan import plan_file
from ci_tools.plan.make import make_plan
from ci_tools.publish.release import tell_config
from tests.builders.releases import Words
from tests.builders.sources import CONFIG, PROJECT, committed, demo, world_with_tools, write


def test_a_config_that_its_commit_has_not_is_told(tmp_path: Path) -> None:
    folder, words = demo(tmp_path / "source"), Words()
    config, outside = folder / "fatwheel.yml", replace(world_with_tools(tmp_path), reporter=words)
    committed(folder)
    planned = make_plan(config, outside)
    tell_config(planned, outside)
    assert words.lines == []
    write(folder, {"fatwheel.yml": f"{config.read_text()}# another\n"})
    tell_config(planned, outside)
    assert len(words.lines) == 1
    assert words.lines[0].startswith("warning: the config fatwheel.yml is not as in the commit: commit it")


def test_a_folder_with_the_plan_of_another_project_is_refused(tmp_path: Path) -> None:
    other = {"fatwheel.yml": CONFIG.replace("demo", "beta", 1), "pyproject.toml": PROJECT.replace("demo", "beta", 1)}
    outside, out = world_with_tools(tmp_path), tmp_path / "dist"
    one, two = (
        make_plan(demo(tmp_path / name, files) / "fatwheel.yml", outside) for name, files in (("a", {}), ("b", other))
    )
    write(out, {"plan.json": plan_file.dumps(one.plan)})
    refuse_place(out, one)
    with pytest.raises(InputError, match="holds the plan of demo, expected a folder for beta alone") as caught:
        refuse_place(out, two)
    assert f"`--out {out}/beta`" in caught.value.hint
    write(out, {"plan.json": "{}"})
    refuse_place(out, two)
