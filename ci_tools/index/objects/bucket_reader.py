"""Reading an S3 bucket, or a prefix of one, on Amazon S3 or on any server with the same API."""

from __future__ import annotations

import functools
import hashlib
import os
import posixpath
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    IncompleteReadError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    ResponseStreamingError,
)
from botocore.loaders import create_loader
from botocore.parsers import ResponseParserError
from botocore.session import Session
from botocore.utils import parse_timestamp

from ci_tools.errors import InputError, MachineError
from ci_tools.index.objects.place import Place
from ci_tools.index.objects.store import INDEX, Content, Entry, Found, utc
from ci_tools.machine.http.policy import REQUEST, TORN, RetryPolicy
from ci_tools.machine.storage import CHUNK
from ci_tools.machine.waits import Waits

if TYPE_CHECKING:
    from ci_tools.machine.context import Reporter

CONNECTIONS = 32  # at the same time, one for each thread
MAX_READ = 64 << 20  # bytes of a manifest or a page
SHA256 = "checksum-sha256"  # a metadata key, the same as in PyTorch's own bucket
GENERATION = "fatwheel-generation"  # a metadata key: the generation of the manifest that a page was made from
GONE = frozenset({"404", "NoSuchKey", "NotFound"})
# Of an answer that is read by `closing(answer["Body"])`: as a context manager, a body raises urllib3's errors.
BROKEN = (IncompleteReadError, ResponseStreamingError)
_T = TypeVar("_T")
HINT = "the same command goes on where this one stopped"

CREDENTIALS = frozenset({"ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"})
DENIED = frozenset({"401", "403", "AccessDenied", "AllAccessDisabled"})
# The permissions of an operation, where their names differ from its own. S3 answers 403 instead of 404 for a missing
# key unless the caller may list the bucket.
PERMISSIONS = {
    "GetObject": "s3:GetObject and s3:ListBucket",
    "HeadObject": "s3:GetObject and s3:ListBucket",
    "ListObjectsV2": "s3:ListBucket",
}


def _open_session(region: str) -> boto3.Session:
    """Return a session, the same for all buckets of a region as long as no variable of AWS changes.

    Making one takes longer than a client, and each would ask again for the credentials, which some servers give slowly.
    """
    variables = ((name, value) for name, value in os.environ.items() if name.startswith(("AWS_", "BOTO_", "HOME")))
    return _session_of(region, tuple(sorted(variables)))


@functools.lru_cache(8)
def _session_of(region: str, _: tuple[tuple[str, str], ...]) -> boto3.Session:
    """Return a session for these variables; the descriptions of S3's API are read once in a process."""
    session = Session()
    session.register_component("data_loader", _load_descriptions(session.get_config_variable("data_path")))
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=parse_time)
    return boto3.Session(region_name=region or None, botocore_session=session)


_one_at_a_time = threading.Lock()  # a session makes one client after the other
_load_descriptions = functools.cache(create_loader)  # parsing them takes 0.1 s for each client


def parse_time(text: str) -> datetime:
    """Return the time that a server writes, in RFC 3339 in a listing and in other forms elsewhere.

    botocore guesses the form of each time, which takes half of the time that a listing does.
    """
    if text[10:11] == "T":
        with suppress(ValueError):  # Python 3.10 reads 3 or 6 digits below the second
            return datetime.fromisoformat(text.replace("Z", "+00:00"))
    return parse_timestamp(text)  # type: ignore[no-any-return]


class AddressKnownError(Exception):
    """Carries the address of a request that is about to be sent, and stops it."""


