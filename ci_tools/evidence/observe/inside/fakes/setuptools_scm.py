"""A setuptools-scm that knows the version of an sdist, from its PKG-INFO; that of a checkout is a doubt.

The release's version reaches a build as SETUPTOOLS_SCM_PRETEND_VERSION, which comes first, and is that of the sdist.
"""

from __future__ import annotations

import os
from typing import Any

from ci_tools.evidence.observe.inside.facts import FACTS

__all__ = ["get_version"]

# Arguments that change nothing of a version that is known: it is not made of a tag.
IDLE = frozenset({"fallback_version", "git_describe_command", "local_scheme", "tag_regex", "version_scheme"})


def get_version(root: Any = ".", **settings: Any) -> str:
    """Return the version that the PKG-INFO of the project's folder states."""
    if settings.keys() - IDLE or os.path.realpath(root) != os.getcwd():
        FACTS.doubt("calls setuptools_scm.get_version with arguments that are not simulated")
    try:
        with open("PKG-INFO", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        lines = []
    version = next((line.partition(":")[2].strip() for line in lines if line.startswith("Version:")), "")
    if not version:
        FACTS.doubt("asks setuptools_scm for the version of a checkout")
    return version or "0"


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"setuptools_scm.{name}")
