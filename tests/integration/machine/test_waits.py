"""What a person reads while a server takes its time: what is waited for, and in the end one sentence."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_tools.cli.main import main
from ci_tools.cli.reporter import TerminalReporter
from ci_tools.machine import waits
from tests.builders.sources import write
from tests.servers.framing import Handler, Server
from tests.servers.threads import serve

pytestmark = pytest.mark.slow

CONFIG = 'package: demo\npython: ["3.11"]\nplatforms:\n  linux-cpu:\nsource: {{git: "{url}/x.git", ref: main}}\n'


PATIENCE = 60  # seconds
heard = threading.Event()
said: list[str] = []


def hear(_: TerminalReporter, line: str) -> None:
    said.append(line)
    heard.set()


@pytest.fixture(scope="module")
def slow_server() -> Iterator[str]:
    """Yield the address of a server that refuses every request, once its client has said a word."""

    class Late(Handler):
        def do_GET(self) -> None:
            heard.wait(PATIENCE)
            self.send_error(403)

    with serve(Server(Late)) as server:
        yield server.url


@pytest.mark.parametrize(
    ("words", "awaited"),
    [
        pytest.param(["init", ".", "--sdist", "demo"], "127.0.0.1 to answer", id="init"),
        pytest.param(["index", "find", "{url}/whl"], "127.0.0.1 to answer", id="index-find"),
        pytest.param(["plan"], "git ls-remote of {url}/x.git", id="plan"),
        pytest.param(["verify", "{url}/demo-1.0-py3-none-any.whl"], "127.0.0.1 to answer", id="verify"),
    ],
)
def test_a_verb_says_what_it_waits_for_and_how_that_ended(
    words: list[str],
    awaited: str,
    slow_server: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said.clear()
    heard.clear()
    monkeypatch.setattr(TerminalReporter, "say", hear)
    monkeypatch.setattr(waits, "EVERY", 0.1)
    monkeypatch.setenv("PIP_INDEX_URL", slow_server)
    monkeypatch.chdir(write(tmp_path, {"fatwheel.yml": CONFIG.format(url=slow_server)} if words == ["plan"] else {}))
    assert main([word.format(url=slow_server) for word in words]) == 3
    assert said[0] == f"waiting for {awaited.format(url=slow_server)}: 0 s"
    assert "403" in capsys.readouterr().err
