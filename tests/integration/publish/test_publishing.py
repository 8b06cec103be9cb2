"""What publishing refuses before it looks at a file: a commit that nobody released."""

from __future__ import annotations

import pytest

from ci_tools.cli.main import main


@pytest.mark.slow
def test_a_target_is_known_to_be_wrong_before_anything_is_planned(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "nothing.yml", "--distant", "--to", "s3://wheels/whl", "--to", "dir:own"]) == 2
    assert "dir:own is a folder of the runner" in capsys.readouterr().err
    assert main(["plan", "nothing.yml", "--to", "dir:own"]) == 2
    assert "there is no nothing.yml" in capsys.readouterr().err
    assert main(["plan", "nothing.yml", "--to", "gihtub:me/mine"]) == 2
    assert '"gihtub:me/mine" is not a target' in capsys.readouterr().err
