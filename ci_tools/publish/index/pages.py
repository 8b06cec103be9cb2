"""The project pages for pip and uv, made from files: PEP 503 HTML, PEP 691 JSON, PEP 658 and 714 metadata."""

from __future__ import annotations

import functools
import hashlib
import html
import json
import re
from json.encoder import encode_basestring_ascii as _text
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from ci_tools.model.pep440 import parse_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

API_VERSION = "1.1"  # PEP 700: versions, sizes and upload times
SIZELESS_VERSION = "1.0"  # PEP 691, for a page with a file of unknown size: PEP 700 requires all sizes
ADOPTED = "adopted"  # the origin of a file that others published
ROOT = ""  # the folder name of the root of an index
HTML_SEAL = re.compile(rb"<!-- fatwheel sha256:([0-9a-f]{64}) -->\n\Z")
SEAL_BYTES = 128  # at the end of a page; a seal is shorter
# PEP 691 reserves keys with a leading underscore for the index server.
JSON_SEAL = re.compile(rb', "_fatwheel": "sha256:([0-9a-f]{64})"}\Z')
FILE_NAME = re.compile(r"[A-Za-z0-9_.+!-]+")  # characters that neither JSON nor HTML escapes
UNQUOTED = re.compile(r"[A-Za-z0-9_./~-]*")  # `quote` does not change these, which most keys consist of
VARIANTS = "variants"  # the only folder of an index that lists wheel variants
OF_A_PROJECT = 1 << 12  # cached versions and tags
LABEL = re.compile(r"[0-9a-z_.]+")  # PEP 825


class IndexedFile(NamedTuple):
    """One published file: its place, its hashes, and the facts that installers need before they download it."""

    name: str
    folder: str  # its accelerator folder; empty: the root, whose files every folder lists
    sha256: str
    size: int  # bytes
    uploaded: str  # RFC 3339, UTC
    requires_python: str = ""
    metadata_sha256: str = ""  # of the `.metadata` file beside it; empty for an sdist
    yanked: str | None = None  # the reason; None: it is not yanked
    also: tuple[str, ...] = ()  # other folders that list it: CUDA versions it serves besides its own
    apart: str = ""  # a separate folder below `folder`, if another file had its name there
    candidate: int = 0  # the number of its release candidate; 0: none
    job: str = ""  # the job of the plan that built it
    platform: str = ""  # linux-cuda; empty for a pure wheel
    archs: tuple[str, ...] = ()  # 9.0, 10.0+PTX
    toolchain: str = ""
    commit: str = ""  # of the source it was built from
    variant: tuple[str, ...] = ()  # the properties of a wheel variant (PEP 825): nvidia :: sm_arch :: 90_real
    at: str = ""  # its place, if that is unusual: a key, a path out of the index, or a URL
    only_in: tuple[str, ...] = ()  # the folders that list it, from its former pages; "" is the root
    origin: str = ""  # adopted: from pages that others wrote; added: built by others; empty: built by a plan
    gpu: str = ""  # in words, whether and on which GPU it was tried; empty: not known, or not for GPUs
    drivers: tuple[str, ...] = ()  # for machine code and for PTX, of a CUDA that only its project's catalog has
    lost: str = ""  # why no page lists it now: its bytes are gone, or differ
    repository: str = ""  # OWNER/REPO whose release has it; empty: none, or not known
    attested: str = ""  # yes or no: whether GitHub keeps a provenance of its bytes for it; empty: not known

    @property
    def key(self) -> str:
        """Its key in the index."""
        return self.at or "/".join(filter(None, (self.folder, self.apart, self.name)))

    @property
    def is_outside(self) -> bool:
        """Whether its place is out of this index's reach: above its root, or on another server."""
        return self.at.startswith(("../", "/")) or "://" in self.at

    @property
    def folders(self) -> frozenset[str]:
        """The folders that are known to list it; only ROOT, without former pages, stands for every folder."""
        return frozenset(self.only_in or (self.folder, *self.also))

    def is_listed_in(self, folder: str) -> bool:
        """Return whether the index of an accelerator folder, or of the root, lists it."""
        if self.lost:
            return False
        return folder in self.only_in if self.only_in else self.folder in {ROOT, folder} or folder in self.also

    def meets(self, other: IndexedFile) -> bool:
        """Return whether two files of one name exclude each other: a folder could list both, or neither is adopted."""
        if ADOPTED not in {self.origin, other.origin}:
            return True
        folders = self.folders | other.folders
        return any(self._would_list(folder) and other._would_list(folder) for folder in folders)

    def _would_list(self, folder: str) -> bool:
        return self._replace(lost="").is_listed_in(folder)


class Link(NamedTuple):
    """A link of an adopted page to another file than a wheel or sdist of the project: a manual, an egg."""

    name: str
    at: str  # as for a file
    only_in: tuple[str, ...]  # the folders whose pages have the link


class Release(NamedTuple):
    """The version in a file's name, and its spelling."""

    version: Version
    text: str
    public: str  # without its local part


