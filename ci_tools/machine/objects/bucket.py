"""An S3 bucket, or a prefix of one, as a store: on Amazon S3 or on any server with the same API.

Conditional writes: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
If a server does not support them, a lock lets one writer in at a time (`lease`).
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
import posixpath
import secrets
import threading
import time
from contextlib import contextmanager, nullcontext
from email.utils import parsedate_to_datetime
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
)

from ci_tools.errors import InputError, MachineError
from ci_tools.machine.objects.lease import Claim, Lock, Terms
from ci_tools.machine.objects.refusals import HINT, code_of, explain_errors
from ci_tools.machine.objects.store import (
    INDEX,
    Content,
    Entry,
    Found,
    content_of_bytes,
    utc,
)
from ci_tools.machine.storage import CHUNK
from ci_tools.machine.waits import Waits
from ci_tools.model.request import Channel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from ci_tools.machine.context import Reporter
    from ci_tools.machine.objects.lease import Lease
    from ci_tools.machine.objects.place import Place

__all__ = ["BucketStore"]

ATTEMPTS = 5  # of one request, with a growing pause between them
CONNECTIONS = 32  # at the same time, one for each thread
LARGEST_PUT = 5 << 30  # bytes of one request (S3's own limit)
MOST_READ = 64 << 20  # bytes of a manifest or a page
TORN = (0.05, 0.2, 0.5)  # seconds between two reads of an incomplete object: not every server writes atomically
BEAT_ATTEMPTS = 2  # of a request for the lock, which is useless when it is late
OWN = ".fatwheel/"  # the folder of an index that no client reads
LOCK = f"{OWN}lock/"
PROBE = f"{OWN}conditional-writes"
CHANNELS = tuple(f"{channel}/" for channel in Channel if channel is not Channel.STABLE)  # each with an index of its own
SHA256 = "checksum-sha256"  # a metadata key, the same as in PyTorch's own bucket
GENERATION = "fatwheel-generation"  # a metadata key: the generation of the manifest that a page was made from
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
GONE = frozenset({"404", "NoSuchKey", "NotFound"})
CHANGED = frozenset({"409", "412", "ConditionalRequestConflict", "PreconditionFailed"})
_T = TypeVar("_T")


class UnknownConditionError(Exception):
    """A server's answer that it does not support conditional writes."""


class AddressKnownError(Exception):
    """Carries the address of a request that is about to be sent, and stops it."""


