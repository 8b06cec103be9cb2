"""What a person sees is what is meant: no text of others moves the cursor, and none becomes a picture."""

from __future__ import annotations

import pytest

from ci_tools.cli.main import main


@pytest.mark.slow
def test_an_error_shows_hostile_text_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "\x1b[31mred :x:", "--format", "json"]) == 2
    said = capsys.readouterr().err
    assert ("\\x1b[31mred :x:" in said, "\x1b" in said) == (True, False)
