"""Lines about a starter config: what was found in the source, what was left out, and what a person looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.config.starter import WrittenConfig
    from ci_tools.config.starter.choices import PlatformChoice, Starter


def describe_starter(written: WrittenConfig) -> Iterator[str]:
    """Yield what was found, a line for each platform and each thing to look at."""
    found = written.starter
    where = f" in {found.folder}" if found.folder else ""
    yield plain(f"found {found.name} {found.version or '(version not stated)'}{where}, built by {found.backend}")
    for names, why in _group((_name(one), one.why) for one in found.platforms):
        yield plain(f"  {names}: {why}")
    for names, why in _group((one.platform, one.why) for one in found.left):
        yield plain(f"  left out: {names}: {why}")
    yield plain(f"  Python {', '.join(map(str, found.pythons))}; {_torch(found)}")
    for note in found.told.notes:
        yield plain(f"  {note.place}: cibuildwheel's {note.option}: {note.what}")
    if written.callers:
        names = " ".join(written.callers)
        call, ask = ("call", "they ask") if written.callers[1:] else ("calls", "it asks")
        command = f"`fatwheel init --from-test-infra {names}` takes what {ask} for"
        yield plain(f"  {names} {call} pytorch/test-infra: {command}")
    if written.others:
        yield plain(f"  also in this source: {', '.join(map(str, written.others))}; --package names another one")
    if not found.version:
        yield "  look at `version`: the source does not state it"


def _group(reasons: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the names that share a reason together."""
    names: dict[str, list[str]] = {}
    for name, why in reasons:
        names.setdefault(why, []).append(name)
    yield from ((", ".join(found), why) for why, found in names.items())


def _name(one: PlatformChoice) -> str:
    versions = f" ({one.kind} {', '.join(map(str, one.versions))})" if one.versions else ""
    return f"{one.platform}{versions}"


def _torch(found: Starter) -> str:
    torch = found.torch
    if not torch.versions:
        return "no torch axis: nothing that is compiled uses torch"
    if torch.is_open:
        return f"every torch from {torch.versions[0]} on: {torch.why}"
    return f"torch {', '.join(map(str, torch.versions))} only: {torch.why}"