class BucketReader:
    """The keys of a bucket below a prefix."""

    def __init__(self, place: Place, reporter: Reporter, policy: RetryPolicy = REQUEST, seconds: float = 0.0) -> None:
        """Try requests again as a policy says; `seconds` is the time for an answer in place of the place's own."""
        self.place = place
        self.address = place.address
        self.reporter = reporter
        self._waits = Waits(reporter.say)
        with explain_errors(self.address), _one_at_a_time:
            self._session = _open_session(place.region)
        self.client = self.make_client(
            max_pool_connections=CONNECTIONS,
            retries={"mode": "standard", "max_attempts": policy.tries},
            connect_timeout=seconds or int(place.timeout),
            read_timeout=seconds or int(place.timeout),
        )
        self._top = ""  # the address of the bucket, filled on first use

    def make_client(self, **options: object) -> Any:  # noqa: ANN401 - boto3 makes its types at run time
        """Return a client of the bucket's server with these options of botocore."""
        place = self.place
        config = Config(
            s3={"addressing_style": "path"} if place.endpoint else {},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_supported",
            **options,
        )
        with explain_errors(self.address), _one_at_a_time:
            return self._session.client("s3", endpoint_url=place.endpoint or None, config=config)

    def find(self, key: str) -> Found | None:
        with self._asking(key):
            answer = _or_none(lambda: self.client.head_object(**self._where(key)))
            return _found(answer, self._describe_key(key)) if answer else None

    def read(self, key: str) -> tuple[bytes, Found] | None:
        """Return the object at a key with its bytes; raise MachineError if it is larger than any manifest or page.

        If the bytes do not match the sha256 in the metadata, they are read again a few times: some servers show
        unfinished writes.
        """
        with self._asking(key):
            for _ in TORN.attempts():
                read = TORN.call(lambda: self._read_once(key), *BROKEN)
                if read is None or read[1].sha256 in {"", hashlib.sha256(read[0]).hexdigest()}:
                    break
        return read

    def _read_once(self, key: str) -> tuple[bytes, Found] | None:
        answer = self._got(key)
        if answer is None:
            return None
        with closing(answer["Body"]) as body:
            size = int(answer.get("ContentLength", 0))
            data = _read_body(body, MAX_READ) if size <= MAX_READ else b""
            if max(size, len(data)) > MAX_READ:
                msg = f"{self._describe_key(key)} has {max(size, len(data)):,} bytes, expected at most {MAX_READ:,}"
                raise MachineError(msg, hint="look at what is there: no manifest or page is as large")
            return data, _found({"ContentLength": len(data), **answer}, self._describe_key(key))

    def chunks(self, key: str) -> Iterator[bytes]:
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
        if is_same and content.path is None and found.tag.strip('"') == md5(content.data):
            return True
        digest = hashlib.sha256()
        for chunk in self.chunks(key) if found.sha256 else ():
            digest.update(chunk)
        return digest.hexdigest() == found.sha256

    def listed(self, folder: str = "") -> Iterator[str]:
        yield from (entry.key for entry in self.entries(folder))

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield every key below a folder, with its size and time; one request returns up to a thousand."""
        pages = self.client.get_paginator("list_objects_v2")
        found = iter(pages.paginate(Bucket=self.place.bucket, Prefix=self.key_of(folder)))
        start = len(self.key_of(""))
        while page := self._next(folder, found, {}):
            refuse_page(page, self._describe_key(folder), "IsTruncated")
            for one in page.get("Contents", ()):
                yield Entry(one["Key"][start:], one["Size"], utc(one["LastModified"]))

    def folders(self, below: str = "") -> frozenset[str]:
        pages, prefix = self.client.get_paginator("list_objects_v2"), self.key_of(below)
        with self._asking(""):
            found = pages.paginate(Bucket=self.place.bucket, Prefix=prefix, Delimiter="/")
            names = []
            for page in found:
                refuse_page(page, self._describe_key(below), "IsTruncated")
                names += [one["Prefix"] for one in page.get("CommonPrefixes", ())]
        return frozenset(name.removeprefix(prefix).rstrip("/") for name in names)

    def part(self, key: str, start: int, size: int) -> bytes:
        """Return a part of the bytes at a key, by a range request; raise MachineError if the key does not exist."""
        wanted = f"bytes={start}-{start + size - 1}" if start >= 0 else f"bytes={start}"

        def read() -> bytes:
            answer = self.client.get_object(**self._where(key), Range=wanted)
            with closing(answer["Body"]) as body:
                tag_of(answer, self._describe_key(key))
                data = _read_body(body, size)
            if len(data) > size:
                msg = f"{self._describe_key(key)}: the server does not send a part of a file"
                raise MachineError(msg, hint="look for a proxy between here and the server")
            return data

        with self._asking(key):
            return TORN.call(read, *BROKEN)

    def outside(self, path: str) -> Iterator[bytes]:
        """Yield the bytes at a path outside the prefix, but inside the bucket."""
        key = posixpath.normpath(f"{self.place.prefix}/{path}")
        if key.startswith("../"):
            return
        with explain_errors(f"{key} in {self.place.bucket}"):
            answer = _or_none(lambda: self.client.get_object(Bucket=self.place.bucket, Key=key))
            if answer:
                tag_of(answer, key)
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
        answer = _or_none(lambda: self.client.get_object(**self._where(key)))
        if answer:
            tag_of(answer, self._describe_key(key))
        return answer

    # -- where

    def _where(self, key: str) -> dict[str, str]:
        return {"Bucket": self.place.bucket, "Key": self.key_of(key)}

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
            unsigned = self.make_client(signature_version=UNSIGNED)
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


def _or_none(ask: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """Return an answer; None if nothing is at the key."""
    try:
        return ask()
    except ClientError as error:
        if code_of(error) in GONE:
            return None
        raise


def _keep_address(request: Any, **_: object) -> None:  # noqa: ANN401 - see BucketReader.make_client
    raise AddressKnownError(request.url)


def md5(data: bytes) -> str:
    """Return the MD5 of the bytes, in hex: the tag that S3 gives an object put in one request."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _read_body(body: Any, most: int) -> bytes:  # noqa: ANN401 - see BucketReader.make_client
    """Return the bytes of an answer, at most one piece more than `most`.

    It is read up to its end: only there a body notices that some of it is missing.
    """
    data = bytearray()
    for piece in body.iter_chunks(CHUNK):
        data += piece
        if len(data) > most:
            break
    return bytes(data)


