"""What every folder of tests shares."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _no_repository_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which repository runs these tests: git hooks say it in variables that git commands of ours would obey."""
    for name in os.environ:
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