def project_and_version(name: str) -> tuple[NormalizedName, Version]:
    """Return the project and version in a wheel's or sdist's file name; raise ValueError for any other name."""
    project, release = _parse_name(name)
    return project, release.version


def release_of(name: str) -> Release:
    """Return the version in a file's name, and its spelling; raise ValueError if there is none."""
    return _parse_name(name)[1]


@functools.lru_cache(maxsize=1 << 16)  # every page of a project needs the same names
def _parse_name(name: str) -> tuple[NormalizedName, Release]:
    if not FILE_NAME.fullmatch(name):
        msg = f"{name!r} holds a character that no wheel or sdist has in its name"
        raise ValueError(msg)
    if not name.endswith(".whl"):
        project, version = parse_sdist_filename(name)
        return project, _release_from(version)
    label = variant_label(name)
    wheel = name.removesuffix(f"-{label}.whl") + ".whl" if label else name
    first, _, rest = wheel.partition("-")
    version_text, _, tags = rest.partition("-")
    try:
        return _project_of(first, tags), _release(version_text)
    except ValueError:  # parsed again, so that an error has the whole name
        project, version = parse_wheel_filename(wheel)[:2]
        return project, _release_from(version)


@functools.lru_cache(maxsize=OF_A_PROJECT)
def _project_of(first: str, tags: str) -> NormalizedName:
    """Return the project of wheels that differ only in their version; cached, since parsing their tags is slow."""
    return parse_wheel_filename(f"{first}-0-{tags}")[0]


@functools.lru_cache(maxsize=OF_A_PROJECT)
def _release(version: str) -> Release:
    return _release_from(parse_version(version))


def _release_from(version: Version) -> Release:
    return Release(version, str(version), version.public)


def variant_label(name: str) -> str:
    """Return the label at the end of a wheel variant's file name (PEP 825), or "" for any other file."""
    if name.count("-") < len(("version", "python", "abi", "platform", "label")):
        return ""
    parts = name.removesuffix(".whl").split("-")
    tags = parts[3:] if parts[2:] and parts[2][:1].isdigit() else parts[2:]  # a build tag starts with a digit
    label = tags[3] if len(tags) == len(("python", "abi", "platform", "label")) else ""
    return label if name.endswith(".whl") and LABEL.fullmatch(label) else ""


# ---------------------------------------------------------------- the pages of a project


class Row(NamedTuple):
    """A file as every page of its project shows it; only its relative address differs between pages."""

    file: IndexedFile
    version: str
    place: str  # quoted, relative to the root; complete if it is on another server or begins with a slash
    anchor: str  # the HTML after the address
    entry: str  # the JSON after the address


def spell(files: Iterable[IndexedFile]) -> list[Row]:
    """Return a project's files as its pages show them, in the order of their versions and names."""
    in_order = sorted(files, key=lambda file: file.name)
    in_order.sort(key=lambda file: release_of(file.name).version)  # a stable sort: names stay in order within a version
    return [
        Row(file, release_of(file.name).text, _place(file), _rest_of_anchor(file), _rest_of_entry(file))
        for file in in_order
    ]


def _place(file: IndexedFile) -> str:
    return file.at if "://" in file.at else quote_key(file.key)


def quote_key(key: str) -> str:
    """Return a key quoted for addresses."""
    return key if UNQUOTED.fullmatch(key) else quote(key)


def _address(row: Row, folder: str) -> str:
    """Return the file's address relative to the project page in `folder`; `+` becomes `%2B`, which S3 requires."""
    file, place = row.file, row.place
    if file.at and ("://" in place or place.startswith("/")):
        return place
    if file.folder == folder and not file.at:
        return "../" + place.removeprefix(f"{folder}/")
    return ("../../" if folder else "../") + place


def _relative(at: str, folder: str) -> str:
    """Return the address of a place that is given in full; a URL was quoted by its author already."""
    if "://" in at:
        return at
    return quote(at) if at.startswith("/") else ("../../" if folder else "../") + quote(at)


def project_html(project: str, files: Iterable[IndexedFile], folder: str, more: Iterable[str | Link] = ()) -> bytes:
    """Return the PEP 503 page of `project` for the index in `folder`.

    `more` are links without a hash: names of documents in that folder, and links of adopted pages.
    """
    return html_of(project, spell(files), folder, more)


def html_of(project: str, rows: Iterable[Row], folder: str, more: Iterable[str | Link] = ()) -> bytes:
    """Return the page of `project_html` for prepared rows."""
    lines = [f'    <a href="{_address_in_html(row, folder)}{row.anchor}' for row in rows]
    return _page(f"Links for {project}", "\n".join([*lines, *(_plain_anchor(link, folder) for link in more)]))


def _address_in_html(row: Row, folder: str) -> str:
    address = _address(row, folder)
    return html.escape(address) if "://" in address else address  # a quoted address has nothing to escape


@functools.lru_cache(maxsize=OF_A_PROJECT)  # the files of a project have only a few
def _escape_html(text: str) -> str:
    return html.escape(text)


