"""The names of the files of an index: of wheels and sdists, and of what installers take besides."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from packaging.utils import NormalizedName, canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from ci_tools.model.versions import parse_version, read_version

# The endings of what pip and uv install (pip: _internal/utils/filetypes.py; uv: SourceDistExtension), and eggs, which
# easy_install takes.
ARCHIVES = (
    *(".tar.gz", ".zip", ".tgz", ".tar.bz2", ".tbz", ".tar.xz", ".txz", ".tlz", ".tar.lz", ".tar.lzma", ".tar.zst"),
    ".tar",
)
EGG = ".egg"
FILES = (".whl", *ARCHIVES, EGG)
OF_EGG = re.compile(r"-py\d.*")  # what follows the version: demo-1.0-py3.9-win32
FILE_NAME = re.compile(r"[A-Za-z0-9_.+!-]+")  # characters that neither JSON nor HTML escapes
OF_A_PROJECT = 1 << 12  # cached versions and tags
LABEL = re.compile(r"[0-9a-z_.]+")  # PEP 825


class FileVersion(NamedTuple):
    """The version in a file's name, and its spelling."""

    version: Version
    text: str
    public: str  # without its local part


def project_and_version(name: str) -> tuple[NormalizedName, Version]:
    """Return the project and version in a wheel's or sdist's file name; raise ValueError for any other name."""
    project, release = _parse_name(name)
    return project, release.version


def release_of(name: str) -> FileVersion:
    """Return the version in a file's name, and its spelling; raise ValueError if there is none."""
    return _parse_name(name)[1]


@functools.lru_cache(maxsize=1 << 16)  # every page of a project needs the same names
def _parse_name(name: str) -> tuple[NormalizedName, FileVersion]:
    if not FILE_NAME.fullmatch(name):
        raise ValueError(f"{name!r} holds a character that no wheel or sdist has in its name")
    if not name.endswith(".whl"):
        project, version = parse_sdist_filename(name)
        return project, _release_from(version)
    label = variant_label(name)
    wheel = name.removesuffix(f"-{label}.whl") + ".whl" if label else name
    first, _, rest = wheel.partition("-")
    version_text, _, tags = rest.partition("-")
    try:
        return _project_of(first, tags), _release(version_text)
    except ValueError:  # parsed again, so that an error has the whole name
        project, version = parse_wheel_filename(wheel)[:2]
        return project, _release_from(version)


@functools.lru_cache(maxsize=OF_A_PROJECT)
def _project_of(first: str, tags: str) -> NormalizedName:
    """Return the project of wheels that differ only in their version; cached, since parsing their tags is slow."""
    return parse_wheel_filename(f"{first}-0-{tags}")[0]


@functools.lru_cache(maxsize=OF_A_PROJECT)
def _release(version: str) -> FileVersion:
    return _release_from(parse_version(version))


def _release_from(version: Version) -> FileVersion:
    return FileVersion(version, str(version), version.public)


def variant_label(name: str) -> str:
    """Return the label at the end of a wheel variant's file name (PEP 825), or "" for any other file."""
    if name.count("-") < len(("version", "python", "abi", "platform", "label")):
        return ""
    parts = name.removesuffix(".whl").split("-")
    tags = parts[3:] if parts[2:] and parts[2][:1].isdigit() else parts[2:]  # a build tag starts with a digit
    label = tags[3] if len(tags) == len(("python", "abi", "platform", "label")) else ""
    return label if name.endswith(".whl") and LABEL.fullmatch(label) else ""


# ---------------------------------------------------------------- what installers take besides


def version_of(name: str, project: str) -> Version | None:
    """Return the version in a file's name as pip reads it, which knows the project; None if it takes no such file.

    It takes `demo-1.0-1.tar.gz`, a name that no sdist has, for demo 1.0.post1
    (pip: _internal/index/package_finder.py, _extract_version_from_fragment).
    """
    ending = next((ending for ending in FILES if name.endswith(ending)), "")
    if ending == ".whl":
        try:
            whose, version = project_and_version(name)
        except ValueError:
            return None
        return version if whose == project else None
    stem = name.removesuffix(ending) if ending else ""
    if ending == EGG:
        stem = OF_EGG.sub("", stem)
    dashes = (place for place, letter in enumerate(stem) if letter == "-")
    end = next((place for place in dashes if canonicalize_name(stem[:place]) == project), -1)
    return read_version(stem[end + 1 :]) if end > 0 else None


def project_in(name: str) -> NormalizedName | None:
    """Return the project of a file by its name only; None if installers do not take it."""
    ending = next((ending for ending in FILES if name.endswith(ending)), "")
    try:
        if ending == ".whl":
            return project_and_version(name)[0]
        stem = name.removesuffix(ending)
        stem = OF_EGG.sub("", stem) if ending == EGG else stem
        return project_and_version(f"{stem}.tar.gz")[0] if ending else None
    except ValueError:
        return None
