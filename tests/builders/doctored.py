"""A repository in which nothing is wrong, and what fatwheel doctor says of one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.doctor.check import check, status, to_json
from ci_tools.errors import FatwheelError
from ci_tools.github.client import Hub
from ci_tools.machine.context import Outside
from tests.builders.releases import Words
from tests.servers.github import REPOSITORY, TOKEN, GitHub
from tests.servers.github_settings import Settings
from tests.servers.prepared import run_prepared

NEW, OLD, LOOSE = "1" * 40, "2" * 40, "3" * 40
RELEASE = ".github/workflows/release.yml"
FATWHEEL = "octo-tools/fatwheel/**@*"
GRANTS = "permissions: { contents: read, id-token: write, attestations: write }"


class Told(NamedTuple):
    """What was said."""

    status: int
    stdout: str
    stderr: str

    @property
    def whole(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.stdout)
        return document

    @property
    def rules(self) -> list[str]:
        return [finding["rule"] for finding in self.whole["findings"]]

    def finding(self, rule: str) -> dict[str, Any]:
        return next(finding for finding in self.whole["findings"] if finding["rule"] == rule)


def doctor(hub: GitHub, repository: str = REPOSITORY, *, fix: bool = False, **environ: str) -> Told:
    """Return what is found, and what a user is told where nothing could be."""
    words = Words()
    variables = {"GH_TOKEN": TOKEN, "GITHUB_API_URL": hub.url, **environ}
    outside = Outside(environ=variables, cache=Path("nowhere"), reporter=words)
    try:
        checked = check(Hub(repository, outside, pause=0.01, patience=5), fix=fix)
    except FatwheelError as error:
        return Told(error.status, "", str(error))
    return Told(status(checked), json.dumps(to_json(checked), indent=1, ensure_ascii=False), "\n".join(words.lines))


def command(hub: GitHub, *arguments: str, **environ: str) -> Told:
    """Return what the command line says."""
    variables = {**os.environ, "GH_TOKEN": TOKEN, "GITHUB_API_URL": hub.url, "NO_COLOR": "1", **environ}
    ran = run_prepared(["doctor", *arguments], env=variables, timeout=100)
    return Told(ran.returncode, ran.stdout, ran.stderr)


def replaced(settings: Settings, old: str, new: str, path: str = RELEASE) -> None:
    """Replace words of a workflow file."""
    text = settings.files[path].decode()
    assert old in text
    settings.files[path] = text.replace(old, new).encode()
