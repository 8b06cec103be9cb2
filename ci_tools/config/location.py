"""Where a config is: `fatwheel.yml`, or the table `[tool.fatwheel]` of a pyproject.toml, here or in a folder above."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ci_tools.errors import InputError, Problem, RejectedInput
from ci_tools.formats import toml_file, yaml_file
from ci_tools.formats.yaml_file import Document
from ci_tools.model.names import CONFIG_FILE

PROJECT_FILE = "pyproject.toml"
TABLE = ("tool", "fatwheel")
MAX_SHOWN = 8  # configs that a message lists
BUILD_FILES = (PROJECT_FILE, "setup.py")
HINT = "`fatwheel init` writes a starter from what it finds in the source"


def find_config(folder: Path, home: Path) -> Path:
    """Return the path of the nearest config: in `folder`, or above it up to the root of its repository.

    Outside a repository, the folders up to `home` are looked at, if `folder` is below it. Raises InputError if there
    is none.
    """
    places = list(_folders(folder, home))
    for place in places:
        if config := config_in(place):
            return config
    above = f" and none in a folder above, up to {places[-1]}" if places[1:] else ""
    msg = f"there is no {folder / CONFIG_FILE}{above}, expected a config that says what to build"
    if below := _list_below(folder):
        raise InputError(f"{msg}; below it: {', '.join(below)}", hint=f"name one of them, such as {below[0]}")
    if not any((place / file).is_file() for place in places for file in BUILD_FILES):
        raise InputError(msg, hint=f"{HINT} of a package; here is no {' and no '.join(BUILD_FILES)}")
    raise InputError(msg, hint=f"{HINT}; it may also be the table [{'.'.join(TABLE)}] of {PROJECT_FILE}")


def config_in(folder: Path) -> Path | None:
    """Return the config of a folder itself; None if it has none."""
    if (folder / CONFIG_FILE).exists():
        return folder / CONFIG_FILE
    return folder / PROJECT_FILE if table_in(folder / PROJECT_FILE) is not None else None


def _list_below(folder: Path) -> list[str]:
    """Return the configs of a monorepo's projects, two folders down at most: of more, the first ones."""
    found = (path for depth in ("*", "*/*") for path in sorted(folder.glob(f"{depth}/{CONFIG_FILE}")))
    shown = (path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    return [str(path) for path in islice(shown, MAX_SHOWN)]


def find_project(folder: Path, home: Path) -> Path:
    """Return the nearest folder with a project's build file, as `find_config` looks; `folder` if none has one."""
    places = _folders(folder, home)
    return next((place for place in places if any((place / file).is_file() for file in BUILD_FILES)), folder)


def _folders(folder: Path, home: Path) -> Iterator[Path]:
    """Yield the folders in which a config is looked for; relative to `folder` if it is relative."""
    full = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would leave a link to the folder of a project
    above = [full, *full.parents]  # nearest first
    # .git is a file in a worktree and in a submodule (gitrepository-layout(5)).
    roots = [place for place in above if (place / ".git").exists()] or [place for place in above[1:] if place == home]
    for number, place in enumerate(above[: above.index(roots[0]) + 1] if roots else [full]):
        yield folder.joinpath(*[".."] * number) if not folder.is_absolute() else place


def table_in(path: Path) -> object | None:
    """Return the config's table in a pyproject.toml, with unchecked values; None if the file or the table is missing.

    Raises InputError if the file is not TOML and might have the table.
    """
    if not path.is_file():
        return None
    text = yaml_file.text_of(path, str(path), "a TOML file")
    return toml_file.find_table(text, str(path), TABLE) if TABLE[-1] in text else None  # parsing is slow


def describe(path: Path) -> str:
    """Return a config's place in words."""
    return f"{path} [{'.'.join(TABLE)}]" if path.name == PROJECT_FILE else str(path)


def read_document(path: Path, name: str) -> Document:
    """Read the config at `path`, called `name` in messages.

    Raises InputError with every mistake in its syntax, or if the folder has two configs.
    """
    if not path.exists():
        raise InputError(f"there is no {path}, expected a config that says what to build", hint=HINT)
    beside = path.with_name(PROJECT_FILE)
    is_one_of_two = path.name in {CONFIG_FILE, PROJECT_FILE} and path.with_name(CONFIG_FILE).exists()
    if is_one_of_two and table_in(beside) is not None:
        where = toml_file.read(beside, str(beside), TABLE).where()
        both = f"the table [{'.'.join(TABLE)}] is a config, and so is {path.with_name(CONFIG_FILE)}"
        raise RejectedInput([Problem(where, f"{both}, expected one of them")])
    is_toml = path.suffix == ".toml"
    return toml_file.read(path, name, TABLE) if is_toml else yaml_file.read(path, name)
