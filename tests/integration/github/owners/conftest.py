"""The issues of a repository, and a config whose platform has an owner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.owner_issues import CONFIG
from tests.servers.github import GitHub
from tests.servers.github_issues import Talk, settle


@pytest.fixture
def talk(hub: GitHub) -> Talk:
    return settle(hub)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("fatwheel.yml").write_text(CONFIG, encoding="utf-8")
    return Path("fatwheel.yml")
