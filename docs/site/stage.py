"""Lays the pages out for the generator: a page for each section, and links that hold on the site.

On a code host, docs/README.md lists the pages by section and a link may lead to any file. On the site each section of
that list is a page, and a link to a file that is no page leads to the repository, at the commit that the site is of.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from docs.site.errors import FOLDER, error_pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

CONTENTS = Path("docs/README.md")
FRONT = Path("docs/index.md")
# The pages outside docs/ that the site has too, by section and place there.
BESIDE: Mapping[str, str] = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "package/README.md": "project/reference-package.md",
    "kernels/README.md": "project/kernels.md",
}
PROJECT = "How Fatwheel is made, what changed, and the package that it releases itself."
SCHEMA = Path("docs/reference/fatwheel.schema.json")
EXTRA = "_extra"  # the folder whose files are copied to the site as they are
INDEX = "whl"  # the folder on the site of the reference package's index
MARK = "<!-- finder -->"  # the place of the finder on the front page
FINDER = f"""\
## Find a wheel

The front page of the [reference package](project/reference-package.md)'s index, which `make release` publishes:

<iframe class="finder" src="{INDEX}/index.html" title="The finder of the reference package"></iframe>
"""
FENCE = re.compile(r"(^```.*?^```\n?)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
SECTION = re.compile(r"^\*\*(.+?)\*\*(.*?)(?=^\*\*|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Section:
    """A section of the list of pages: its title, what the list says in it, and its pages in their order."""

    title: str
    text: str
    pages: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The folder of its pages."""
        return self.pages[0].partition("/")[0]


def stage(root: Path, target: Path, index: Path, repository: str = "") -> None:
    """Write what the generator reads into `target`, from a checkout at `root`.

    `index` is the folder of a published index: where there is one, the front page shows its finder. `repository` is the
    address that a file's path follows, or empty if links to such files are to be text.
    """
    places = _places(root)
    for source, name in places.items():
        text = rewrite_links((root / source).read_text(encoding="utf-8"), source, places, root, repository)
        _write(target / name, text)
    for name, text in error_pages(
        root, lambda text, source, at: rewrite_links(text, source, places, root, repository, at)
    ):
        _write(target / name, text)
    listed = [*sections((root / CONTENTS).read_text(encoding="utf-8")), _project(places)]
    for section in listed:
        _write(target / section.folder / "index.md", _landing(section))
    folders = [*(section.folder for section in listed[:-1]), FOLDER, listed[-1].folder]
    (target / EXTRA).mkdir(parents=True)
    shutil.copy(root / SCHEMA, target / EXTRA / SCHEMA.name)
    front = (target / "index.md").read_text(encoding="utf-8")
    if (index / "index.html").is_file():
        shutil.copytree(index, target / EXTRA / INDEX)
        front = front.replace(MARK, FINDER)
    _write(target / "index.md", front + _tree(f"{folder}/index" for folder in folders))


def sections(contents: str) -> Iterator[Section]:
    """Yield the sections of a list of pages: a bold title, and links."""
    for found in SECTION.finditer(contents):
        pages = tuple(link for _, link in LINK.findall(found[2]) if link.endswith(".md"))
        if pages:
            yield Section(found[1], found[2].strip(" :,\n"), pages)


def rewrite_links(
    text: str, source: Path, places: Mapping[Path, str], root: Path, repository: str = "", at: str = ""
) -> str:
    """Return a page's text with links that hold on the site; a link to nothing stays, and the generator refuses it.

    `at` is where the text goes on the site, if not to its page's own place.
    """
    here = Path(at or places[source]).parent

    def changed(match: re.Match[str]) -> str:
        words, link = match[1], match[2]
        path, _, anchor = link.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return match[0]
        file = Path(os.path.normpath(source.parent / path))
        if place := places.get(file):
            near = os.path.relpath(place, here)
            return f"[{words}]({near}{'#' * bool(anchor)}{anchor})"
        if file == CONTENTS:
            return f"[{words}]({os.path.relpath('index.md', here)})"
        if not (root / file).exists():
            return match[0]
        return f"[{words}]({repository}/{file.as_posix()})" if repository else words

    parts = FENCE.split(text)
    return "".join(part if place % 2 else LINK.sub(changed, part) for place, part in enumerate(parts))


def _places(root: Path) -> dict[Path, str]:
    """Return the place on the site of each page of the checkout."""
    docs = (path.relative_to(root) for path in sorted((root / "docs").rglob("*.md")))
    inside = {path: path.relative_to("docs").as_posix() for path in docs if path != CONTENTS}
    return {**inside, **{Path(name): place for name, place in BESIDE.items()}}


def _project(places: Mapping[Path, str]) -> Section:
    pages = [place for place in places.values() if place.startswith("project/")]
    lines = [f"- []({page})" for page in pages]
    return Section("Project", "\n".join([PROJECT, "", *lines]), tuple(pages))


def _landing(section: Section) -> str:
    """Return the page of a section: what the list says, with links from the section's own folder."""
    text = LINK.sub(lambda match: f"[{match[1]}]({os.path.relpath(match[2], section.folder)})", section.text)
    intro, blank, rest = text.partition("\n\n")
    if blank and not intro.startswith("-"):
        text = f"{intro[:1].upper()}{intro[1:].rstrip('.')}.{blank}{rest}"
    names = (Path(page).relative_to(section.folder).with_suffix("").as_posix() for page in section.pages)
    return f"# {section.title}\n\n{text}\n{_tree(names)}"


def _tree(names: Iterable[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", "", *names, "```", ""])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
