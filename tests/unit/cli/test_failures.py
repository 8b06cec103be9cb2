"""--verbose says what is done, on stderr, without secrets; an error then has its causes."""

from __future__ import annotations

import io
import logging
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
from rich.console import Console

from ci_tools.cli import failures
from ci_tools.cli.main import main
from ci_tools.errors import InputError, MachineError
from ci_tools.machine.process import output
from ci_tools.machine.storage import fill_once
from docs.pages.command_line import verbs
from tests.builders.sources import demo
from tests.servers.framing import Handler, Server
from tests.servers.threads import serve

COMMAND = "ci_tools.machine.process: run git "


class Answers(Handler):
    """Answers every request with 204."""

    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()


@contextmanager
def heard() -> Iterator[io.StringIO]:
    """Yield what is logged while the body runs."""
    said = io.StringIO()
    with failures.log_until_end():
        failures.start(Console(file=said, width=300))
        yield said


@pytest.fixture
def address() -> Iterator[str]:
    with serve(Server(Answers)) as server:
        yield server.url


@pytest.fixture
def config(tmp_path: Path) -> str:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    return str(demo(tmp_path) / "fatwheel.yml")


@pytest.mark.parametrize("name", sorted(verbs()))
def test_every_verb_takes_it(name: str) -> None:
    assert "--verbose" in verbs()[name].format_help()


@pytest.mark.parametrize("option", ["-v", "--verbose"])
def test_it_is_on_stderr_only(option: str, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", config, "--format", "github"]) == 0
    plain = capsys.readouterr()
    assert main(["plan", config, "--format", "github", option]) == 0
    said = capsys.readouterr()
    assert (said.out, COMMAND in said.err, COMMAND in plain.err) == (plain.out, True, False)


@pytest.mark.parametrize("name", failures.VARIABLES)
def test_a_variable_asks_for_it(
    name: str, config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    assert main(["plan", config]) == 0
    assert COMMAND in capsys.readouterr().err


def test_it_ends_with_the_command(config: str) -> None:
    before = [(logger.level, list(logger.handlers)) for logger in (failures.OURS, failures.HTTP)]
    assert main(["plan", config, "-v"]) == 0
    assert [(logger.level, list(logger.handlers)) for logger in (failures.OURS, failures.HTTP)] == before


def test_a_request_is_logged_without_its_secrets(address: str) -> None:
    with heard() as said:
        requests.get(f"{address}/wheel.whl?X-Amz-Signature=secret", headers={"Authorization": "secret"}, timeout=10)
    assert f"204 for GET {address}/wheel.whl?…" in said.getvalue()
    assert "secret" not in said.getvalue()


def test_a_command_is_logged_on_one_line_without_its_passwords() -> None:
    with heard() as said:
        output(["git", "ls-remote", "https://me:secret@127.0.0.1:1/demo\n::error::x"])
    (line,) = said.getvalue().splitlines()
    assert line.startswith("ci_tools.machine.process: run git ls-remote https://***@127.0.0.1:1/demo\\n::error::x")


def test_the_cache_is_logged(tmp_path: Path) -> None:
    with heard() as said:
        for _ in range(2):
            fill_once(tmp_path / "kept", lambda folder: (folder / "file").touch(), print)
    lines = [line for line in said.getvalue().splitlines() if "cache" in line]
    assert lines == [f"ci_tools.machine.storage: cache {how}: {tmp_path / 'kept'}" for how in ("miss", "hit")]


def failure() -> MachineError:
    cause = ConnectionError("no route to https://store.example/a?token=secret")
    between = InputError("the index cannot be read")
    between.__cause__ = cause
    error = MachineError("nothing was published")
    error.__cause__ = between
    return error


def test_an_error_has_its_causes_with_it_only() -> None:
    with heard() as said:
        failures.print_error(Console(file=said, width=300), failure())
    assert said.getvalue().splitlines() == [
        "fatwheel: nothing was published",
        "  caused by InputError: the index cannot be read",
        "  caused by ConnectionError: no route to https://store.example/a?…",
    ]
    said = io.StringIO()
    failures.print_error(Console(file=said, width=300), failure())
    assert said.getvalue() == "fatwheel: nothing was published\n"


def test_a_failed_call_of_the_system_is_a_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["init", str(tmp_path / "file" / "folder"), "-v"]) in {2, 3}
    assert "Traceback" not in capsys.readouterr().err


def test_the_channel_is_silent_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger("ci_tools.machine.process").debug("not shown")
    assert capsys.readouterr() == ("", "")
