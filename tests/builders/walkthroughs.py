"""Pages whose steps are done as they are written: files, commands, and what the page shows of their output.

A fenced block after a line that ends with a file's name, such as "`setup.py`:", is the content of that file; a block of
YAML without a name is `fatwheel.yml`. A console block is typed. A line `…` in it stands for any others.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.builders.sources import git
from tests.servers.prepared import run_prepared

REPOSITORY = Path(__file__).parents[2]
BLOCK = re.compile(r"(?P<before>[^\n]*)\n\n```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"`([\w./-]+\.\w+)`[^`]*$")  # the file that a block is the content of
ANY = "…"  # a line that stands for any others, and in a path for what comes before
VARIES = re.compile(r"\d+\.\d s\b|\d+(\.\d+)? (B|kB)\b")  # seconds, and sizes: a compiler's
PARTS = re.compile(r"(?<=^time: )(.*) \(.*\)$")  # which parts of a run took time, and which of them the most
SHOWN = {"PYTHONPATH": str(REPOSITORY), "COLUMNS": "1000", "GITHUB_ACTIONS": ""}


class Block(NamedTuple):
    """A block of a page, and the line before it."""

    before: str
    language: str
    text: str


class Terminal(Protocol):
    """Runs a command line in a folder, and returns what a terminal shows of it."""

    def __call__(self, command: str, project: Path) -> str: ...


def read_blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page in their order."""
    for found in BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield Block(found["before"], found["language"], found["text"])


def follow(block: Block, project: Path, terminal: Terminal) -> None:
    """Do what a block says: type its commands, or write its file."""
    if block.language != "console":
        write_file(block, project)
        return
    for command, shown in commands(block.text):
        if not command.startswith("pip"):
            commit(project)
            assert_shown(shown, terminal(command, project), project)


def commit(project: Path) -> None:
    """Commit what the page has written since the last commit, if the project is a repository by now."""
    if (project / ".git").is_dir() and git(project, "status", "--porcelain"):
        git(project, "add", "--all")
        git(project, "commit", "--quiet", "--message", "what the page shows")


def install(said: str, folder: Path) -> Path:
    """Do the last line of a release, `pip install …`, in a new environment; return its Python."""
    words = next(line for line in reversed(said.splitlines()) if line.startswith("pip install ")).split()
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", *words], check=True, cwd=folder)
    return python


def write_file(block: Block, project: Path) -> None:
    """Write the file that a block shows."""
    named = NAMED.search(block.before)
    path = project / (named[1] if named else "fatwheel.yml")
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text() if block.before.startswith("At the end") else ""
    path.write_text(before + block.text)


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of a console block, each with the lines that are shown of its output."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def type_as_user(command: str, project: Path) -> str:
    """Run a command in a process of its own, with pip as the installer; return all that it prints."""
    return _run(command, project, {name: value for name, value in os.environ.items() if name != "FATWHEEL_INSTALLER"})


def type_quickly(command: str, project: Path) -> str:
    """Run a command with this process's installer: return what a release says, and of another verb its result only.

    What a plan says of its progress depends on what is in the cache.
    """
    verb = command.removeprefix("fatwheel ")
    if verb == command or verb.startswith("release "):
        return type_aloud(command, project)
    ran = run_prepared(verb.split(), cwd=project, env={**os.environ, **SHOWN})
    return ran.stdout or ran.stderr


def type_aloud(command: str, project: Path) -> str:
    """Run a command with this process's installer, under pip's name; return all that it prints."""
    verb = command.removeprefix("fatwheel ")
    if verb == command:
        return _run(command, project, os.environ)
    ran = run_prepared(verb.split(), cwd=project, env={**os.environ, **SHOWN}, together=True)
    return ran.stdout.replace("uv pip", "pip")


def _run(command: str, project: Path, environ: Mapping[str, str]) -> str:
    words = command.replace("fatwheel", f"{sys.executable} -m ci_tools", 1).split()
    ran = subprocess.run(
        words,
        cwd=project,
        env={**environ, **SHOWN, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ran.stdout


def assert_shown(shown: list[str], said: str, project: Path) -> None:
    """Hold what a page shows against what was said: in that order, all of it but where it says so."""
    actual = [_plain(line) for line in anonymous(said, project).splitlines()]
    parts: list[list[str]] = [[]]
    for line in map(_plain, shown):
        parts = [*parts, []] if line == ANY else [*parts[:-1], [*parts[-1], line]]
    at = 0
    for number, part in enumerate(parts):
        places = [at] if number == 0 else range(at, len(actual) + 1)
        place = next((place for place in places if actual[place : place + len(part)] == part), None)
        assert place is not None, f"{chr(10).join(part)}\n\nis not what it prints:\n\n{said}"
        at = place + len(part)
    if shown and shown[-1] != ANY:
        assert not any(actual[at:]), f"it prints more than the page shows:\n\n{said}"


def anonymous(said: str, project: Path) -> str:
    """Return an output without the place of the project on this machine."""
    return said.replace(str(project), f"/{ANY}")


def _plain(line: str) -> str:
    """Return a line without what is another at each run: times, sizes, and the width of a column."""
    return re.sub(r"\s+", " ", re.sub(r"─+", "─", VARIES.sub("#", PARTS.sub(r"\1", line)))).strip()
