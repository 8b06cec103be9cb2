"""Reads the finder's data of a whole index: from a folder, a bucket, or the address where it is served."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import InputError, MachineError, nearest
from ci_tools.github.client import printable
from ci_tools.index.finder.data import data_path
from ci_tools.index.finder.recipes import RECIPES, parse_recipes
from ci_tools.index.finder.search import parse_project
from ci_tools.index.foreign.pages import projects_on
from ci_tools.machine.http.client import open_session, read_document
from ci_tools.machine.http.faults import UNANSWERED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ci_tools.index.finder.recipes import Maker
    from ci_tools.index.finder.search import ProjectTable
    from ci_tools.machine.context import Reporter

    Read = Callable[[str], bytes | None]

FRONT = "index.html"
WORKERS = 16  # concurrent requests: each mostly waits for the server


class Shelves(NamedTuple):
    """The finder's data of an index: its projects, and the recipes that make what it does not have."""

    projects: tuple[ProjectTable, ...]
    makers: tuple[Maker, ...]
    form: str  # the address where a wheel can be asked for; empty: none


@contextmanager
def open_web(address: str) -> Iterator[Read]:
    """Yield a function that reads files below the address of an index; it returns None where there is none."""
    root = f"{address.removesuffix(FRONT).rstrip('/')}/"

    def read(key: str) -> bytes | None:
        try:
            return read_document(session, f"{root}{key}")
        except UNANSWERED as error:
            raise MachineError(f"{root}{key} cannot be read: {printable(str(error))}") from error

    with open_session() as session:
        yield read


def read_shelves(read: Read, where: str, only: Sequence[str], reporter: Reporter) -> Shelves:
    """Return what the finder knows of the index at `where`, of all its projects or `only` of some.

    A project whose data is not there or not whole is left out, and reported. Raises InputError if it is not an index
    with a finder, or if a project is in neither the index nor a recipe.
    """
    front = read(FRONT)
    try:
        names = projects_on(front, FRONT) if front else ()
    except ValueError:
        names = ()
    makers, form = _read_recipes(read, reporter)
    if not names and not makers:
        raise InputError(f"{where} has no front page that lists projects, expected an index that Fatwheel wrote")
    known = {*names, *(maker.project for maker in makers)}
    for name in only:
        if name not in known:
            raise InputError(f'{where} has no project "{printable(name)}", nor has a recipe, {nearest(name, known)}')
    with ThreadPoolExecutor(WORKERS) as pool:
        wanted = [name for name in dict.fromkeys(names) if not only or name in only]
        found = list(pool.map(lambda name: _read_project(read, name, reporter), wanted))
    kept = tuple(maker for maker in makers if not only or maker.project in only)
    return Shelves(tuple(filter(None, found)), kept, form)


def _read_project(read: Read, name: str, reporter: Reporter) -> ProjectTable | None:
    content = read(data_path(name))
    try:
        if content is not None:
            return parse_project(content)
        why = "is not there"
    except ValueError as error:
        why = f"is not whole: {printable(str(error))}"
    reporter.say(f"left out: {name}: {data_path(name)} {why}")
    return None


def _read_recipes(read: Read, reporter: Reporter) -> tuple[tuple[Maker, ...], str]:
    content = read(RECIPES)
    if content is None:
        return (), ""
    try:
        return parse_recipes(content)
    except ValueError as error:
        reporter.say(f"left out: the recipes: {RECIPES} is not whole: {printable(str(error))}")
        return (), ""
