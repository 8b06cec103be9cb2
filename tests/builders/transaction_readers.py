"""A reader who looks at a target all the time while it is published, and what its pages name."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from ci_tools.index import manifest
from ci_tools.index.pages import is_sealed
from tests.builders.transaction_sites import OWN, Site

FILES = (".whl", ".metadata", ".tar.gz")
CHANGING = re.compile(rb'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|(?<="generation": )\d+')  # from one run to another
SEAL = re.compile(rb"[0-9a-f]{64}(?=\W*\Z)")  # the digest in the last line of a page or a manifest
LINK = re.compile(rb'href="([^"#]+)#sha256=([0-9a-f]{64})"(?:[^>]*data-core-metadata="sha256=([0-9a-f]{64})")?')


class Reader:
    """Somebody who looks at a target all the time; `new` is what it is to become."""

    def __init__(self, site: Site, old: Mapping[str, bytes], new: Mapping[str, bytes]) -> None:
        self.site, self.old, self.new = site, old, new
        self.seen = dict(old)
        self.may_change = False  # whether the target has begun to switch
        self.complaints: list[str] = []

    def look(self, key: str) -> None:
        """Read a key again."""
        before, now = self.seen.get(key), self.site.fetch(key)
        if now == before:
            return
        self.seen = {**self.seen, key: now} if now is not None else _less(self.seen, key)
        if is_page(key):
            self._compare(key, before, now)
        pages = [key] if is_page(key) else filter(is_page, self.seen)
        try:
            self.complaints += [f"{page} names {what}" for page in pages for what in broken(page, self.seen)]
        except ValueError as error:
            self.complaints.append(f"{key} cannot be read: {error}")

    def _compare(self, key: str, before: bytes | None, now: bytes | None) -> None:
        states = [strip_changing(self.old.get(key)), strip_changing(self.new.get(key))]
        if strip_changing(now) not in states:
            self.complaints.append(f"{key} is neither the old page nor the new one")
        elif not self.may_change:
            self.complaints.append(f"{key} has changed before the target switched")
        elif strip_changing(now) == states[0] != states[1] == strip_changing(before):
            self.complaints.append(f"{key} is the old page again")


def _less(table: Mapping[str, bytes], name: str) -> dict[str, bytes]:
    return {key: data for key, data in table.items() if key != name}


def is_page(key: str) -> bool:
    """Return whether clients read it, and it is no file that they install."""
    return not key.startswith(OWN) and not key.endswith(FILES)


def strip_changing(data: bytes | None) -> bytes | None:
    """Return content without what differs from one run to another: times, and a seal that fits what it seals."""
    if data is None:
        return None
    return CHANGING.sub(b"", SEAL.sub(b"", data) if _fits_its_seal(data) else data)


def _fits_its_seal(data: bytes) -> bool:
    """Return whether content ends in a seal that is right; a wrong one stays, and differs from every right one."""
    if not manifest.SEALED.search(data):
        return is_sealed(data)
    try:
        manifest.refuse_changed(data)
    except ValueError:
        return False
    return True


def broken(page: str, seen: Mapping[str, bytes]) -> list[str]:
    """Return every file that a page names and that is not there with its bytes."""
    bad = []
    for key, expected, metadata in named_files(page, seen.get(page, b"")):
        bad += [f"{key}, which is not there or another" for data in [seen.get(key)] if not _is(data, expected)]
        if metadata and not _is(seen.get(f"{key}.metadata"), metadata):
            bad.append(f"{key}.metadata, which is not there or another")
    return bad


def _is(data: bytes | None, expected: str) -> bool:
    return data is not None and sha256(data).hexdigest() == expected


@functools.cache
def named_files(page: str, data: bytes) -> list[tuple[str, str, str]]:
    """Return every file that a page names, with its sha256 and that of its METADATA."""
    links = [tuple(part.decode() for part in found) for found in LINK.findall(data)]
    if page.endswith("index.json"):
        links = [_of_entry(file) for file in json.loads(data).get("files", ())]
    return [(unquote(urlsplit(urljoin(f"http://any/{page}", link[0])).path[1:]), link[1], link[2]) for link in links]


def _of_entry(file: Mapping[str, Any]) -> tuple[str, ...]:
    return file["url"], file["hashes"]["sha256"], file.get("core-metadata", {}).get("sha256", "")
