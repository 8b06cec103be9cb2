"""What a user configured for git holds for a source that git fetches, and nothing of the project's does."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from ci_tools.errors import MachineError
from tests.builders.sources import write
from tests.servers.framing import Handler, Server
from tests.servers.threads import serve
from tests.unit.source.test_files import asking, opened, repositories, repository

__all__ = ["repositories", "repository"]  # fixtures

pytestmark = pytest.mark.slow


class Locked(Handler):
    """Lets nobody in, and notes who asks."""

    def do_GET(self) -> None:
        """Ask for a user."""
        self.server.asked.append(self.headers.get("Authorization", ""))  # type: ignore[attr-defined]
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_an_address_is_the_one_that_the_user_put_in_its_place(repository: Path) -> None:
    settings = f'[url "file://{repository}"]\n\tinsteadOf = https://host.invalid/demo\n'
    own = write(repository.parent / "own", {"gitconfig": settings}) / "gitconfig"
    folder = asking(repository.parent / "ask", "source: {git: 'https://host.invalid/demo', ref: main}")
    assert opened(folder, GIT_CONFIG_GLOBAL=str(own)).commit


def test_the_users_credential_helper_is_asked(tmp_path: Path) -> None:
    helper = "!f() { echo username=me; echo password=word; }; f"
    own = write(tmp_path / "own", {"gitconfig": f'[credential]\n\thelper = "{helper}"\n'}) / "gitconfig"
    with serve(Server(Locked)) as server:
        server.asked = []  # type: ignore[attr-defined]
        folder = asking(tmp_path / "ask", f"source: {{git: '{server.url}/demo', ref: main}}")
        with pytest.raises(MachineError) as refused:
            opened(folder, GIT_CONFIG_GLOBAL=str(own))
    assert f"Basic {base64.b64encode(b'me:word').decode()}" in server.asked  # type: ignore[attr-defined]
    assert "word" not in str(refused.value)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives a folder to another")
@pytest.mark.parametrize("trusted", [True, False])
def test_a_checkout_of_another_users_is_read_trusted_or_not(repository: Path, *, trusted: bool) -> None:
    """Git is given the folder, and refuses only one that it finds itself; nothing that its settings name runs."""
    folder = asking(repository.parent / "work", "")
    settings = f"[safe]\n\tdirectory = {folder}\n" if trusted else ""
    own = write(repository.parent / "own", {"gitconfig": settings}) / "gitconfig"
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    assert opened(folder, GIT_CONFIG_GLOBAL=str(own)).commit
