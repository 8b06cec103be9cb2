"""The base class of closed sets of names, and the names that several rooms know."""

from __future__ import annotations

from enum import Enum
from typing import NewType

__all__ = ["CONFIG_FILE", "FileName", "Name", "ProjectName", "Sha256", "VersionText"]

CONFIG_FILE = "fatwheel.yml"  # what `fatwheel init` writes

Sha256 = NewType("Sha256", str)  # 64 hex digits, of a file or of a tree of files
FileName = NewType("FileName", str)  # of a wheel or an sdist, without a folder
# As the project writes it, My.Demo; the normalized one (PEP 503), my-demo, is `NormalizedName` of packaging.utils.
ProjectName = NewType("ProjectName", str)
VersionText = NewType("VersionText", str)  # of a project, as PEP 440 has it


class Name(str, Enum):
    """A closed set of names whose `str` is the name itself, as for `enum.StrEnum` of Python 3.11."""

    def __str__(self) -> str:
        """Return the name in the user's notation."""
        return str(self.value)
