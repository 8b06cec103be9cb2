"""The claims of a lock as objects in a bucket."""

from __future__ import annotations

from contextlib import closing
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ci_tools.index.objects.bucket_reader import GONE, read_again
from ci_tools.index.objects.lease import Claim
from ci_tools.index.objects.refusals import code_of, explain_errors, refuse_page, tag_of

if TYPE_CHECKING:
    from ci_tools.index.objects.bucket_reader import BucketReader

BEAT_ATTEMPTS = 2  # of a request for the lock, which is useless when it is late


class Board:
    """The claims of a lock in a bucket, with its own client, whose timeouts are shorter than a lease."""

    def __init__(self, store: BucketReader, lease: float) -> None:
        """Ask through the store's server; `lease` is in seconds."""
        self._store, self._bucket = store, store.place.bucket
        seconds = max(lease / 5, 1)
        self._client = store.make_client(
            retries={"mode": "standard", "max_attempts": BEAT_ATTEMPTS}, connect_timeout=seconds, read_timeout=seconds
        )

    def claims(self, folder: str) -> list[Claim]:
        """Return every object below a folder, with its age by the server's clock."""
        pages = self._client.get_paginator("list_objects_v2")
        where = {"Bucket": self._bucket, "Prefix": self._store.key_of(folder)}
        start = len(self._store.key_of(""))
        claims = []
        with explain_errors(self._store.address):
            for page in pages.paginate(**where):
                refuse_page(page, self._store.address, "IsTruncated")
                entries = page.get("Contents", ())
                newest = max((entry["LastModified"] for entry in entries), default=None)
                date = page["ResponseMetadata"]["HTTPHeaders"].get("date")
                now = parsedate_to_datetime(date) if date else newest
                claims += [Claim(one["Key"][start:], (now - one["LastModified"]).total_seconds()) for one in entries]
        return claims

    def write(self, key: str, data: bytes) -> None:
        """Write an object unconditionally."""
        with explain_errors(self._store.address):
            answer = self._client.put_object(Bucket=self._bucket, Key=self._store.key_of(key), Body=data)
            tag_of(answer, self._store.address)

    def read(self, key: str) -> bytes:
        """Return an object's bytes; b"" if it does not exist."""
        where = {"Bucket": self._bucket, "Key": self._store.key_of(key)}

        def read() -> bytes:
            answer = self._client.get_object(**where)
            with closing(answer["Body"]) as body:
                tag_of(answer, self._store.address)
                return bytes(body.read())

        with explain_errors(self._store.address):
            try:
                return read_again(read)
            except ClientError as error:
                if code_of(error) in GONE:
                    return b""
                raise

    def erase(self, key: str) -> None:
        """Remove an object, if it exists."""
        with explain_errors(self._store.address):
            self._client.delete_object(Bucket=self._bucket, Key=self._store.key_of(key))