def _plain_anchor(link: str | Link, folder: str) -> str:
    """Return a link without a hash: the document may be newer than a page that links to it."""
    name, address = _plain(link, folder)
    return f'    <a href="{html.escape(address)}">{html.escape(name)}</a><br>'


def _plain(link: str | Link, folder: str) -> tuple[str, str]:
    return (link.name, _relative(link.at, folder)) if isinstance(link, Link) else (link, f"../{quote(link)}")


def _rest_of_anchor(file: IndexedFile) -> str:
    """Return the HTML of a link after the address, the same on every page."""
    attributes = ""
    if file.metadata_sha256:
        # Not also `data-dist-info-metadata`, its name before PEP 714: with it, pip 22.3 to 23.1.2 compares the name in
        # METADATA, as it is spelled there, with the requested name.
        attributes += f' data-core-metadata="sha256={file.metadata_sha256}"'
    if file.requires_python:
        attributes += f' data-requires-python="{_escape_html(file.requires_python)}"'
    if file.yanked is not None:
        attributes += f' data-yanked="{html.escape(file.yanked)}"'
    if file.metadata_sha256 and not file.requires_python and file.yanked is None:
        attributes += ' rel=""'  # s3pypi 2.0 reads a hash at the end of a tag as the file's (s3pypi/index.py, parse)
    gpu = f" ({_escape_html(file.gpu)})" if file.gpu else ""
    return f'#sha256={file.sha256}"{attributes}>{file.name}</a>{gpu}<br>'


def project_json(project: str, files: Iterable[IndexedFile], folder: str, more: Iterable[str | Link] = ()) -> bytes:
    """Return the PEP 691 document of `project` for the index in `folder`, with `more` as its page has them."""
    return json_of(project, spell(files), folder, more)


def json_of(project: str, rows: Sequence[Row], folder: str, more: Iterable[str | Link] = ()) -> bytes:
    """Return the document of `project_json` for prepared rows."""
    head = {
        "meta": {"api-version": API_VERSION if all(row.file.size for row in rows) else SIZELESS_VERSION},
        "name": canonicalize_name(project),
        "versions": list(dict.fromkeys(row.version for row in rows)),
    }
    entries = [f'{{"filename": "{row.file.name}", "url": {_text(_address(row, folder))}, {row.entry}' for row in rows]
    entries += (_plain_entry(link, folder) for link in more)
    return _seal_json(f'{json.dumps(head)[:-1]}, "files": [{", ".join(entries)}]}}')


def _plain_entry(link: str | Link, folder: str) -> str:
    name, address = _plain(link, folder)
    return json.dumps({"filename": name, "url": address, "hashes": {}})


def _rest_of_entry(file: IndexedFile) -> str:
    """Return the JSON of a file after the address, the same on every page.

    It is formatted by hand: an encoder for each file takes ten times as long.
    """
    entry = f'"hashes": {{"sha256": {_text(file.sha256)}}}'
    if file.size:
        entry += f', "size": {file.size:d}'
    if file.uploaded:
        entry += f', "upload-time": {_text(file.uploaded)}'
    entry += f', "yanked": {"false" if file.yanked is None else _text(file.yanked) if file.yanked else "true"}'
    if file.requires_python:
        entry += f', "requires-python": {_text(file.requires_python)}'
    if file.metadata_sha256:
        entry += f', "core-metadata": {{"sha256": {_text(file.metadata_sha256)}}}'
    return f"{entry}}}"


def projects_html(projects: Iterable[str]) -> bytes:
    """Return the PEP 503 page that lists projects."""
    rows = "\n".join(f'    <a href="{quote(name)}/">{html.escape(name)}</a><br>' for name in sorted(projects))
    return _page("Simple index", rows)


def projects_json(projects: Iterable[str]) -> bytes:
    """Return the PEP 691 document that lists projects."""
    document = {"meta": {"api-version": API_VERSION}, "projects": [{"name": name} for name in sorted(projects)]}
    return _seal_json(json.dumps(document))


def _page(title: str, rows: str) -> bytes:
    return seal_html(f"""<!DOCTYPE html>
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
""")


# ---------------------------------------------------------------- seals


def seal_html(page: str) -> bytes:
    """Return a page with a last line by which `is_sealed` recognizes it as ours and complete."""
    data = page.encode()
    return data + f"<!-- fatwheel sha256:{hashlib.sha256(data).hexdigest()} -->\n".encode()


def _seal_json(document: str) -> bytes:
    """Return a JSON object with one more key, its seal: the counterpart of `seal_html`."""
    data = document[:-1].encode()
    return data + f', "_fatwheel": "sha256:{hashlib.sha256(data).hexdigest()}"}}'.encode()


def is_sealed(page: bytes) -> bool:
    """Return whether we wrote every byte of a page: others may have written or changed it."""
    found = HTML_SEAL.search(page[-SEAL_BYTES:]) or JSON_SEAL.search(page[-SEAL_BYTES:])
    if found is None:
        return False
    content = page[: len(page) - (found.end() - found.start())]
    return hashlib.sha256(content).hexdigest().encode() == found[1]
