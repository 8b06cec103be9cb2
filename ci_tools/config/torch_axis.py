"""Reads `torch:` of a config: a list, the lowest, the last few, and a nightly beside or instead of them.

A nightly is asked for by the word `nightly`, or by `nightly 20261125` for that of one day. Which one it is stands in
the project's catalog, where `fatwheel catalog update` has written it; a nightly that nobody asks for does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ci_tools.catalog import Catalog, PlatformFacts, tables
from ci_tools.errors import Problem
from ci_tools.model.platforms import Accelerator, AcceleratorKind, Platform
from ci_tools.model.request import Torch
from ci_tools.model.versions import Minor, Python
from ci_tools.observe.cells import list_released

if TYPE_CHECKING:
    from ci_tools.formats.yaml_file import Document, Keys, Value

    Table = dict[str, Any]

NEWEST = "newest"
NIGHTLY = re.compile(r"nightly(?: (20\d{6}))?", re.ASCII)  # the day, as in 2.14.0.dev20261125
LAST = re.compile(r"last (\d+)")
# Keys that no config can have: the number in `torch: last 3`, and the nightly in words, once both are expanded.
LAST_KEY, NIGHTLY_KEY = "newest torch", "torch nightly"
ONE_ONLY = "this is a second nightly, expected one at most"


def find_asked(value: object) -> str | None:
    """Return which nightly a config's `torch` asks for: a date, or `newest`; None if it asks for none."""
    if isinstance(value, dict):
        said = value.get("nightly")
        return said if isinstance(said, str) else None
    texts = value if isinstance(value, list) else [value]
    found = (NIGHTLY.search(text) for text in texts if isinstance(text, str))
    return next((one[1] or NEWEST for one in found if one), None)


def choose_nightly(asked: str | None, versions: Iterable[str]) -> str | None:
    """Return the nightly that is asked for, of those in a project's catalog; None if it is not there."""
    known = sorted(map(Minor.parse_torch, versions))
    fitting = [one for one in known if asked in {NEWEST, one.nightly}]
    return str(fitting[-1]) if fitting else None  # sorted: the newest of them


def explain_unproven(shim: str, torches: Iterable[str]) -> str:
    """Return in words for which of these torches a shim is not proven; "" if there is none."""
    proven = tables.read("shims")[shim]["torches"]
    others = ", ".join(one for one in torches if one not in proven)
    return others and f"the shim {shim} is not proven for torch {others}, expected only {', '.join(proven)}"


def expand_torch(
    document: Document, flawed: Sequence[Keys], catalog: Catalog, *, needs_nightly: bool = True
) -> tuple[Document, tuple[Problem, ...]]:
    """Return the document with a list in place of the words of `torch`, and what such words ask for in vain.

    If another part of the document is flawed, `last 3` are the newest of all: they only serve to find other mistakes.
    """
    root: Table = document.value  # type: ignore[assignment]  # checked by the schema
    said: Any = root.get("torch")
    asked = find_asked(said)
    if ("torch",) in flawed or (asked is None and not isinstance(said, str)):
        return document, ()
    nightly = next((str(torch) for torch in catalog.torch if torch.nightly), None)
    is_missing = asked is not None and nightly is None and needs_nightly  # `catalog update` looks for it
    problems: tuple[Problem, ...] = ()
    if is_missing:
        which = "no nightly of torch" if asked == NEWEST else f"no nightly of torch of {asked}"
        expected = "expected one that `fatwheel catalog update --index URL` writes there"
        problems = (Problem(document.where(("torch",)), f"{which} is in the project's catalog, {expected}"),)
    more: Table = {} if asked is None else {NIGHTLY_KEY: asked}
    if isinstance(said, dict):
        return document._replace(value={**root, **more}), problems
    if isinstance(said, list):  # each word stays at its place, which messages about it name
        words = [index for index, text in enumerate(said) if isinstance(text, str) and NIGHTLY.fullmatch(text)]
        problems += tuple(Problem(document.where(("torch", index)), ONE_ONLY) for index in words[1:])
        there = [nightly if index in words else text for index, text in enumerate(said)]
        return document._replace(value={**root, "torch": [text for text in there if text], **more}), problems
    listed: list[Value] = []
    if last := LAST.match(said):
        wanted = int(last[1])
        everything = tuple(sorted(torch for torch in catalog.torch if not torch.nightly))
        released = everything if flawed else _list_for(root, catalog)
        if wanted > len(released):
            some = f"{len(released)} ({', '.join(map(str, released))})" if released else "none"
            what = f"`{said}`: of torch, upstream has released {some} for these platforms, CUDA versions and Pythons"
            problems = (*problems, Problem(document.where(("torch",)), what))
        listed = [str(torch) for torch in released[-wanted:] or (catalog.newest_torch,)]  # to find other mistakes
        more[LAST_KEY] = wanted
    listed += [nightly] if nightly else []
    return document._replace(value={**root, "torch": listed, **more}), problems


def _list_for(root: Table, catalog: Catalog) -> tuple[Minor, ...]:
    """Return every torch that upstream has released for some of a config's platforms and Pythons."""
    facts: Mapping[Platform, PlatformFacts] = catalog.platforms
    stacks = [
        (Platform(name), accelerator)
        for name, table in root["platforms"].items()
        for accelerator in read_accelerators(facts[Platform(name)].accelerator, table or {}) or (None,)
    ]
    return list_released(stacks, tuple(map(Python.parse, root["python"])), catalog)


def read_accelerators(kind: AcceleratorKind | None, table: Table) -> tuple[Accelerator, ...]:
    """Return the versions of its accelerator that a platform's table asks for; without one, the accelerator itself."""
    if kind is None:
        return ()
    versions = sorted(map(Minor.parse, table.get(kind, ())))
    return tuple(Accelerator(kind, version) for version in versions) or (Accelerator(kind),)


def read_torch(root: Mapping[str, Any]) -> Torch | None:
    """Return the torch axis of a config whose words are expanded."""
    value, nightly = root.get("torch"), root.get(NIGHTLY_KEY)
    if value is None:
        return None
    if isinstance(value, list):
        return Torch(versions=tuple(sorted(map(Minor.parse_torch, value))), last=root.get(LAST_KEY), nightly=nightly)
    return Torch(lowest=Minor.parse(value["lowest"]), nightly=nightly)


def list_torches(value: object, catalog: Catalog) -> Iterator[Minor]:
    """Yield every torch that a config asks for, whose words are expanded."""
    if isinstance(value, dict):
        asks = find_asked(value) is not None
        lowest = Minor.parse(value["lowest"])
        yield from (torch for torch in sorted(catalog.torch) if torch >= lowest and (asks or not torch.nightly))
    elif isinstance(value, list):
        yield from sorted(map(Minor.parse_torch, value))
