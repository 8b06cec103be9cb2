"""From the files of a project to the pages pip and uv read: PEP 503 HTML, PEP 691 JSON, PEP 658 and 714 metadata."""

from __future__ import annotations

import functools
import html
import json
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

__all__ = [
    "VARIANTS",
    "IndexedFile",
    "project_and_version",
    "project_html",
    "project_json",
    "projects_html",
    "projects_json",
    "variant_label",
]

API_VERSION = "1.1"  # PEP 700: versions, sizes and upload times
FILE_NAME = re.compile(r"[A-Za-z0-9_.+!-]+")
VARIANTS = "variants"  # the folder of an index that lists wheel variants, and no other does
SEVERAL_PAGES = 1 << 12  # files: those of a project are spelled once for all of its pages
LABEL = re.compile(r"[0-9a-z_.]+")  # PEP 825


class IndexedFile(NamedTuple):
    """One published file: where it lies, its hashes, and what installers ask before they fetch it."""

    name: str
    folder: str  # the accelerator folder that holds it; empty for the root, whose files every folder lists
    sha256: str
    size: int  # bytes
    uploaded: str  # RFC 3339, UTC
    requires_python: str = ""
    metadata_sha256: str = ""  # of the `.metadata` file beside it; empty for an sdist
    yanked: str | None = None  # the reason; None where it is not yanked
    also: tuple[str, ...] = ()  # other folders that list it: CUDA versions it serves and was not built with
    apart: str = ""  # a folder of its own below `folder`, where a file of its name with other bytes lay before it
    candidate: int = 0  # of which release candidate it is; 0: of none
    job: str = ""  # of the plan that it was built by
    platform: str = ""  # linux-cuda; empty for a pure wheel
    archs: tuple[str, ...] = ()  # 9.0, 10.0+PTX
    toolchain: str = ""
    commit: str = ""  # of the source it was built from
    variant: tuple[str, ...] = ()  # what a wheel variant needs (PEP 825): nvidia :: sm_arch :: 90_real

    @property
    def key(self) -> str:
        """Where it lies in the index."""
        return "/".join(filter(None, (self.folder, self.apart, self.name)))

    def is_listed_in(self, folder: str) -> bool:
        """Whether the index of an accelerator folder lists it."""
        return self.folder in {"", folder} or folder in self.also


@functools.lru_cache(maxsize=1 << 16)  # every page of a project asks for the same names
def project_and_version(name: str) -> tuple[NormalizedName, Version]:
    """Return the project and version in a wheel's or an sdist's file name; raise ValueError where it is neither."""
    if not FILE_NAME.fullmatch(name):
        msg = f"{name!r} holds a character that no wheel or sdist has in its name"
        raise ValueError(msg)
    if not name.endswith(".whl"):
        return parse_sdist_filename(name)
    label = variant_label(name)
    return parse_wheel_filename(name.removesuffix(f"-{label}.whl") + ".whl" if label else name)[:2]


def variant_label(name: str) -> str:
    """Return the label at the end of a wheel variant's file name (PEP 825), or nothing for any other file."""
    parts = name.removesuffix(".whl").split("-")
    tags = parts[3:] if parts[2:] and parts[2][:1].isdigit() else parts[2:]  # a build tag starts with a digit
    label = tags[3] if len(tags) == len(("python", "abi", "platform", "label")) else ""
    return label if name.endswith(".whl") and LABEL.fullmatch(label) else ""


def _address(file: IndexedFile, folder: str) -> str:
    """Return the file's address relative to the project page in `folder`; `+` is `%2B`, which S3 insists on."""
    if file.folder == folder:
        return "../" + _quoted(file).removeprefix(f"{folder}/")
    return ("../../" if folder else "../") + _quoted(file)


@functools.lru_cache(maxsize=SEVERAL_PAGES)
def _quoted(file: IndexedFile) -> str:
    return quote(file.key)


def _ordered(files: Iterable[IndexedFile]) -> list[IndexedFile]:
    return sorted(files, key=lambda file: (project_and_version(file.name)[1], file.name))


