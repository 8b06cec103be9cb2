"""An S3 bucket, or a prefix of one, as a store: on Amazon S3 or on any server with the same API.

Conditional writes: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
If a server does not support them, a lock lets one writer in at a time (`lease`).
"""

from __future__ import annotations

import base64
import io
import os
import platform
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO, TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ci_tools.errors import InputError, MachineError
from ci_tools.index.objects.bucket_reader import (
    GENERATION,
    GONE,
    HINT,
    SHA256,
    BucketReader,
    code_of,
    md5,
    refuse_page,
    tag_of,
)
from ci_tools.index.objects.lease import Lease, Lock, LockBoard, Terms
from ci_tools.index.objects.place import Place
from ci_tools.index.objects.store import INDEX, Content, Found, content_of_bytes
from ci_tools.machine.http.policy import REQUEST
from ci_tools.model.request import Channel

if TYPE_CHECKING:
    from ci_tools.machine.context import Reporter

LARGEST_PUT = 5 << 30  # bytes of one request (S3's own limit)
OWN = ".fatwheel/"  # the folder of an index that no client reads
LOCK = f"{OWN}lock/"
PROBE = f"{OWN}conditional-writes"
CHANNELS = tuple(f"{channel}/" for channel in Channel if channel is not Channel.STABLE)  # each with an index of its own
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".metadata": "text/plain; charset=utf-8",
    "/": "text/html; charset=utf-8",
}
HEADERS = ("CacheControl", "ContentDisposition", "ContentLanguage", "ContentType", "WebsiteRedirectLocation")
EVERYBODY = "http://acs.amazonaws.com/groups/global/AllUsers"
PAGE_TYPE = "application/vnd.pypi.simple.v1+json"  # PEP 691, of every index.json
FOR_EVER, NOT_AT_ALL = "public, max-age=31536000, immutable", "no-cache"
UNKNOWN_CONDITION = frozenset({"501", "NotImplemented"})
DAMAGED = frozenset({"BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch"})
CHANGED = frozenset({"409", "412", "ConditionalRequestConflict", "PreconditionFailed"})


class UnknownConditionError(Exception):
    """A server's answer that it does not support conditional writes."""


class DamagedError(Exception):
    """A server's answer that other bytes arrived than were sent."""


