"""The project pages for pip and uv, made from files: PEP 503 HTML, PEP 691 JSON, PEP 658 and 714 metadata."""

from __future__ import annotations

import functools
import hashlib
import html
import json
import re
from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring_ascii as _text
from typing import NamedTuple
from urllib.parse import quote

from packaging.utils import canonicalize_name
from packaging.version import Version

from ci_tools.index.file_names import OF_A_PROJECT, release_of, version_of
from ci_tools.index.file_names import project_and_version as project_and_version  # noqa: PLC0414 - also of this module
from ci_tools.index.file_names import variant_label as variant_label  # noqa: PLC0414 - also of this module

API_VERSION = "1.1"  # PEP 700: versions, sizes and upload times
SIZELESS_VERSION = "1.0"  # PEP 691, for a page with a file of unknown size: PEP 700 requires all sizes
ADOPTED = "adopted"  # the origin of a file that others published
ROOT = ""  # the folder name of the root of an index
HTML_SEAL = re.compile(rb"<!-- fatwheel sha256:([0-9a-f]{64}) -->\n\Z")
SEAL_BYTES = 128  # at the end of a page; a seal is shorter
# PEP 691 reserves keys with a leading underscore for the index server.
JSON_SEAL = re.compile(rb', "_fatwheel": "sha256:([0-9a-f]{64})"}\Z')
LIKE_A_HASH = re.compile(r'\w=\w+"\Z')
UNQUOTED = re.compile(r"[A-Za-z0-9_./~-]*")  # `quote` does not change these, which most keys consist of
FLAGS = frozenset({"core-metadata", "gpg-sig"})  # keys of PEP 691 whose values are true or false
STRONGEST = ("sha512", "sha384", "sha256", "sha224", "sha1", "md5")  # the hashes that pip checks
VARIANTS = "variants"  # the only folder of an index that lists wheel variants


Pairs = tuple[tuple[str, str], ...]


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
    remade: tuple[str, ...] = ()  # who made the same bytes again, when, and the workflow that signed it (empty: none)
    hashes: Pairs = ()  # of other algorithms, as its former pages give them: md5 and its digits
    said: Pairs = ()  # what its former pages say besides, by PEP 691's keys: gpg-sig, provenance, core-metadata
    rank: int = 0  # its place among the files of its version, where its former page had them in another order
    retracted: bool = False  # whether a retraction yanked it
    before: str | None = None  # its yank before that

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
    """A link of an adopted page that is kept as it is: to a manual, an egg, or a file that could not be hashed."""

    name: str
    at: str  # as for a file, and so is what follows
    only_in: tuple[str, ...]  # the folders whose pages have the link
    sha256: str = ""
    size: int = 0
    uploaded: str = ""
    requires_python: str = ""
    metadata_sha256: str = ""
    yanked: str | None = None
    hashes: Pairs = ()
    said: Pairs = ()
    rank: int = 0
    retracted: bool = False
    before: str | None = None

    @property
    def key(self) -> str:
        """Its key in the index, if it is there."""
        return self.at

    @property
    def folder(self) -> str:
        """Return ROOT: its place is given in full."""
        return ROOT

    def is_listed_in(self, folder: str) -> bool:
        """Return whether the index of an accelerator folder, or of the root, lists it."""
        return folder in self.only_in


# ---------------------------------------------------------------- the pages of a project


class PageFile(NamedTuple):
    """A file or link as every page of its project shows it; only its relative address differs between pages."""

    file: IndexedFile | Link
    version: str  # empty: no installer takes it
    place: str  # quoted, relative to the root; complete if it is on another server or begins with a slash
    anchor: str  # the HTML after the address
    entry: str  # the JSON after the address


def spell(files: Iterable[IndexedFile], links: Iterable[Link] = (), project: str = "") -> list[PageFile]:
    """Return a project's files and links as its pages show them, in the order of their versions, ranks and names.

    Of two files that suit it alike, pip takes the last: files of one version and rank keep their order.
    """
    found: list[tuple[IndexedFile | Link, Version, str]] = []
    found += [(file, release_of(file.name).version, release_of(file.name).text) for file in files]
    rest = [(link, version_of(link.name, project)) for link in links]
    found += [(link, version, str(version)) for link, version in rest if version]
    found.sort(key=lambda one: (one[0].rank, one[0].name))
    found.sort(key=lambda one: one[1])  # a stable sort: the order stays within a version
    in_order: list[tuple[IndexedFile | Link, str]] = [(file, text) for file, _, text in found]
    in_order += [(link, "") for link, version in rest if not version]
    return [PageFile(file, text, _place(file), _rest_of_anchor(file), _rest_of_entry(file)) for file, text in in_order]


def _place(file: IndexedFile | Link) -> str:
    return file.at if "://" in file.at else quote_key(file.key)


def quote_key(key: str) -> str:
    """Return a key quoted for addresses."""
    return key if UNQUOTED.fullmatch(key) else quote(key)