def project_html(project: str, files: Sequence[IndexedFile], folder: str, documents: Iterable[str] = ()) -> bytes:
    """Return the PEP 503 page of `project` for the index in `folder`, with documents that lie in that folder."""
    rows = [*(_anchor(file, folder) for file in _ordered(files)), *map(_document_anchor, documents)]
    return _page(f"Links for {project}", "\n".join(rows))


def _document_anchor(name: str) -> str:
    """Return the link to a document; without a hash, since a document may be newer than a page that names it."""
    return f'    <a href="../{quote(name)}">{html.escape(name)}</a><br>'


def _anchor(file: IndexedFile, folder: str) -> str:
    return f'    <a href="{html.escape(_address(file, folder))}{_rest_of_anchor(file)}'


@functools.lru_cache(maxsize=SEVERAL_PAGES)
def _rest_of_anchor(file: IndexedFile) -> str:
    """Return what follows the address in a link, which is the same on every page."""
    attributes = {}
    if file.requires_python:
        attributes["data-requires-python"] = file.requires_python
    if file.metadata_sha256:
        attributes["data-core-metadata"] = f"sha256={file.metadata_sha256}"
        attributes["data-dist-info-metadata"] = f"sha256={file.metadata_sha256}"
    if file.yanked is not None:
        attributes["data-yanked"] = file.yanked
    written = "".join(f' {name}="{html.escape(value)}"' for name, value in attributes.items())
    return f'#sha256={html.escape(file.sha256)}"{written}>{html.escape(file.name)}</a><br>'


def project_json(project: str, files: Sequence[IndexedFile], folder: str, documents: Iterable[str] = ()) -> bytes:
    """Return the PEP 691 document of `project` for the index in `folder`, with documents that lie in that folder."""
    ordered = _ordered(files)
    head = {
        "meta": {"api-version": API_VERSION},
        "name": canonicalize_name(project),
        "versions": list(dict.fromkeys(_version(file.name) for file in ordered)),
    }
    entries = [*(_entry(file, folder) for file in ordered), *(json.dumps(_document_entry(name)) for name in documents)]
    return f'{json.dumps(head)[:-1]}, "files": [{", ".join(entries)}]}}'.encode()


@functools.lru_cache(maxsize=SEVERAL_PAGES)
def _version(name: str) -> str:
    return str(project_and_version(name)[1])


def _document_entry(name: str) -> dict[str, object]:
    return {"filename": name, "url": f"../{quote(name)}", "hashes": {}}


def _entry(file: IndexedFile, folder: str) -> str:
    """Return a file as JSON."""
    return f'{{"filename": {json.dumps(file.name)}, "url": {json.dumps(_address(file, folder))}, {_rest_of_entry(file)}'


@functools.lru_cache(maxsize=SEVERAL_PAGES)
def _rest_of_entry(file: IndexedFile) -> str:
    """Return what follows the address in a file's JSON, which is the same on every page."""
    entry: dict[str, object] = {
        "hashes": {"sha256": file.sha256},
        "size": file.size,
        "upload-time": file.uploaded,
        "yanked": False if file.yanked is None else file.yanked or True,
    }
    if file.requires_python:
        entry["requires-python"] = file.requires_python
    if file.metadata_sha256:
        entry["core-metadata"] = {"sha256": file.metadata_sha256}
    return json.dumps(entry)[1:]


def projects_html(projects: Iterable[str]) -> bytes:
    """Return the PEP 503 page that lists projects."""
    rows = "\n".join(f'    <a href="{quote(name)}/">{html.escape(name)}</a><br>' for name in sorted(projects))
    return _page("Simple index", rows)


def projects_json(projects: Iterable[str]) -> bytes:
    """Return the PEP 691 document that lists projects."""
    document = {"meta": {"api-version": API_VERSION}, "projects": [{"name": name} for name in sorted(projects)]}
    return json.dumps(document).encode()


def _page(title: str, rows: str) -> bytes:
    return f"""<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="pypi:repository-version" content="{API_VERSION}">
    <title>{html.escape(title)}</title>
  </head>
  <body>
    <h1>{html.escape(title)}</h1>
{rows}
  </body>
</html>
""".encode()