class BucketStore:
    """The keys of a bucket below a prefix; `terms` are the lock's, for a server without conditional writes."""

    def __init__(self, place: Place, reporter: Reporter, terms: Terms | None = None) -> None:
        self.place = place
        self.address = place.address
        self.reporter = reporter
        self.terms = terms or Terms()
        self._waits = Waits(reporter.say)
        self._has_conditions: bool | None = None  # None: not asked yet
        self._leases: dict[str, Lease] = {}  # the locks that this store holds, by the root of the index
        self._one_at_a_time = threading.RLock()  # among the threads of this process
        self._tags_are_hashes = True  # until an ETag is not the MD5 of the content, as with KMS encryption
        with explain_errors(self.address):
            self._session = boto3.Session(region_name=place.region or None)
        self.client = self._make_client(
            max_pool_connections=CONNECTIONS,
            retries={"mode": "standard", "max_attempts": ATTEMPTS},
            connect_timeout=int(place.timeout),
            read_timeout=int(place.timeout),
        )
        self._top = ""  # the address of the bucket, filled on first use

    def _make_client(self, **options: object) -> Any:  # noqa: ANN401 - boto3 makes its types at run time
        place = self.place
        config = Config(
            s3={"addressing_style": "path"} if place.endpoint else {},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_supported",
            **options,
        )
        with explain_errors(self.address):
            return self._session.client("s3", endpoint_url=place.endpoint or None, config=config)

    # -- reading

    def find(self, key: str) -> Found | None:
        """Return the object at a key, or None."""
        with self._asking(key):
            try:
                return _found(self.client.head_object(Bucket=self.place.bucket, Key=self.key_of(key)))
            except ClientError as error:
                if code_of(error) in GONE:
                    return None
                raise

    def read(self, key: str) -> tuple[bytes, Found] | None:
        """Return the object at a key with its bytes; raise MachineError if it is larger than any manifest or page.

        If the bytes do not match the sha256 in the metadata, they are read again a few times: some servers show
        unfinished writes.
        """
        read = self._read_once(key)
        for pause in TORN:
            if read is None or read[1].sha256 in {"", hashlib.sha256(read[0]).hexdigest()}:
                break
            time.sleep(pause)
            read = self._read_once(key)
        return read

    def _read_once(self, key: str) -> tuple[bytes, Found] | None:
        with self._asking(key):
            answer = self._got(key)
            if answer is None:
                return None
            with answer["Body"] as body:
                if answer["ContentLength"] > MOST_READ:
                    size = f"{answer['ContentLength']:,} bytes"
                    msg = f"{self._describe_key(key)} has {size}, expected at most {MOST_READ:,}"
                    raise MachineError(msg, hint="look at what is there: no manifest or page is as large")
                return body.read(), _found(answer)

    def chunks(self, key: str) -> Iterator[bytes]:
        """Yield the bytes at a key piece by piece."""
        with self._asking(key):
            answer = self._got(key)
        pieces = answer["Body"].iter_chunks(CHUNK) if answer else iter(())
        while piece := self._next(key, pieces, b""):
            yield piece

    def is_whole(self, key: str, found: Found, content: Content) -> bool:
        """Return whether the object at a key has the bytes that its metadata names.

        The bytes are read, unless the tag shows that they are those of `content`.
        """
        is_same = (found.sha256, found.size) == (content.sha256, content.size)
        if is_same and content.path is None and found.tag.strip('"') == _md5(content.data):
            return True
        digest = hashlib.sha256()
        for chunk in self.chunks(key) if found.sha256 else ():
            digest.update(chunk)
        return digest.hexdigest() == found.sha256

    def listed(self, folder: str = "") -> Iterator[str]:
        """Yield every key below a folder."""
        yield from (entry.key for entry in self.entries(folder))

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield every key below a folder, with its size and time; one request returns up to a thousand."""
        pages = self.client.get_paginator("list_objects_v2")
        found = iter(pages.paginate(Bucket=self.place.bucket, Prefix=self.key_of(folder)))
        start = len(self.key_of(""))
        while page := self._next(folder, found, {}):
            for one in page.get("Contents", ()):
                yield Entry(one["Key"][start:], one["Size"], utc(one["LastModified"]))

    def folders(self, below: str = "") -> frozenset[str]:
        """Return the direct subfolders of a folder."""
        pages, prefix = self.client.get_paginator("list_objects_v2"), self.key_of(below)
        with self._asking(""):
            found = pages.paginate(Bucket=self.place.bucket, Prefix=prefix, Delimiter="/")
            names = [one["Prefix"] for page in found for one in page.get("CommonPrefixes", ())]
        return frozenset(name.removeprefix(prefix).rstrip("/") for name in names)

    def part(self, key: str, start: int, size: int) -> bytes:
        """Return a part of the bytes at a key, by a range request; raise MachineError if the key does not exist."""
        wanted = f"bytes={start}-{start + size - 1}" if start >= 0 else f"bytes={start}"
        with self._asking(key):
            answer = self.client.get_object(Bucket=self.place.bucket, Key=self.key_of(key), Range=wanted)
            with answer["Body"] as body:
                data: bytes = body.read()
                return data

    def outside(self, path: str) -> Iterator[bytes]:
        """Yield the bytes at a path outside the prefix, but inside the bucket."""
        key = posixpath.normpath(f"{self.place.prefix}/{path}")
        if key.startswith("../"):
            return
        with explain_errors(f"{key} in {self.place.bucket}"):
            try:
                answer = self.client.get_object(Bucket=self.place.bucket, Key=key)
            except ClientError as error:
                if code_of(error) in GONE:
                    return
                raise
            yield from answer["Body"].iter_chunks(CHUNK)

    def _next(self, key: str, parts: Iterator[_T], end: _T) -> _T:
        """Return the next part of an answer, or `end`; the time the reader takes between two parts is not a wait."""
        with self._asking(key):
            return next(parts, end)

    @contextmanager
    def _asking(self, key: str) -> Iterator[None]:
        """Explain the errors of a request, and report every few seconds while its answer is awaited."""
        where = self._describe_key(key)
        with self._waits.over(where), explain_errors(where):
            yield

    def _got(self, key: str) -> dict[str, Any] | None:
        try:
            answer: dict[str, Any] = self.client.get_object(Bucket=self.place.bucket, Key=self.key_of(key))
        except ClientError as error:
            if code_of(error) in GONE:
                return None
            raise
        return answer

    # -- writing

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
            msg = f"{key} has {content.size:,} bytes, S3 takes {LARGEST_PUT:,} in one request"
            raise InputError(msg)
        for _ in range(ATTEMPTS):
            tag = self._upload_once(key, content, instead_of, generation)
            if not tag:
                return self._is_ours(key, content, generation)
            if self._is_whole(key, tag, content):
                return True
            instead_of = Found(tag, content.size)
        msg = f"{self._describe_key(key)} has other bytes than were sent, {ATTEMPTS} times"
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
                raise
        return str(answer["ETag"])

    def _is_whole(self, key: str, tag: str, content: Content) -> bool:
        """Whether the server stored the bytes it was sent; files are not checked here: their caller reads them back.

        If the tag is not the MD5 of the bytes, they are read back. If they are right, the server's tags are not hashes.
        """
        if content.path is not None or not self._tags_are_hashes or tag.strip('"') == _md5(content.data):
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
        if self.find(PROBE) is None:
            self._upload(PROBE, content_of_bytes(b"this server is asked whether it overwrites this\n"), None, 0)
        other = content_of_bytes(f"it does: {secrets.token_hex(8)}\n".encode())
        return self._upload(PROBE, other, instead_of, 0)

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
                if head["ETag"] != instead_of.tag:
                    return False
                self.client.put_object(**where, **condition, **self._headers_to_keep(key, head), Body=data)
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
        everybody = (grant for grant in answer["Grants"] if grant.get("Grantee", {}).get("URI") == EVERYBODY)
        return any(grant.get("Permission") in {"READ", "FULL_CONTROL"} for grant in everybody)

    def remove(self, key: str) -> None:
        """Remove the object at a key, if there is one."""
        lease = self._leases.get(_root_of(key))
        if lease:
            lease.check(self.address)
        with self._asking(key):
            self.client.delete_object(Bucket=self.place.bucket, Key=self.key_of(key))

    # -- where

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
        lock = Lock(_Board(self), f"{root}{LOCK}", place, who, self.terms)
        with lock.held(self.reporter.say) as lease:
            self._leases[root] = lease
            try:
                yield lease
            finally:
                del self._leases[root]

    def url(self, key: str) -> str:
        """Return the address at which a client downloads a key; `+` is written `%2B`, as S3 requires."""
        if self.place.public:
            return f"{self.place.public.rstrip('/')}/{quote(key)}"
        return f"{self._address_of_bucket()}{quote(self.key_of(key))}"

    def _address_of_bucket(self) -> str:
        """Return the start of every key's address: prepare a request with botocore, take its address, and stop it.

        Region, partition, style and endpoint come from so many places that only botocore itself knows the result. Its
        presigned addresses leave out the region (botocore.signers._should_use_global_endpoint).
        """
        if not self._top:
            unsigned = self._make_client(signature_version=UNSIGNED)
            unsigned.meta.events.register("before-send.s3.HeadObject", _keep_address)
            with explain_errors(self.address):
                try:
                    unsigned.head_object(Bucket=self.place.bucket, Key=INDEX)
                except AddressKnownError as known:
                    self._top = str(known).removesuffix(INDEX)
        return self._top

    def key_of(self, key: str) -> str:
        """Return the full name of a key in the bucket, with the prefix."""
        return f"{self.place.prefix}/{key}" if self.place.prefix else key

    def _describe_key(self, key: str) -> str:
        return f"{key} in {self.address}" if key else self.address


class _Board:
    """The claims of a lock in a bucket, with its own client, whose timeouts are shorter than a lease."""

    def __init__(self, store: BucketStore) -> None:
        self._store, self._bucket = store, store.place.bucket
        seconds = max(store.terms.lease / 5, 1)
        self._client = store._make_client(  # noqa: SLF001 - it is a part of the store
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
                entries = page.get("Contents", ())
                newest = max((entry["LastModified"] for entry in entries), default=None)
                date = page["ResponseMetadata"]["HTTPHeaders"].get("date")
                now = parsedate_to_datetime(date) if date else newest
                claims += [Claim(one["Key"][start:], (now - one["LastModified"]).total_seconds()) for one in entries]
        return claims

    def write(self, key: str, data: bytes) -> None:
        """Write an object unconditionally."""
        with explain_errors(self._store.address):
            self._client.put_object(Bucket=self._bucket, Key=self._store.key_of(key), Body=data)

    def read(self, key: str) -> bytes:
        """Return an object's bytes; b"" if it does not exist."""
        with explain_errors(self._store.address):
            try:
                with self._client.get_object(Bucket=self._bucket, Key=self._store.key_of(key))["Body"] as body:
                    return bytes(body.read())
            except ClientError as error:
                if code_of(error) in GONE:
                    return b""
                raise

    def erase(self, key: str) -> None:
        """Remove an object, if it exists."""
        with explain_errors(self._store.address):
            self._client.delete_object(Bucket=self._bucket, Key=self._store.key_of(key))


