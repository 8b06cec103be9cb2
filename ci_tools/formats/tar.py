"""The standard library's tarfile with its filters (PEP 706) on every Python: 3.10.11, 3.11.3 and older have none."""

from __future__ import annotations

import sys
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.version_info >= (3, 12):
    import tarfile
else:
    from backports import tarfile

__all__ = ["UNREADABLE", "tarfile"]
UNREADABLE = (tarfile.TarError, zlib.error, EOFError, OSError)  # what reading a file raises that is no whole archive
