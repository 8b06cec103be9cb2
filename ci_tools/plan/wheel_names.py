"""The parts of a wheel's file name, and of the paths in it, that a plan predicts."""

from __future__ import annotations

from packaging.utils import canonicalize_name

from ci_tools.model.evidence import OWN_SUFFIX

__all__ = ["distribution_of", "library_path", "list_platform_tags"]

OLDER_NAMES = {"manylinux_2_5": "manylinux1", "manylinux_2_12": "manylinux2010", "manylinux_2_17": "manylinux2014"}


def distribution_of(name: str) -> str:
    """Return the name as sdist file names spell it (PEP 625)."""
    return canonicalize_name(name).replace("-", "_")


def library_path(member: str, suffix: str) -> str:
    """Return the path of a library with the suffix of the Python that builds it."""
    return member.replace(OWN_SUFFIX, suffix)


def list_platform_tags(platform: str) -> str:
    """Return a wheel's platform tag, preceded by its legacy alias if it has one, as auditwheel writes it (PEP 600)."""
    for level, older in OLDER_NAMES.items():
        if platform.startswith(f"{level}_"):
            return f"{platform.replace(level, older)}.{platform}"
    return platform
