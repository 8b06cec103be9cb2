"""The claims of a lock as objects in a bucket."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.index.objects.bucket_reader import BucketReader
from ci_tools.index.objects.refusals import explain_errors, refuse_page, tag_of
from ci_tools.machine.http.policy import BEAT

if TYPE_CHECKING:
    from ci_tools.index.objects.place import Place
    from ci_tools.machine.context import Reporter


class Claim(NamedTuple):
    """One object below the lock's folder."""

    key: str
    age: float  # seconds since it was written, by the server's clock


class LockBoard(BucketReader):
    """The claims of a lock in a bucket, with its own client, whose timeouts are shorter than a lease (seconds)."""

    def __init__(self, place: Place, reporter: Reporter, lease: float) -> None:
        super().__init__(place, reporter, BEAT, max(lease / 5, 1))

    def claims(self, folder: str) -> list[Claim]:
        """Return every object below a folder, with its age by the server's clock."""
        pages = self.client.get_paginator("list_objects_v2")
        start = len(self.key_of(""))
        claims = []
        with explain_errors(self.address):
            for page in pages.paginate(Bucket=self.place.bucket, Prefix=self.key_of(folder)):
                refuse_page(page, self.address, "IsTruncated")
                entries = page.get("Contents", ())
                newest = max((entry["LastModified"] for entry in entries), default=None)
                date = page["ResponseMetadata"]["HTTPHeaders"].get("date")
                now = parsedate_to_datetime(date) if date else newest
                claims += [Claim(one["Key"][start:], (now - one["LastModified"]).total_seconds()) for one in entries]
        return claims

    def write(self, key: str, data: bytes) -> None:
        """Write an object unconditionally."""
        with explain_errors(self.address):
            tag_of(self.client.put_object(**self._where(key), Body=data), self.address)

    def erase(self, key: str) -> None:
        """Remove an object, if it exists."""
        with explain_errors(self.address):
            self.client.delete_object(**self._where(key))
