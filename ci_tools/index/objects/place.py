"""The address of a bucket, `s3://BUCKET/PREFIX?setting=value`, and its settings."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from ci_tools.errors import InputError, nearest

OPTIONS = ("acl", "endpoint", "public", "region", "timeout")
TELLING_APART = ("endpoint", "region")  # the settings that distinguish two buckets of the same name
WEB = ("endpoint", "public")  # the settings that are web addresses
SECONDS = "60"  # the timeout without an answer, or without another byte of it
WHO = "say who you are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in AWS_PROFILE"


class Place(NamedTuple):
    """A bucket, or a prefix of one, and its connection: `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`."""

    bucket: str
    prefix: str = ""  # without slashes at its ends
    endpoint: str = ""  # of a server other than Amazon's
    region: str = ""
    acl: str = ""  # public-read, for a bucket that still has access control lists
    public: str = ""  # the address at which clients see the prefix, if it differs
    timeout: str = SECONDS  # the longest wait for an answer

    @property
    def address(self) -> str:
        """The place as a user writes it, with the settings that distinguish it from others of the same name."""
        said = [(name, getattr(self, name)) for name in TELLING_APART if getattr(self, name)]
        query = urlencode(said, quote_via=quote, safe=":/")
        return f"s3://{self.bucket}{f'/{self.prefix}' if self.prefix else ''}{f'?{query}' if query else ''}"


def place_of(target: str) -> Place:
    """Return the place that an `s3://` address names; raise InputError, without secrets, if the address is invalid."""
    parts = _parts(target)
    prefix = parts.path.strip("/")
    shown = f"s3://{parts.netloc}{parts.path}"
    if not parts.netloc or parts.fragment or ".." in prefix.split("/") or "//" in prefix:
        raise InputError(f"{shown} names no bucket, expected s3://BUCKET/PREFIX")
    return Place(parts.netloc, prefix, **_settings(parts.query, shown))


def _parts(target: str) -> SplitResult:
    """Return the parts of an address; raise InputError if it holds credentials or cannot be parsed."""
    try:
        parts = urlsplit(target)
    except ValueError as error:
        raise InputError("an s3:// address cannot be read, expected s3://BUCKET/PREFIX") from error
    if {"@", ":"} & set(parts.netloc):
        msg = "an s3:// address names more than a bucket before its first slash, expected s3://BUCKET/PREFIX"
        raise InputError(msg, hint=WHO)
    return parts


def _settings(query: str, shown: str) -> dict[str, str]:
    """Return the settings of a place; raise InputError if one is unknown, empty, given twice or invalid."""
    given = parse_qsl(query, keep_blank_values=True)
    options = dict(given)
    for name in sorted(options.keys() - set(OPTIONS)):
        raise InputError(f'{shown}: "{name}" is not a setting of a bucket, {nearest(name, OPTIONS)}')
    for name, value in options.items():
        if not value or len([one for one, _ in given if one == name]) > 1:
            msg = f"{shown}: the setting {name} is {'given twice' if value else 'empty'}, expected one value or none"
            raise InputError(msg)
    if not re.fullmatch(r"[1-9]\d{0,3}", options.get("timeout", SECONDS)):
        raise InputError(f'{shown}: the timeout is "{options["timeout"]}", expected whole seconds such as {SECONDS}')
    return options | {name: _web_address(options[name], f"{shown}: {name}") for name in WEB if name in options}


def _web_address(value: str, where: str) -> str:
    """Return a web address in normalized form; raise InputError if it is invalid or holds credentials."""
    if "@" in value:
        raise InputError(f"{where} holds an @, expected an address without a user or a password", hint=WHO)
    try:
        parts = urlsplit(value)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or parts.query or parts.fragment:
        raise InputError(f'{where} is "{value}", expected an address such as https://host:9000')
    return parts._replace(netloc=parts.netloc.lower(), path=parts.path.rstrip("/")).geturl()
