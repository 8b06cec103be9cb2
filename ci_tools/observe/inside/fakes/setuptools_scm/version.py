"""The version schemes of setuptools-scm: a project may name them; the real ones have made the version before."""

from __future__ import annotations

from typing import Any

from setuptools_scm import ScmVersion

from ci_tools.observe.inside.facts import FACTS

__all__ = ["ScmVersion"]

SEMVER_MINOR, SEMVER_PATCH, SEMVER_LEN = 2, 3, 3
# ruff: noqa: SIM905 - as words they fit on a page
SCHEMES = frozenset(
    "calver_by_date date_ver_match format_version get_local_dirty_tag get_local_node_and_date "
    "get_local_node_and_timestamp get_no_local_node guess_next_date_ver guess_next_dev_version "
    "guess_next_simple_semver guess_next_version meta no_guess_dev_version only_version postrelease_version "
    "release_branch_semver release_branch_semver_version simplified_semver_version tag_to_version".split()
)


def __getattr__(name: str) -> Any:
    if name not in SCHEMES:
        return FACTS.unknown(f"setuptools_scm.version.{name}")

    def scheme(*_: Any, **__: Any) -> str:
        FACTS.doubt(f"calls setuptools_scm.version.{name}, which is not simulated")
        return "0"

    scheme.__name__ = name
    return scheme
