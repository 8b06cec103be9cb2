"""Rooms that could be distributions of their own: each is a wheel of what it imports, and passes its tests alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.wheels import make
from tests.language.modules import ROOT, imports_of, list_modules

MACHINE = ("addresses", "errors", "machine")
INDEX = (*MACHINE, "catalog", "formats", "github", "index", "install", "model")
CONTEXT = {"index": ("machine.context",)}  # what a run of the room is given
STARTED = {"machine.process": "machine._lifeline"}  # a script is started by its path
PYTEST = ("hypothesis", "pypi-simple", "pytest")
# Tests that reach the index by a command, the address of a target or a plan, or read the repository.
WITH_TARGETS = "foreign/test_adoption foreign/test_guests foreign/test_kept maintain/test_look maintain/test_mirrors"
WITH_TARGETS += " maintain/test_recovery maintain/test_repairs test_units test_variants"
WITH_TARGETS += " finder/test_causes finder/test_style"


def closure_of(room: str) -> set[str]:
    """Return the modules of a room, with all that they import of the toolkit."""
    known = list_modules()
    todo = {name for name in known if name.split(".")[0] == room or name in CONTEXT.get(room, ())}
    found: set[str] = set()
    while todo:
        name = todo.pop()
        found.add(name)
        said = {f"{word}." for word in imports_of(name) if word.startswith("ci_tools.")}
        names = {one for one in known if any(word.startswith(f"ci_tools.{one}.") for word in said)}
        todo |= (names | {STARTED[name]} if name in STARTED else names) - found
    return found


@pytest.mark.parametrize(("room", "rooms"), [("sandbox", (*MACHINE, "sandbox")), ("index", INDEX)])
def test_a_room_that_could_stand_alone_imports_few_others(room: str, rooms: tuple[str, ...]) -> None:
    assert {name.split(".")[0] for name in closure_of(room)} == set(rooms)


@pytest.mark.long
@pytest.mark.parametrize(
    ("room", "requires", "folder", "others"),
    [
        ("sandbox", (), "tests/integration/sandbox", ""),
        (
            "index",
            ("PyGithub", "boto3", "cattrs", "filelock", "packaging", "requests"),
            "tests/unit/index",
            WITH_TARGETS,
        ),
    ],
)
def test_a_room_is_installed_alone(
    room: str, requires: tuple[str, ...], folder: str, others: str, tmp_path: Path
) -> None:
    members = {f"ci_tools/{path.relative_to(ROOT)}": path.read_bytes() for path in sorted(files_of(room))}
    fields = "".join(f"Requires-Dist: {name}\n" for name in requires)
    wheel = make(tmp_path, f"fatwheel_{room}-0.1.0-py3-none-any.whl", members, fields)
    (tmp_path / "tests").symlink_to(ROOT.parent / "tests")
    python = tmp_path / "own/bin/python"
    subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel, *PYTEST], check=True, cwd=tmp_path)
    options = ("-c", "/dev/null", "--rootdir", tmp_path, "--confcutdir", folder, "--import-mode=importlib")
    command = [python, "-m", "pytest", *options, "-q", "-m", "not long", folder]
    command += [f"--ignore={folder}/{name}.py" for name in others.split()]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:]


def files_of(room: str) -> Iterator[Path]:
    """Yield the files of a room's closure: its modules, the packages that they lie in, and the data beside them."""
    for name in closure_of(room):
        path = list_modules()[name]
        yield path
        for folder in path.relative_to(ROOT).parents:
            yield ROOT / folder / "__init__.py"
        yield from (one for one in path.parent.rglob("*") if one.is_file() and one.suffix not in {".py", ".pyc"})
