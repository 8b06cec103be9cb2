"""What a release on this machine says before it builds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ci_tools.plan.make import make_plan
from ci_tools.publish.release import tell_config
from tests.builders.releases import Words
from tests.builders.sources import committed, demo, world_with_tools, write


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
