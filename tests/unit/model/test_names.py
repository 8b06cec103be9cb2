"""The name that stands for a text of somebody else's: of a file, a folder, a branch, a tag and an artifact."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ci_tools.model.names import MAX_NAME, is_tag, safe_name
from tests.workflows.repositories import STANDINS

HOSTILE = {
    "slash": "demo/v1.0", "up": "../../x", "absolute": "/etc/x", "backslash": "a\\b", "colon": "C:x", "quote": 'a"b',
    "line": "a\nb::error::x", "nul": "a\0b", "glob": "*?", "option": "--to=x", "dot": ".hidden", "git": ".git",
    "lock": "a.lock", "dots": "a..b", "at": "a@{1}", "blank": " a b ", "end": "a.", "device": "nul.txt", "empty": "",
    "long": "a" * 300, "letters": "über", "surrogate": "a\udc80", "expression": "${{ github.token }}", "home": "~root",
}  # fmt: skip
KEPT = ["demo-v1.0", "demo-v1.0+cu130", "cupy-cuda13x-v13.6.0-py313-torch2.10.0-cu130", "a", "_x", "a" * MAX_NAME]
(FORBIDDEN,) = re.findall(r"FORBIDDEN = re.compile\(r'(.+)'\)", (STANDINS / "upload_artifact.py").read_text("utf-8"))


@pytest.mark.parametrize("text", KEPT)
def test_a_plain_text_names_itself(text: str) -> None:
    assert safe_name(text) == text


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_any_other_text_gets_a_name_that_everything_takes(text: str, tmp_path: Path) -> None:
    name = safe_name(text)
    assert safe_name(name) == name != text
    assert not re.search(FORBIDDEN, name)
    assert is_tag(name)
    (tmp_path / name).write_text("")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    subprocess.run(["git", "check-ref-format", "--branch", name], check=True, capture_output=True)


def test_no_two_texts_get_one_name() -> None:
    assert len({safe_name(text) for text in HOSTILE.values()}) == len(HOSTILE)


ASCII = {name: text for name, text in HOSTILE.items() if "\0" not in text and text.isascii()}


@pytest.mark.parametrize("text", ASCII.values(), ids=ASCII)
def test_a_tag_is_what_git_takes_for_one(text: str) -> None:
    done = subprocess.run(["git", "check-ref-format", f"refs/tags/{text}"], check=False)
    assert is_tag(text) == (done.returncode == 0 and not text.startswith(("-", "/")))  # an option; git drops a slash
