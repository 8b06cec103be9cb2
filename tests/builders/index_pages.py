"""The pages of a project, from files as a manifest has them."""

from __future__ import annotations

from collections.abc import Iterable

from ci_tools.index.pages import IndexedFile, Link, html_of, json_of, spell


def project_html(project: str, files: Iterable[IndexedFile], folder: str, links: Iterable[Link] = ()) -> bytes:
    """Return the PEP 503 page of a project for the index in `folder`."""
    return html_of(project, spell(files, links, project), (), folder)


def project_json(project: str, files: Iterable[IndexedFile], folder: str) -> bytes:
    """Return the PEP 691 document of a project for the index in `folder`."""
    return json_of(project, spell(files, (), project), (), folder)
