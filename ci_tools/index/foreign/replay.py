"""Replays an adoption: each page of others is compared with ours in its place, as installers read both.

Among files that suit it alike, an installer takes the last or the first: their order counts as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from packaging.version import Version

from ci_tools.index import pages
from ci_tools.index.file_names import version_of
from ci_tools.index.foreign.pages import Listed, parse_project_page
from ci_tools.index.manifest import Manifest, slash


def replay(before: Manifest, after: Manifest, views: Iterable[tuple[str, Iterable[Listed]]]) -> Iterator[str]:
    """Yield what installers would get otherwise, page by page, if a project's manifest became another.

    `views` are the pages of others that ours would replace: the folder of each, and its links. Entries that
    the manifest has already are there by the user's own will, and win.
    """
    project = after.project
    known = {file.key for file in before.files.values()} | {link.at for link in before.links}
    rows = pages.spell(after.files.values(), after.links, project)
    for folder, links in views:
        place = f"{slash(folder)}{project}/"
        ours = pages.html_of(project, [row for row in rows if row.file.is_listed_in(folder)], (), folder)
        old, new = (_by_place(found, project) for found in (links, parse_project_page(ours, f"{place}index.html")))
        for where, what in _changes(old, new, known, project):
            yield f"{place}: {where} {what}"


def _by_place(links: Iterable[Listed], project: str) -> dict[str, Listed]:
    """Return the files on a page that installers take, by their places; each once."""
    found: dict[str, Listed] = {}
    for link in links:
        if link.at not in found and version_of(link.name, project):
            found[link.at] = link
    return found


def _changes(
    old: Mapping[str, Listed], new: Mapping[str, Listed], known: set[str], project: str
) -> Iterator[tuple[str, str]]:
    copies = {(link.name, link.sha256) for link in new.values() if link.sha256}
    for at, link in old.items():
        if at not in new and (link.name, link.sha256) in copies:
            continue
        if at not in new:
            yield at, "would not be listed any more"
        else:
            what = _contradiction(link, new[at], is_known=at in known)
            if what:
                yield at, what
    theirs = {
        link.name: at
        for at, link in old.items()
        if at not in known and (at in new or not link.sha256 or (link.name, link.sha256) not in copies)
    }
    for at, link in new.items():
        if at not in old and (at not in known or link.name in theirs):
            beside = f", beside {theirs[link.name]}" if link.name in theirs else ""
            yield at, f"would be listed, which this page does not list{beside}"
    orders = [_order(links, project) for links in (old, {at: new[at] for at in new if at in old})]
    for version, places in orders[0].items():
        first = next((at for at, now in zip(places, orders[1].get(version, ()), strict=False) if at != now), "")
        if first and all(at in new for at in places):
            yield first, f"would have another place among the files of {project} {version}"


def _contradiction(link: Listed, now: Listed, *, is_known: bool) -> str:
    """Return in words which fact of a file would be another one; "" if there is none."""
    hashes, new = (dict([*one.hashes, ("sha256", one.sha256)]) for one in (link, now))
    wrong = next((name for name, value in hashes.items() if value and new.get(name, "") not in {"", value}), "")
    if wrong:
        return f"would have another {wrong}"
    if any(hashes.values()) and not any(new.values()):
        return "would lose its hash"
    if not is_known and now.yanked != link.yanked:
        return "would be yanked" if now.yanked is not None else "would not be yanked any more"
    if not is_known and link.requires_python and now.requires_python != link.requires_python:
        return "would be for other Pythons"
    return ""


def _order(links: Mapping[str, Listed], project: str) -> dict[Version | None, list[str]]:
    found: dict[Version | None, list[str]] = {}
    for at, link in links.items():
        found.setdefault(version_of(link.name, project), []).append(at)
    return found
