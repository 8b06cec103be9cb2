"""An S3 bucket, or a part of one, as a store: Amazon's own, or any server that keeps to conditional writes.

Conditional writes: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

import base64
import hashlib
import io
import posixpath
import re
from contextlib import contextmanager, nullcontext
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
)

from ci_tools.errors import InputError, MachineError, nearest
from ci_tools.storage import CHUNK
from ci_tools.targets.store import INDEX, Content, Entry, Found, of_bytes, utc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from ci_tools.outside import Reporter

__all__ = ["BucketStore", "Place", "place_of"]

OPTIONS = ("acl", "endpoint", "public", "region", "timeout")
TELLING_APART = ("endpoint", "region")  # the settings that make another place of a bucket's name
WEB = ("endpoint", "public")  # the settings that are web addresses
ATTEMPTS = 5  # of one request, with a growing pause between them
CONNECTIONS = 32  # at once, of as many threads
SECONDS = "60"  # without an answer, or without a byte of one
LARGEST_PUT = 5 << 30  # bytes of one request (S3's own limit)
MOST_READ = 64 << 20  # bytes of a manifest or a page
SHA256 = "checksum-sha256"  # metadata, as PyTorch's own bucket has it
GENERATION = "fatwheel-generation"  # metadata: of the manifest that a page was made from
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
GONE = frozenset({"404", "NoSuchKey", "NotFound"})
CHANGED = frozenset({"409", "412", "ConditionalRequestConflict", "PreconditionFailed"})
CREDENTIALS = frozenset({"ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"})
DENIED = frozenset({"401", "403", "AccessDenied", "AllAccessDisabled"})
# What an operation needs, where that is called otherwise; who may not list a bucket is not told that a key is missing.
PERMISSIONS = {
    "GetObject": "s3:GetObject and s3:ListBucket",
    "HeadObject": "s3:GetObject and s3:ListBucket",
    "ListObjectsV2": "s3:ListBucket",
}
HINT = "the same command goes on where this one stopped"
WHO = "say who you are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in AWS_PROFILE"


class Place(NamedTuple):
    """A bucket, or a part of one, and how it is reached: `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`."""

    bucket: str
    prefix: str = ""  # without slashes at its ends
    endpoint: str = ""  # of a server that is not Amazon's
    region: str = ""
    acl: str = ""  # public-read, for a bucket that still has access control lists
    public: str = ""  # the address that clients know the prefix by, where that is another one
    timeout: str = SECONDS  # how long a server may take to answer

    @property
    def address(self) -> str:
        """The place as a user writes it, with the settings that tell it from one of the same name elsewhere."""
        said = [(name, getattr(self, name)) for name in TELLING_APART if getattr(self, name)]
        query = urlencode(said, quote_via=quote, safe=":/")
        return f"s3://{self.bucket}{f'/{self.prefix}' if self.prefix else ''}{f'?{query}' if query else ''}"


def place_of(target: str) -> Place:
    """Return the place that an `s3://` address names; raise InputError where it names none, without what is secret."""
    parts = _parts(target)
    prefix = parts.path.strip("/")
    shown = f"s3://{parts.netloc}{parts.path}"
    if not parts.netloc or parts.fragment or ".." in prefix.split("/") or "//" in prefix:
        msg = f"{shown} names no bucket, expected s3://BUCKET/PREFIX"
        raise InputError(msg)
    return Place(parts.netloc, prefix, **_settings(parts.query, shown))


def _parts(target: str) -> SplitResult:
    """Return the parts of an address; raise InputError where it says who the user is, or cannot be read."""
    try:
        parts = urlsplit(target)
    except ValueError:
        msg = "an s3:// address cannot be read, expected s3://BUCKET/PREFIX"
        raise InputError(msg) from None
    if {"@", ":"} & set(parts.netloc):
        msg = "an s3:// address names more than a bucket before its first slash, expected s3://BUCKET/PREFIX"
        raise InputError(msg, hint=WHO)
    return parts


def _settings(query: str, shown: str) -> dict[str, str]:
    """Return the settings of a place; raise InputError where one is unknown, empty, given twice or no such value."""
    given = parse_qsl(query, keep_blank_values=True)
    options = dict(given)
    for name in sorted(options.keys() - set(OPTIONS)):
        msg = f'{shown}: "{name}" is no setting of a bucket, {nearest(name, OPTIONS)}'
        raise InputError(msg)
    for name, value in options.items():
        if not value or len([one for one, _ in given if one == name]) > 1:
            msg = f"{shown}: the setting {name} is {'given twice' if value else 'empty'}, expected one value or none"
            raise InputError(msg)
    if not re.fullmatch(r"[1-9]\d{0,3}", options.get("timeout", SECONDS)):
        msg = f'{shown}: the timeout is "{options["timeout"]}", expected whole seconds such as {SECONDS}'
        raise InputError(msg)
    return options | {name: _web_address(options[name], f"{shown}: {name}") for name in WEB if name in options}


def _web_address(value: str, where: str) -> str:
    """Return a web address in its one spelling; raise InputError where it is none, or says who the user is."""
    if "@" in value:
        msg = f"{where} holds an @, expected an address without a user or a password"
        raise InputError(msg, hint=WHO)
    try:
        parts = urlsplit(value)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or parts.query or parts.fragment:
        msg = f'{where} is "{value}", expected an address such as https://host:9000'
        raise InputError(msg)
    return parts._replace(netloc=parts.netloc.lower(), path=parts.path.rstrip("/")).geturl()


class BucketStore:
    """The keys of a bucket below a prefix."""

    def __init__(self, place: Place, reporter: Reporter) -> None:
        self.place = place
        self.reporter = reporter
        self.address = place.address
        self._kept_conditions = False
        self._tags_are_hashes = True  # until the server shows that it makes them otherwise, as with a KMS key
        config = Config(
            max_pool_connections=CONNECTIONS,
            retries={"mode": "standard", "max_attempts": ATTEMPTS},
            connect_timeout=int(place.timeout),
            read_timeout=int(place.timeout),
            s3={"addressing_style": "path"} if place.endpoint else {},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_supported",
        )
        with _explained(self.address):
            self.client = boto3.Session(region_name=place.region or None).client(
                "s3", endpoint_url=place.endpoint or None, config=config
            )

    # -- reading

    def find(self, key: str) -> Found | None:
        """Return what is at a key."""
        with _explained(self._shown(key)):
            try:
                return _found(self.client.head_object(Bucket=self.place.bucket, Key=self._key(key)))
            except ClientError as error:
                if _code(error) in GONE:
                    return None
                raise

    def read(self, key: str) -> tuple[bytes, Found] | None:
        """Return the bytes at a key; raise MachineError where they are more than any manifest or page has."""
        with _explained(self._shown(key)):
            answer = self._got(key)
            if answer is None:
                return None
            with answer["Body"] as body:
                if answer["ContentLength"] > MOST_READ:
                    msg = f"{self._shown(key)} has {answer['ContentLength']:,} bytes, expected at most {MOST_READ:,}"
                    raise MachineError(msg, hint="look at what is there: no manifest or page is as large")
                return body.read(), _found(answer)

    def chunks(self, key: str) -> Iterator[bytes]:
        """Yield the bytes at a key piece by piece."""
        with _explained(self._shown(key)):
            answer = self._got(key)
            if answer:
                yield from answer["Body"].iter_chunks(CHUNK)

    def listed(self, folder: str = "") -> Iterator[str]:
        """Yield every key below a folder."""
        yield from (entry.key for entry in self.entries(folder))

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield every key below a folder, with its size and time; a thousand come with one request."""
        pages = self.client.get_paginator("list_objects_v2")
        start = len(self._key(""))
        with _explained(self._shown(folder)):
            for page in pages.paginate(Bucket=self.place.bucket, Prefix=self._key(folder)):
                for found in page.get("Contents", ()):
                    yield Entry(found["Key"][start:], found["Size"], utc(found["LastModified"]))

    def folders(self, below: str = "") -> frozenset[str]:
        """Return the folders right below another."""
        pages, prefix = self.client.get_paginator("list_objects_v2"), self._key(below)
        with _explained(self.address):
            found = pages.paginate(Bucket=self.place.bucket, Prefix=prefix, Delimiter="/")
            names = [one["Prefix"] for page in found for one in page.get("CommonPrefixes", ())]
        return frozenset(name.removeprefix(prefix).rstrip("/") for name in names)

    def part(self, key: str, start: int, size: int) -> bytes:
        """Return some of the bytes at a key, by a range request; raise MachineError where it is gone."""
        wanted = f"bytes={start}-{start + size - 1}" if start >= 0 else f"bytes={start}"
        with _explained(self._shown(key)):
            answer = self.client.get_object(Bucket=self.place.bucket, Key=self._key(key), Range=wanted)
            with answer["Body"] as body:
                data: bytes = body.read()
                return data

    def outside(self, path: str) -> Iterator[bytes]:
        """Yield the bytes at a path that leads out of the prefix and stays in the bucket."""
        key = posixpath.normpath(f"{self.place.prefix}/{path}")
        if key.startswith("../"):
            return
        with _explained(f"{key} in {self.place.bucket}"):
            try:
                answer = self.client.get_object(Bucket=self.place.bucket, Key=key)
            except ClientError as error:
                if _code(error) in GONE:
                    return
                raise
            yield from answer["Body"].iter_chunks(CHUNK)

    def _got(self, key: str) -> dict[str, Any] | None:
        try:
            answer: dict[str, Any] = self.client.get_object(Bucket=self.place.bucket, Key=self._key(key))
        except ClientError as error:
            if _code(error) in GONE:
                return None
            raise
        return answer

    # -- writing

    def put(self, key: str, content: Content, *, instead_of: Found | None, generation: int = 0) -> bool:
        """Put content at a key in one request, of which the server checks the hash and the condition."""
        self._refuse_careless()
        return self._put(key, content, instead_of, generation)

    def _put(self, key: str, content: Content, instead_of: Found | None, generation: int) -> bool:
        if content.size > LARGEST_PUT:
            msg = f"{key} has {content.size:,} bytes, S3 takes {LARGEST_PUT:,} in one request"
            raise InputError(msg)
        for _ in range(ATTEMPTS):
            tag = self._put_once(key, content, instead_of, generation)
            if not tag:
                return self._is_ours(key, content, generation)
            if self._is_whole(key, tag, content):
                return True
            instead_of = Found(tag, content.size)
        msg = f"{self._shown(key)} has other bytes than were sent, {ATTEMPTS} times"
        raise MachineError(msg, hint=HINT)

    def _put_once(self, key: str, content: Content, instead_of: Found | None, generation: int) -> str:
        """Put content at a key, and return its tag; nothing where something else is there by now."""
        condition = {"IfMatch": instead_of.tag} if instead_of else {"IfNoneMatch": "*"}
        with _explained(self._shown(key)), _opened(content) as body:
            try:
                answer = self.client.put_object(
                    Bucket=self.place.bucket,
                    Key=self._key(key),
                    Body=body,
                    ContentLength=content.size,
                    ContentType=_type(key),
                    CacheControl=FOR_EVER if key.endswith((".whl", ".tar.gz", ".metadata")) else NOT_AT_ALL,
                    ChecksumSHA256=base64.b64encode(bytes.fromhex(content.sha256)).decode(),
                    Metadata={SHA256: content.sha256, GENERATION: str(generation)},
                    **condition,
                    **({"ACL": self.place.acl} if self.place.acl else {}),
                )
            except ClientError as error:
                if _code(error) in CHANGED or (_code(error) in GONE and instead_of):
                    return ""
                raise
        return str(answer["ETag"])

    def _is_whole(self, key: str, tag: str, content: Content) -> bool:
        """Whether a server has the bytes that it was sent; of a file, which is read back whole, that is not asked here.

        Where its tag is not their hash, they are read back: if they are right, its tags are no hashes.
        """
        hashed = hashlib.md5(content.data, usedforsecurity=False).hexdigest()
        if content.path is not None or not self._tags_are_hashes or tag.strip('"') == hashed:
            return True
        read = self.read(key)
        if read is None or read[1].tag != tag:  # another publisher's by now, who has read these
            return True
        self._tags_are_hashes = read[0] != content.data
        return not self._tags_are_hashes

    def _is_ours(self, key: str, content: Content, generation: int) -> bool:
        """Whether what is there was put by this very request: a retry of one whose answer was lost finds it done."""
        there = self.find(key)
        if there is None or content.path is not None:  # of a file, who asked reads every byte
            return False
        is_same = (there.sha256, there.generation) == (content.sha256, generation)
        return is_same and self._is_whole(key, there.tag, content)

    def _refuse_careless(self) -> None:
        """Raise MachineError where the server writes whatever the condition says: two publishers would lose files."""
        if self._kept_conditions:
            return
        probe, content = ".fatwheel/conditional-writes", of_bytes(b"this server is asked whether it overwrites this\n")
        if self.find(probe) is None:
            self._put(probe, content, None, 0)
        other = of_bytes(b"it does\n")
        if self._put(probe, other, None, 0):
            self.remove(probe)
            msg = (
                f"{self.address}: this server ignores If-None-Match, so that two publishers would overwrite each other"
            )
            raise MachineError(msg, hint="publish to a server that knows conditional writes, as S3 itself does")
        self._kept_conditions = True

    def amend(self, key: str, data: bytes, *, instead_of: Found) -> bool:
        """Put other bytes in place of others' at a key, with the headers and the access that their object has."""
        where = {"Bucket": self.place.bucket, "Key": self._key(key)}
        with _explained(self._shown(key)):
            head = self.client.head_object(**where)
            if head["ETag"] != instead_of.tag:
                return False
            if head.get("ContentEncoding"):
                msg = f"{self._shown(key)} is compressed ({head['ContentEncoding']}), expected a page as it is"
                raise InputError(msg, hint="`?root=kept` behind the target leaves the front pages alone")
            kept = {name: head[name] for name in HEADERS if head.get(name)}
            said = head.get("Metadata", {}).items()
            metadata = {name: value for name, value in said if name not in {SHA256, GENERATION}}
            public = {"ACL": self.place.acl or "public-read"} if self.place.acl or self._is_public(key) else {}
            try:
                self.client.put_object(**where, Body=data, Metadata=metadata, IfMatch=instead_of.tag, **kept, **public)
            except ClientError as error:
                if _code(error) in CHANGED or _code(error) in GONE:
                    return False
                raise
        return True

    def _is_public(self, key: str) -> bool:
        """Return whether an object's own access list lets everybody read it: a new object would not have that."""
        try:
            answer = self.client.get_object_acl(Bucket=self.place.bucket, Key=self._key(key))
        except ClientError:  # most buckets have no such lists any more, or do not show them
            return False
        everybody = (grant for grant in answer["Grants"] if grant.get("Grantee", {}).get("URI") == EVERYBODY)
        return any(grant.get("Permission") in {"READ", "FULL_CONTROL"} for grant in everybody)

    def remove(self, key: str) -> None:
        """Remove what is at a key, if anything."""
        with _explained(self._shown(key)):
            self.client.delete_object(Bucket=self.place.bucket, Key=self._key(key))

    # -- where

    def page_keys(self, folder: str) -> tuple[str, ...]:
        """Return both keys of a page: with a slash for the REST endpoint, `index.html` for the website's."""
        return (folder, f"{folder}{INDEX}") if folder or self.place.prefix else (INDEX,)

    def alone(self, root: str = "") -> AbstractContextManager[None]:  # noqa: ARG002 - see Store
        """Keep nobody out: every write has its condition."""
        return nullcontext()

    def url(self, key: str) -> str:
        """Return the address that a client fetches a key at; `+` is `%2B`, which S3 insists on."""
        place = self.place
        if place.public:
            return f"{place.public.rstrip('/')}/{quote(key)}"
        own = self.client.meta.endpoint_url if place.endpoint else f"https://{place.bucket}.s3.amazonaws.com"
        return f"{own}/{place.bucket + '/' if place.endpoint else ''}{quote(self._key(key))}"

    def _key(self, key: str) -> str:
        return f"{self.place.prefix}/{key}" if self.place.prefix else key

    def _shown(self, key: str) -> str:
        return f"{key} in {self.address}" if key else self.address