def _found(answer: dict[str, Any], where: str) -> Found:
    generation = answer.get("Metadata", {}).get(GENERATION, "")
    sha256 = answer.get("Metadata", {}).get(SHA256, "")
    number, encoding = int(generation) if generation.isdigit() else 0, answer.get("ContentEncoding", "")
    # Some servers store the transfer encoding (aws-chunked) in the Content-Encoding, beside gzip.
    encoding = encoding.replace("aws-chunked", "").strip(", ")
    return Found(tag_of(answer, where), answer.get("ContentLength", 0), number, sha256, encoding)


@contextmanager
def explain_errors(where: str) -> Iterator[None]:
    """Convert errors of boto3 into errors that the user understands."""
    try:
        yield
    except ClientError as error:
        raise explain_refusal(where, error) from error
    except (NoCredentialsError, PartialCredentialsError, ProfileNotFound, NoRegionError) as error:
        msg = f"{where}: {describe_error(error)}"
        hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; in a workflow, assume a role before"
        raise InputError(msg, hint=hint) from error
    except (ParamValidationError, ValueError) as error:  # ValueError: the endpoint is not an address
        raise InputError(f"{where}: {describe_error(error)}") from error
    except ResponseParserError as error:  # none of BotoCoreError's
        raise _not_s3(where) from error
    except BotoCoreError as error:
        raise MachineError(f"{where}: {describe_error(error)}", hint=HINT) from error


def explain_refusal(where: str, error: ClientError) -> InputError | MachineError:
    """Return the error that an error answer of the server means."""
    code, said = code_of(error), error.response.get("Error", {}).get("Message", "")
    if code in CREDENTIALS:
        return InputError(f"{where}: the credentials are refused: {said}", hint="renew them, or name other ones")
    if code in DENIED:
        operation = error.operation_name
        needed = PERMISSIONS.get(operation, f"s3:{operation}")
        return InputError(f"{where}: these credentials may not {operation}", hint=f"allow them {needed} there")
    if code == "NoSuchBucket":
        return InputError(f"{where}: there is no such bucket")
    if code == "RequestTimeTooSkewed":
        hint = "set it and run the same command again"
        return MachineError(f"{where}: this machine's clock is wrong: {said}", hint=hint)
    return MachineError(f"{where}: {code}: {said}", hint=HINT)


def tag_of(answer: Mapping[str, Any], where: str) -> str:
    """Return the ETag of an answer about an object; raise MachineError if it has none, as a proxy's page has."""
    refuse_page(answer, where, "ETag")
    return str(answer["ETag"])


def refuse_page(answer: Mapping[str, Any], where: str, sign: str = "") -> None:
    """Raise MachineError for an answer that is not S3's: one without the field `sign`, or a page."""
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    if sign not in answer if sign else str(headers.get("content-type", "")).startswith("text/html"):
        raise _not_s3(where)


def _not_s3(where: str) -> MachineError:
    msg = f"{where}: what answers is not S3: the answer has not what an answer of S3's has"
    return MachineError(msg, hint=f"look for a proxy, or a login page, between here and the server; {HINT}")


def code_of(error: ClientError) -> str:
    """Return the code of an error as S3 names it, such as NoSuchKey."""
    return str(error.response.get("Error", {}).get("Code", ""))


def describe_error(error: Exception) -> str:
    """Return the start of an error's words, in one line."""
    return " ".join(str(error).split())[:300]
