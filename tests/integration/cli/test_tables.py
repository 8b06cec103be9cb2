"""What a person sees is what is meant: no text of others moves the cursor, and none becomes a picture."""

from __future__ import annotations

import fcntl
import os
import pickle
import pty
import struct
import subprocess
import sys
import termios

import pytest

from ci_tools.cli.main import main
from ci_tools.cli.tables import layout


@pytest.mark.slow
def test_an_error_shows_hostile_text_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "\x1b[31mred :x:", "--format", "json"]) == 2
    said = capsys.readouterr().err
    assert ("\\x1b[31mred :x:" in said, "\x1b" in said) == (True, False)


NAMES = ("demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", "linux-cuda-cu130")


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_a_narrow_terminal_breaks_no_name(columns: int) -> None:
    table = layout.new_table("a title", "wheel", "job", "why")
    layout.add_row(table, *NAMES, "one sentence of several words " * 5)
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    code = "import pickle, sys; from ci_tools.cli.tables.layout import show; show([pickle.load(sys.stdin.buffer)])"
    variables = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}}
    subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(table), stdout=secondary, env={**variables, "TERM": "xterm"}, check=True,
    )  # fmt: skip
    os.close(secondary)
    lines = os.read(primary, 1 << 16).decode().splitlines()
    os.close(primary)
    assert all(any(name in line for line in lines) for name in NAMES)
    assert max(len(line.rstrip()) for line in lines if not line.startswith(("\x1b", "a title"))) <= columns