def _address(row: PageFile, folder: str) -> str:
    """Return the file's address relative to the project page in `folder`; `+` becomes `%2B`, which S3 requires."""
    file, place = row.file, row.place
    if file.at and ("://" in place or place.startswith("/")):
        return place
    if not file.at and file.folder == folder:
        return "../" + place.removeprefix(f"{folder}/")
    return ("../../" if folder else "../") + place


def html_of(project: str, rows: Iterable[PageFile], documents: Iterable[str], folder: str) -> bytes:
    """Return the PEP 503 page of a project for the index in `folder`; `documents` are names in that folder.

    A document has no hash: it may be newer than a page that links to it.
    """
    lines = [f'    <a href="{_address_in_html(row, folder)}{row.anchor}' for row in rows]
    lines += [f'    <a href="../{html.escape(quote(name))}">{html.escape(name)}</a><br>' for name in documents]
    return _page(f"Links for {project}", "\n".join(lines))


def _address_in_html(row: PageFile, folder: str) -> str:
    address = _address(row, folder)
    return html.escape(address) if "://" in address else address  # a quoted address has nothing to escape


@functools.lru_cache(maxsize=OF_A_PROJECT)  # the files of a project have only a few
def _escape_html(text: str) -> str:
    return html.escape(text)


def _rest_of_anchor(file: IndexedFile | Link) -> str:
    """Return the HTML of a link after the address, the same on every page."""
    attributes = "".join(f' data-{name}="{html.escape(value)}"' for name, value in file.said)
    if file.metadata_sha256:
        # Not also `data-dist-info-metadata`, its name before PEP 714: with it, pip 22.3 to 23.1.2 compares the name in
        # METADATA, as it is spelled there, with the requested name.
        attributes += f' data-core-metadata="sha256={file.metadata_sha256}"'
    if file.requires_python:
        attributes += f' data-requires-python="{_escape_html(file.requires_python)}"'
    if file.yanked is not None:
        attributes += f' data-yanked="{html.escape(file.yanked)}"'
    if LIKE_A_HASH.search(attributes):
        attributes += ' rel=""'  # s3pypi 2.0 reads a hash at the end of a tag as the file's (s3pypi/index.py, parse)
    gpu = f" ({_escape_html(file.gpu)})" if isinstance(file, IndexedFile) and file.gpu else ""
    return f'{_fragment(file)}"{attributes}>{_escape_html(file.name)}</a>{gpu}<br>'


def _fragment(file: IndexedFile | Link) -> str:
    """Return the strongest hash of a file for its address: uv refuses an address with two."""
    if file.sha256:
        return f"#sha256={file.sha256}"
    known = dict(file.hashes)
    name = next((name for name in (*STRONGEST, *known) if name in known), "")
    return f"#{name}={html.escape(known[name])}" if name else ""


def json_of(project: str, rows: Sequence[PageFile], documents: Iterable[str], folder: str) -> bytes:
    """Return the PEP 691 document of a project for the index in `folder`, with `documents` as its page has them."""
    is_sized = all(row.file.size for row in rows if isinstance(row.file, IndexedFile))
    head = {
        "meta": {"api-version": API_VERSION if is_sized else SIZELESS_VERSION},
        "name": canonicalize_name(project),
        "versions": list(dict.fromkeys(row.version for row in rows if row.version)),
    }
    entries = [
        f'{{"filename": {_text(row.file.name)}, "url": {_text(_address(row, folder))}, {row.entry}' for row in rows
    ]
    entries += (json.dumps({"filename": name, "url": f"../{quote(name)}", "hashes": {}}) for name in documents)
    return _seal_json(f'{json.dumps(head)[:-1]}, "files": [{", ".join(entries)}]}}')


def _rest_of_entry(file: IndexedFile | Link) -> str:
    """Return the JSON of a file after the address, the same on every page.

    It is formatted by hand: an encoder for each file takes ten times as long.
    """
    hashes = (("sha256", file.sha256), *file.hashes) if file.sha256 else file.hashes
    entry = f'"hashes": {{{", ".join(f"{_text(name)}: {_text(value)}" for name, value in hashes)}}}'
    if file.size:
        entry += f', "size": {file.size:d}'
    if file.uploaded:
        entry += f', "upload-time": {_text(file.uploaded)}'
    if file.yanked is not None or isinstance(file, IndexedFile):
        entry += f', "yanked": {"false" if file.yanked is None else _text(file.yanked) if file.yanked else "true"}'
    if file.requires_python:
        entry += f', "requires-python": {_text(file.requires_python)}'
    if file.metadata_sha256:
        entry += f', "core-metadata": {{"sha256": {_text(file.metadata_sha256)}}}'
    return entry + "".join(f', "{name}": {_said_in_json(name, value)}' for name, value in file.said) + "}"


def _said_in_json(name: str, value: str) -> str:
    """Return what an attribute says as PEP 691 has it: `true` for a flag, and an object for hashes."""
    kind, _, digits = value.partition("=")
    if name == "core-metadata" and digits:
        return json.dumps({kind: digits})
    return value if name in FLAGS and value in {"true", "false"} else _text(value)


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
