"""The file finder of setuptools-scm: setuptools packs what git tracks, package data too (`setuptools.file_finders`)."""

from __future__ import annotations

import os

from ci_tools.observe.inside.facts import FACTS

__all__ = ["find_files"]


def find_files(path: str = "") -> list[str]:
    """Return the files of the project's folder that a checkout of the source has; none of a source without git."""
    below = os.path.join(os.path.normpath(path), "") if path not in {"", "."} else ""
    return [name for name in FACTS.known["tracked"] if name.startswith(below)]