def _keep_address(request: Any, **_: object) -> None:  # noqa: ANN401 - see BucketStore._make_client
    raise AddressKnownError(request.url)


def _root_of(key: str) -> str:
    """Return the root of the index that a key belongs to: a channel's folder, or "" for the stable index."""
    return next((channel for channel in CHANNELS if key.startswith(channel)), "")


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _found(answer: dict[str, Any]) -> Found:
    generation = answer.get("Metadata", {}).get(GENERATION, "")
    sha256 = answer.get("Metadata", {}).get(SHA256, "")
    number, encoding = int(generation) if generation.isdigit() else 0, answer.get("ContentEncoding", "")
    # Some servers store the transfer encoding (aws-chunked) in the Content-Encoding, beside gzip.
    encoding = encoding.replace("aws-chunked", "").strip(", ")
    return Found(answer["ETag"], answer["ContentLength"], number, sha256, encoding)


@contextmanager
def _opened(content: Content) -> Iterator[IO[bytes]]:
    with content.path.open("rb") if content.path else io.BytesIO(content.data) as body:
        yield body


def _type(key: str) -> str:
    if key.endswith("/index.json"):
        return PAGE_TYPE
    return next((kind for ending, kind in TYPES.items() if key.endswith(ending)), "application/octet-stream")


# ---------------------------------------------------------------- what went wrong
