"""The targets of a transaction as their readers see them, and as a test sets them up: a folder and a bucket."""

from __future__ import annotations

import http.client
import shutil
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from tests.servers.buckets import BUCKET, Bucket, keys, objects

if TYPE_CHECKING:
    from tests.servers.faults import Event

KEPT = "kept/"  # where the bucket holds what was there before
PREFIX = "whl"
OWN = ".fatwheel/"


class Site(Protocol):
    """A target as its readers see it, and as the test sets it up."""

    address: str

    def fetch(self, key: str) -> bytes | None:
        """Read one key as an installer does."""

    def keys(self) -> set[str]:
        """Return every key that is there."""

    def state(self) -> dict[str, bytes]:
        """Return all that is there."""

    def keep(self) -> None:
        """Remember what is there."""

    def restore(self) -> None:
        """Bring back what was there."""

    def changed(self, event: Event) -> list[str]:
        """Return the keys that an event may have changed."""


class FolderSite:
    """An index in a folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.kept = root, root.with_name("kept")
        self.moving = ""
        self.address = f"dir:{root}"

    def fetch(self, key: str) -> bytes | None:
        path = self.root / key
        return path.read_bytes() if path.is_file() else None

    def keys(self) -> set[str]:
        unfinished = f"{OWN}unfinished/"  # swept by the next run
        files = (path for path in self.root.rglob("*") if path.suffix != ".lock" and path.is_file())
        found = {path.relative_to(self.root).as_posix() for path in files}
        return {key for key in found if not key.startswith(unfinished)}

    def state(self) -> dict[str, bytes]:
        return {key: (self.root / key).read_bytes() for key in self.keys()}

    def keep(self) -> None:
        shutil.copytree(self.root, self.kept)

    def restore(self) -> None:
        shutil.rmtree(self.root)
        shutil.copytree(self.kept, self.root)

    def changed(self, event: Event) -> list[str]:
        """Return what the event before this one has changed: it said so when it was about to."""
        moved, self.moving = self.moving, event.where if event.what.startswith("os.") else ""
        return [moved.removeprefix(f"{self.root}/")] if moved.startswith(f"{self.root}/") else []


class BucketSite:
    """An index in a bucket."""

    def __init__(self, bucket: Bucket, port: int) -> None:
        self.client, self.port = bucket.client(), bucket.port
        self.address = bucket.target(PREFIX, port)
        self.touched: set[str] = set()
        self.were: list[str] = []

    def fetch(self, key: str) -> bytes | None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", f"/{BUCKET}/{PREFIX}/{quote(key)}")
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return data if answer.status == HTTPStatus.OK else None

    def keys(self) -> set[str]:
        return set(keys(self.client, f"{PREFIX}/"))

    def state(self) -> dict[str, bytes]:
        return dict(objects(self.client, f"{PREFIX}/"))

    def keep(self) -> None:
        self.were = keys(self.client, f"{PREFIX}/")
        for key in self.were:
            self._copy(f"{PREFIX}/{key}", f"{KEPT}{key}")

    def restore(self) -> None:
        for key in self.touched.intersection(self.were):
            self._copy(f"{KEPT}{key}", f"{PREFIX}/{key}")
        new = [{"Key": f"{PREFIX}/{key}"} for key in self.touched.difference(self.were)]
        if new:
            self.client.delete_objects(Bucket=BUCKET, Delete={"Objects": new, "Quiet": True})
        self.touched.clear()

    def changed(self, event: Event) -> list[str]:
        found = event.where.removeprefix(f"/{BUCKET}/{PREFIX}/")
        if event.what not in {"PUT", "DELETE"} or found == event.where:
            return []
        self.touched.add(found)
        return [found]

    def _copy(self, source: str, target: str) -> None:
        self.client.copy_object(Bucket=BUCKET, Key=target, CopySource={"Bucket": BUCKET, "Key": source})
