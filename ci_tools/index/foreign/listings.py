"""Merges what the pages of a project list: its files, and the links that stay as they are.

No link is dropped. Pages that contradict each other about one address, in a hash or a yank, each keep what they say: it
is a plain link then, one for each of them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.catalog.accelerators import FOLDER
from ci_tools.index.file_names import project_and_version, variant_label, version_of
from ci_tools.index.pages import ADOPTED, ROOT, IndexedFile, Link

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName

    from ci_tools.index.foreign.pages import Listed


WEB_PAGES = (".html", ".htm")  # pages for people


class ForeignLinks(NamedTuple):
    """The links on the pages of one project: files, some with missing facts, and other links."""

    files: tuple[IndexedFile, ...]
    links: tuple[Link, ...]


class _Entry(NamedTuple):
    """What some pages say of an address, and the folders of these pages."""

    said: Listed
    folders: frozenset[str]


def merge_listings(
    project: NormalizedName, pages: Mapping[str, Iterable[Listed]], folders: Collection[str]
) -> ForeignLinks:
    """Return the files and links on a project's pages, given by the folder of their index; `folders` are all folders.

    A file that every folder lists is for every folder, including future ones, unless it has an accelerator's version.
    """
    entries = _group_by_address(pages)
    counts = Counter(entry.said.at for entry in entries)
    ranks = rank_names(project, [entry.said.name for entry in entries], twins=_has_twins(entries))
    files, others = [], []
    for entry, rank in zip(entries, ranks, strict=True):
        said, listing = entry
        if counts[said.at] == 1 and is_file_of(project, said.name):
            files.append(_file(said, listing, folders)._replace(rank=rank))
        elif not said.at.endswith("/") and "." in said.name.strip(".") and not said.name.endswith(WEB_PAGES):
            others.append(Link(only_in=tuple(sorted(listing)), rank=rank, **said._asdict()))
    return ForeignLinks(tuple(files), tuple(others))


def _has_twins(entries: Iterable[_Entry]) -> bool:
    """Return whether some page lists two files of one name."""
    counts = Counter((folder, entry.said.name) for entry in entries for folder in entry.folders)
    return any(count > 1 for count in counts.values())


def _group_by_address(pages: Mapping[str, Iterable[Listed]]) -> list[_Entry]:
    """Return the facts about each address, once if all pages agree, in the order of the pages."""
    found: dict[str, list[_Entry]] = {}
    for folder, links in sorted(pages.items(), key=lambda page: page[0] != ROOT):  # the root lists most of them
        for link in links:
            known = found.setdefault(link.at, [])
            place = next((place for place, entry in enumerate(known) if _agree(entry, link, folder)), None)
            if place is None:
                known.append(_Entry(link, frozenset({folder})))
            else:
                known[place] = _Entry(_merge(known[place].said, link), known[place].folders | {folder})
    return [entry for entries in found.values() for entry in entries]


def _agree(entry: _Entry, link: Listed, folder: str) -> bool:
    """Return whether two pages say the same; those of one folder, HTML and JSON, need not both have a yank."""
    hashes, more = (dict([("sha256", one.sha256), *one.hashes]) for one in (entry.said, link))
    is_same_file = not any(value and more.get(name, "") not in {"", value} for name, value in hashes.items())
    return is_same_file and (entry.said.yanked == link.yanked or folder in entry.folders)


def _merge(one: Listed, other: Listed) -> Listed:
    """Return the facts that two pages give of a link; the first page that gives a fact is right.

    Where only one of them has the sha256 and the other another hash, nobody has said that both are of one file: the
    sha256 waits among the others until the bytes are read.
    """
    said = other._asdict()
    missing = {name: said[name] for name, value in one._asdict().items() if not value and name != "yanked"}
    whole = one._replace(**missing, yanked=other.yanked if one.yanked is None else one.yanked)
    hashes = {**dict(other.hashes), **dict(one.hashes)}
    if bool(one.sha256) != bool(other.sha256) and (one.hashes if other.sha256 else other.hashes):
        whole, hashes = whole._replace(sha256=""), {**hashes, "sha256": whole.sha256}
    return whole._replace(
        hashes=tuple(sorted(hashes.items())), said=tuple(sorted({**dict(other.said), **dict(one.said)}.items()))
    )


def rank_names(project: str, names: Sequence[str], *, twins: bool = False) -> Iterator[int]:
    """Yield the rank of each name of a page: 0 where those of its version stand in their own order already.

    With `twins`, which one page lists, files of one name get ranks too: one of them may stay a link.
    """
    versions = [version_of(name, project) for name in names]
    found: dict[object, list[str]] = {}
    for version, name in zip(versions, names, strict=True):
        found.setdefault(version, []).append(name)
    orders = ((version, sorted({*theirs} if twins else theirs)) for version, theirs in found.items() if version)
    unsorted = {version for version, order in orders if found[version] != order}
    ranks = Counter[object]()
    for version in versions:
        ranks[version] += 1
        yield ranks[version] if version in unsorted else 0


def is_file_of(project: NormalizedName, name: str) -> bool:
    """Return whether a manifest can have a file; not a wheel variant, whose properties are not on pages of others."""
    try:
        return project_and_version(name)[0] == project and not variant_label(name)
    except ValueError:
        return False


def _file(link: Listed, listing: frozenset[str], folders: Collection[str]) -> IndexedFile:
    inside = not ("://" in link.at or link.at.startswith(("../", "/")))
    first = link.at.partition("/")[0] if inside and "/" in link.at else ""
    folder = first if FOLDER.fullmatch(first) else ROOT
    is_for_all = not folder and listing >= {ROOT, *folders} and project_and_version(link.name)[1].local is None
    by_rule = is_for_all or (folder and listing == {folder})
    usual = f"{folder}/{link.name}" if folder else link.name
    return IndexedFile(
        name=link.name,
        folder=folder,
        sha256=link.sha256,
        size=link.size,
        uploaded=link.uploaded,
        requires_python=link.requires_python,
        metadata_sha256=link.metadata_sha256,
        yanked=link.yanked,
        hashes=link.hashes,
        said=link.said,
        at="" if link.at == usual else link.at,
        only_in=() if by_rule else tuple(sorted(listing)),
        origin=ADOPTED,
    )