class BucketStore(BucketReader):
    """The keys of a bucket below a prefix; `terms` are those of the lock, for a server without conditional writes."""

    def __init__(self, place: Place, reporter: Reporter, terms: Terms | None = None) -> None:
        super().__init__(place, reporter)
        self.terms = terms or Terms()
        self._has_conditions: bool | None = None  # None: not asked yet
        self._leases: dict[str, Lease] = {}  # the locks that this store holds, by the root of the index
        self._one_at_a_time = threading.RLock()  # among the threads of this process
        self._tags_are_hashes = True  # until an ETag is not the MD5 of the content, as with KMS encryption

    def put(self, key: str, content: Content, *, instead_of: Found | None, generation: int = 0) -> bool:
        """Put content at a key in one request; the server checks its hash and its condition.

        If the server does not support conditions, the current object is compared first, under the lock.
        """
        if self._knows_conditions():
            return self._upload(key, content, instead_of, generation)
        with self._one_at_a_time, self._lock_index(_root_of(key)) as lease:
            there = self.find(key)
            if (there and there.tag) != (instead_of and instead_of.tag):
                return False
            lease.check(self.address)
            is_put = self._upload(key, content, None, generation)
            lease.check(self.address)
            return is_put

    def _upload(self, key: str, content: Content, instead_of: Found | None, generation: int) -> bool:
        if content.size > LARGEST_PUT:
            raise InputError(f"{key} has {content.size:,} bytes, S3 takes {LARGEST_PUT:,} in one request")
        for _ in range(REQUEST.tries):
            try:
                tag = self._upload_once(key, content, instead_of, generation)
            except DamagedError:
                continue
            if not tag:
                return self._is_ours(key, content, generation)
            if self._is_whole(key, tag, content):
                return True
            instead_of = Found(tag, content.size)
        msg = f"{self._describe_key(key)} has other bytes than were sent, {REQUEST.tries} times"
        raise MachineError(msg, hint=HINT)

    def _upload_once(self, key: str, content: Content, instead_of: Found | None, generation: int) -> str:
        """Put content at a key and return its tag; return "" if the key no longer holds `instead_of`."""
        condition = {"IfMatch": instead_of.tag} if instead_of else {"IfNoneMatch": "*"}
        with self._asking(key), _opened(content) as body:
            try:
                answer = self.client.put_object(
                    Bucket=self.place.bucket,
                    Key=self.key_of(key),
                    Body=body,
                    ContentLength=content.size,
                    ContentType=_type(key),
                    CacheControl=FOR_EVER if key.endswith((".whl", ".tar.gz", ".metadata")) else NOT_AT_ALL,
                    ChecksumSHA256=base64.b64encode(bytes.fromhex(content.sha256)).decode(),
                    Metadata={SHA256: content.sha256, GENERATION: str(generation)},
                    **(condition if self._has_conditions is not False else {}),
                    **({"ACL": self.place.acl} if self.place.acl else {}),
                )
            except ClientError as error:
                if code_of(error) in CHANGED or (code_of(error) in GONE and instead_of):
                    return ""
                if code_of(error) in UNKNOWN_CONDITION and self._has_conditions is None:
                    raise UnknownConditionError from error
                if code_of(error) in DAMAGED:
                    raise DamagedError from error
                raise
        return tag_of(answer, self._describe_key(key))

    def _is_whole(self, key: str, tag: str, content: Content) -> bool:
        """Whether the server stored the bytes it was sent; files are not checked here: their caller reads them back.

        If the tag is not the MD5 of the bytes, they are read back. If they are right, the server's tags are not hashes.
        """
        if content.path is not None or not self._tags_are_hashes or tag.strip('"') == md5(content.data):
            return True
        read = self._read_once(key)
        if read is None or read[1].tag != tag:  # replaced by another publisher, who had read these bytes
            return True
        self._tags_are_hashes = read[0] != content.data
        return not self._tags_are_hashes

    def _is_ours(self, key: str, content: Content, generation: int) -> bool:
        """Whether this request wrote the object itself: a retry after a lost answer finds its own object there."""
        there = self.find(key)
        if there is None or content.path is not None:  # for a file, the caller reads every byte
            return False
        is_same = (there.sha256, there.generation) == (content.sha256, generation)
        return is_same and self._is_whole(key, there.tag, content)

    def _knows_conditions(self) -> bool:
        """Return whether the server obeys conditional writes; test it once, and report it if it does not."""
        if self._has_conditions is None:
            try:
                does = "ignores"
                if self.find(PROBE) is None:
                    self._upload(PROBE, content_of_bytes(b"this server is asked whether it overwrites this\n"), None, 0)
                has_conditions = not self._overwrites(None) and not self._overwrites(Found(f'"{"0" * 32}"', 0))
            except UnknownConditionError:
                does, has_conditions = "does not know", False
            self._has_conditions = has_conditions
            if not has_conditions:
                what = "its publishers wait for each other by a lock, which is slower"
                self.reporter.say(f"{self.address}: this server {does} If-None-Match or If-Match; {what}")
        return self._has_conditions

    def _overwrites(self, instead_of: Found | None) -> bool:
        """Return whether the server overwrites an object although the condition is false."""
        other = content_of_bytes(f"it does: {secrets.token_hex(8)}\n".encode())
        return bool(self._upload_once(PROBE, other, instead_of, 0))

    def amend(self, key: str, data: bytes, *, instead_of: Found) -> bool:
        """Replace the bytes of an object that others wrote, and keep its headers and its access."""
        if self._knows_conditions():
            return self._amend(key, data, instead_of, {"IfMatch": instead_of.tag})
        with self._one_at_a_time, self._lock_index(_root_of(key)) as lease:
            lease.check(self.address)
            return self._amend(key, data, instead_of, {})

    def _amend(self, key: str, data: bytes, instead_of: Found, condition: Mapping[str, str]) -> bool:
        where = {"Bucket": self.place.bucket, "Key": self.key_of(key)}
        with self._asking(key):
            try:
                head = self.client.head_object(**where)
                if tag_of(head, self._describe_key(key)) != instead_of.tag:
                    return False
                answer = self.client.put_object(**where, **condition, **self._headers_to_keep(key, head), Body=data)
                tag_of(answer, self._describe_key(key))
            except ClientError as error:
                if code_of(error) in CHANGED or code_of(error) in GONE:
                    return False
                raise
        return True

    def _headers_to_keep(self, key: str, head: Mapping[str, Any]) -> dict[str, Any]:
        """Return the headers, metadata and ACL of an object that its replacement must keep."""
        if head.get("ContentEncoding"):
            msg = f"{self._describe_key(key)} is compressed ({head['ContentEncoding']}), expected a page as it is"
            raise InputError(msg, hint="`?root=kept` after the target leaves the front pages unchanged")
        said = {name: head[name] for name in HEADERS if head.get(name)}
        metadata = head.get("Metadata", {}).items()
        said["Metadata"] = {name: value for name, value in metadata if name not in {SHA256, GENERATION}}
        acl = self.place.acl or ("public-read" if self._is_public(key) else "")
        return {**said, **({"ACL": acl} if acl else {})}

    def _is_public(self, key: str) -> bool:
        """Return whether the object's own ACL lets everybody read it: its replacement would not inherit that."""
        try:
            answer = self.client.get_object_acl(Bucket=self.place.bucket, Key=self.key_of(key))
        except ClientError:  # most buckets have ACLs disabled, or do not show them
            return False
        everybody = (grant for grant in answer.get("Grants", ()) if grant.get("Grantee", {}).get("URI") == EVERYBODY)
        return any(grant.get("Permission") in {"READ", "FULL_CONTROL"} for grant in everybody)

    def remove(self, key: str) -> None:
        lease = self._leases.get(_root_of(key))
        if lease:
            lease.check(self.address)
        with self._asking(key):
            refuse_page(self.client.delete_object(**self._where(key)), self._describe_key(key))

    # -- the lock

    def page_keys(self, folder: str) -> tuple[str, ...]:
        """Return both keys of a page: the name with a slash for the REST endpoint, `index.html` for the website's."""
        return (folder, f"{folder}{INDEX}") if folder or self.place.prefix else (INDEX,)

    def alone(self, root: str = "") -> AbstractContextManager[object]:
        """Lock the index against other writers if the server has no conditional writes; otherwise lock nothing."""
        return nullcontext() if self._knows_conditions() else self._lock_index(root)

    @contextmanager
    def _lock_index(self, root: str) -> Iterator[Lease]:
        """Hold the lock of the index that begins at `root`; nested calls share one lease."""
        if root in self._leases:
            yield self._leases[root]
            return
        place = f"{self.address.partition('?')[0]}/{root}".rstrip("/")
        who = f"process {os.getpid()} on {platform.node() or 'another machine'}"
        lock = Lock(LockBoard(self.place, self.reporter, self.terms.lease), f"{root}{LOCK}", place, who, self.terms)
        with lock.held(self.reporter.say) as lease:
            self._leases[root] = lease
            try:
                yield lease
            finally:
                del self._leases[root]


def _root_of(key: str) -> str:
    """Return the root of the index that a key belongs to: a channel's folder, or "" for the stable index."""
    return next((channel for channel in CHANNELS if key.startswith(channel)), "")


@contextmanager
def _opened(content: Content) -> Iterator[IO[bytes]]:
    with content.path.open("rb") if content.path else io.BytesIO(content.data) as body:
        yield body


def _type(key: str) -> str:
    if key.endswith("/index.json"):
        return PAGE_TYPE
    return next((kind for ending, kind in TYPES.items() if key.endswith(ending)), "application/octet-stream")
