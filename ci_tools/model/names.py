"""The base class of closed sets of names, and the names that several rooms know."""

from __future__ import annotations

import hashlib
import re
from enum import Enum
from typing import NewType

CONFIG_FILE = "fatwheel.yml"  # what `fatwheel init` writes

Sha256 = NewType("Sha256", str)  # 64 hex digits, of a file or of a tree of files
FileName = NewType("FileName", str)  # of a wheel or an sdist, without a folder
# As the project writes it, My.Demo; the normalized one (PEP 503), my-demo, is `NormalizedName` of packaging.utils.
ProjectName = NewType("ProjectName", str)
VersionText = NewType("VersionText", str)  # of a project, as PEP 440 has it

MAX_NAME = 100  # characters
# What can name a file, a folder, a branch and an artifact: GitHub refuses " : < > | * ? \\ / and line ends in the last.
WORD = "[A-Za-z0-9_]"
SAFE = re.compile(rf"(?!.*\.\.|(?i:.*\.lock$)){WORD}([A-Za-z0-9._+-]{{0,{MAX_NAME - 2}}}{WORD})?")
DEVICE = re.compile(r"(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")  # that Windows takes for no file
NO_TAG = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|^[-./]|[./]$|^@$")  # git check-ref-format


def safe_name(text: str) -> str:
    """Return the name that stands for a text of somebody else's, as of a file, a folder, a branch or an artifact.

    It is the text itself where all of these can have it, else what is readable of it, and the hash of the whole.
    """
    if SAFE.fullmatch(text) and not DEVICE.fullmatch(text):
        return text
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[: MAX_NAME // 2]
    return f"{readable or 'name'}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:12]}"


def is_tag(text: str) -> bool:
    """Whether git can have a tag of that name."""
    return bool(text) and not NO_TAG.search(text)


class Name(str, Enum):
    """A closed set of names whose `str` is the name itself, as for `enum.StrEnum` of Python 3.11."""

    def __str__(self) -> str:
        """Return the name in the user's notation."""
        return str(self.value)


REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")  # OWNER/REPO
COMMIT = re.compile(r"[0-9a-f]{40}")  # a full commit SHA, as GitHub has them
GIT_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # git's own repositories may use SHA-256