def _found(answer: dict[str, Any]) -> Found:
    generation = answer.get("Metadata", {}).get(GENERATION, "")
    sha256 = answer.get("Metadata", {}).get(SHA256, "")
    number, encoding = int(generation) if generation.isdigit() else 0, answer.get("ContentEncoding", "")
    # Some servers store how a body was sent beside how it is packed.
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


@contextmanager
def _explained(where: str) -> Iterator[None]:
    """Say what an error means to whoever ran the command."""
    try:
        yield
    except ClientError as error:
        raise _refused(where, error) from None
    except (NoCredentialsError, PartialCredentialsError, ProfileNotFound, NoRegionError) as error:
        msg = f"{where}: {_sentence(error)}"
        hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; in a workflow, assume a role before"
        raise InputError(msg, hint=hint) from None
    except (ParamValidationError, ValueError) as error:  # the latter of an endpoint that is no address
        msg = f"{where}: {_sentence(error)}"
        raise InputError(msg) from None
    except BotoCoreError as error:
        msg = f"{where}: {_sentence(error)}"
        raise MachineError(msg, hint=HINT) from None


def _refused(where: str, error: ClientError) -> InputError | MachineError:
    """Return the error for an answer of the server's."""
    code, said = _code(error), error.response.get("Error", {}).get("Message", "")
    if code in CREDENTIALS:
        return InputError(f"{where}: the credentials are not taken: {said}", hint="renew them, or name other ones")
    if code in DENIED:
        operation = error.operation_name
        needed = PERMISSIONS.get(operation, f"s3:{operation}")
        return InputError(f"{where}: these credentials may not {operation}", hint=f"allow them {needed} there")
    if code == "NoSuchBucket":
        return InputError(f"{where}: there is no such bucket")
    if code == "RequestTimeTooSkewed":
        return MachineError(
            f"{where}: this machine's clock is wrong: {said}", hint="set it and run the same command again"
        )
    return MachineError(f"{where}: {code}: {said}", hint=HINT)


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
