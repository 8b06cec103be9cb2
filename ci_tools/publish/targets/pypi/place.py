"""The index that a user names: its address for uploads, its address for reading, and its section of .pypirc."""

from __future__ import annotations

import configparser
import os
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

from pypi_simple import PYPI_SIMPLE_ENDPOINT
from twine.exceptions import TwineException
from twine.utils import DEFAULT_REPOSITORY, TEST_REPOSITORY, RepositoryConfig, get_config

from ci_tools.errors import InputError, nearest
from ci_tools.formats.wheel import CONTROL

if TYPE_CHECKING:
    from collections.abc import Mapping


# The two indexes with PyPI's rules: their upload hosts, and the addresses to read them at.
SIMPLE = MappingProxyType(
    {
        urlsplit(DEFAULT_REPOSITORY).hostname: PYPI_SIMPLE_ENDPOINT,
        urlsplit(TEST_REPOSITORY).hostname: urljoin(TEST_REPOSITORY, "/simple/"),
    }
)

READ_AT = "UV_PUBLISH_CHECK_URL"  # uv's variable for the same address


class UploadIndex(NamedTuple):
    """One index for uploads."""

    name: str  # of its section in .pypirc; empty: the user gave an address
    upload: str  # its upload address
    simple: str  # its address for reading; empty: not known yet
    section: RepositoryConfig  # its settings in .pypirc
    has_rules: bool  # whether it has PyPI's rules


def place_of(name: str, environ: Mapping[str, str]) -> UploadIndex:
    """Return the index that the user means; raise InputError if there is none of that name."""
    is_address = "://" in name
    section: RepositoryConfig = {"repository": name} if is_address else _section(name, environ)
    upload = section["repository"] or ""
    parts = _parts(upload, name)
    simple = SIMPLE.get(parts.hostname)
    if simple:
        upload = parts._replace(scheme="https").geturl()  # a password is sent there
    read_at = simple or environ.get(READ_AT, "")
    return UploadIndex("" if is_address else name, upload, read_at, section, simple is not None)


def _parts(upload: str, name: str) -> SplitResult:
    try:
        parts = urlsplit(upload)
        _ = parts.port  # parsed only now; it may be part of a password
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        shown = "…" if "@" in name else clean_text(name)
        raise InputError(f'pypi:{shown} has no address to upload to, expected one such as "https://host/path/"')
    if parts.username or parts.password:
        msg = f"the upload address at {parts.hostname} names a user or a password"
        raise InputError(msg, hint="set them in TWINE_USERNAME and TWINE_PASSWORD, or in .pypirc")
    return parts


def _section(name: str, environ: Mapping[str, str]) -> RepositoryConfig:
    """Return the settings of an index from the user's .pypirc, or twine's defaults."""
    path = Path(environ.get("HOME") or environ.get("USERPROFILE") or "~").expanduser() / ".pypirc"
    try:
        config = get_config(str(path) if path.is_file() else os.devnull)
    except (OSError, TwineException, ValueError, configparser.Error):  # the error's text may contain a password
        raise InputError(f"{path} cannot be read as the configuration of indexes") from None
    if not config.get(name, {}).get("repository"):
        msg = f'there is no index "{clean_text(name)}", {nearest(name, config)}'
        raise InputError(msg, hint=f"give it a section with its `repository` in {path}, or give its upload address")
    return config[name]


MAX_SAID = 400  # characters of a server's message
UNAUTHORISED = (401, 403)
AGAIN = "run the same command again: it continues where it stopped"


def clean_text(text: str) -> str:
    """Return a server's message as one short line, without terminal control characters."""
    return CONTROL.sub(" ", " ".join(text.split()))[:MAX_SAID]
