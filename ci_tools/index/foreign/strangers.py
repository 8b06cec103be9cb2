"""Pages that others wrote at the keys of our pages."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from ci_tools.errors import InputError
from ci_tools.index.file_names import FILES
from ci_tools.index.foreign.pages import parse_project_page, projects_on
from ci_tools.index.objects.store import Found, Store
from ci_tools.index.pages import is_sealed

GZIP = 31  # zlib's wbits for `Content-Encoding: gzip`
MAX_UNPACKED = 64 << 20  # bytes of an unpacked page


class Stranger(NamedTuple):
    """A page that others wrote, at the key of one of our pages."""

    key: str
    data: bytes
    found: Found


def stranger_in(store: Store, key: str) -> Stranger | None:
    """Return the page at a key, decompressed, if others wrote it; raise InputError for an unsupported compression."""
    read = store.read(key)
    if read is None:
        return None
    data, found = read
    if found.encoding:
        data = _decompress_page(store, key, data, found.encoding)
    return None if is_sealed(data) else Stranger(key, data, found)


def _decompress_page(store: Store, key: str, data: bytes, encoding: str) -> bytes:
    """Return a page as browsers and installers see it."""
    with suppress(zlib.error):
        if encoding in {"gzip", "identity"}:
            return data if encoding == "identity" else zlib.decompressobj(GZIP).decompress(data, MAX_UNPACKED)
    msg = f"{store.url(key)} is compressed ({encoding}), expected an uncompressed page, or gzip"
    raise InputError(msg, hint="upload it again without a Content-Encoding")


def lists_files(stranger: Stranger) -> bool:
    """Return whether a front page of others lists files, for `--find-links`; raise ValueError if it is not a page."""
    is_json = stranger.key.endswith("index.json")
    return not is_json and any(link.name.endswith(FILES) for link in parse_project_page(stranger.data, stranger.key))


def lists_more(stranger: Stranger, projects: Iterable[str]) -> bool:
    """Return whether a front page of others lists more than some projects; an unreadable page lists nothing."""
    try:
        return bool(set(projects_on(stranger.data, stranger.key)) - set(projects)) or lists_files(stranger)
    except ValueError:
        return False
