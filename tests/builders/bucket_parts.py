"""Parts of a bucket, each with an index of its own."""

from __future__ import annotations

import os
import urllib.request
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

from ci_tools.index import maintain
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside, Silent
from ci_tools.model.request import Edition
from ci_tools.publish.targets.addresses import index_of
from tests.builders import releases
from tests.builders.releases import item, unit
from tests.servers import buckets
from tests.servers.buckets import Bucket

PURE, CUDA = "demo-1.0-py3-none-any.whl", "demo-1.0+cu130-py3-none-any.whl"


@dataclass(frozen=True)
class Here:
    """A part of the bucket, and a folder for the wheels that are published to it."""

    bucket: Bucket
    prefix: str
    outside: Outside
    made: Path

    def target(self, port: int = 0) -> str:
        """Return it as a user names it, reached at another port where one is given."""
        return self.bucket.target(self.prefix, port)

    def index(self, channel: str = "") -> WheelIndex:
        """Return the index there, or that of a channel."""
        return index_of(self.bucket.target(f"{self.prefix}{channel}"), self.outside)

    def text(self, key: str) -> str:
        """Read a key as an installer does."""
        with urllib.request.urlopen(self.bucket.url(f"{self.prefix}/{key}")) as answer:
            return str(answer.read().decode())

    def headers(self, key: str) -> Message:
        """Return what the server says of a key."""
        with urllib.request.urlopen(self.bucket.url(f"{self.prefix}/{key}")) as answer:
            return answer.headers  # type: ignore[no-any-return]

    def held(self) -> set[str]:
        """Return every key that an installer may ask for."""
        found = buckets.keys(self.bucket.client(), f"{self.prefix}/")
        return {key for key in found if not key.startswith((".fatwheel", "finder"))}

    def flaws(self, channel: str = "") -> list[tuple[str, str]]:
        """Read all of it again."""
        return [(flaw.key, flaw.what) for flaw in maintain.verify(self.index(channel), self.outside)]


def part_of(bucket: Bucket, folder: Path) -> Here:
    """Return the part that is named as a folder is."""
    return Here(
        bucket, folder.name, Outside(environ=os.environ, cache=folder / "cache", reporter=Silent()), folder / "made"
    )


def publish(index: WheelIndex, *files: tuple[Path, str], edition: Edition | None = None) -> None:
    """Publish files of one project, each with the index folder it lies in."""
    releases.publish(index, unit("demo", *(item(path, folder) for path, folder in files), edition=edition))
