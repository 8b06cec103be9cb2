"""Compares the files of one version with each other: lockers read the metadata of one, and take it for that of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from packaging.metadata import Metadata
from packaging.utils import canonicalize_name

from ci_tools.errors import Rejected, count
from ci_tools.formats.tar import tarfile
from ci_tools.formats.wheel import open_wheel
from ci_tools.model.files import Finding, Level, WheelMembers
from ci_tools.verify.audit.metadata.entry_points import read_entry_points

TOGETHER = "together"
EFFECT = "uv and Poetry lock what one file of a version says for all: users of another get wrong packages"
OVERWRITES = "who installs both has the files of the later one, and none once either is removed"
SAME_AS_WHEELS = (2, 2)  # since Metadata-Version 2.2, an sdist says what its wheels will say, but for Dynamic (PEP 643)


class StatedMetadata(NamedTuple):
    """The statements of a file that others of its version have to make, too."""

    file: str
    of: tuple[str, str]  # project and version, with the local version
    fields: Mapping[str, frozenset[str]]


def find_disagreements(paths: Iterable[Path]) -> Iterator[Finding]:
    """Yield where wheels of one version, or its sdist, state other requirements, Pythons, extras or entry points.

    A requirement of torch is left to the rule `requires-torch`: a wheel's own is that of its plan. Wheels of another
    local version are another version to installers.
    """
    versions: dict[tuple[str, str], list[StatedMetadata]] = {}
    for path in paths:
        with suppress(Rejected, ValueError, OSError, KeyError, tarfile.TarError):  # the audit names what is unreadable
            said = _read_wheel(path) if path.suffix == ".whl" else _read_sdist(path)
            versions.setdefault(said.of, []).append(said)
    for files in versions.values():
        for field in dict.fromkeys(name for said in files for name in said.fields):
            yield from _compare(field, [said for said in files if field in said.fields])


def _compare(field: str, files: list[StatedMetadata]) -> Iterator[Finding]:
    usual = Counter(said.fields[field] for said in files).most_common(1)[0][0]
    model = next(said.file for said in files if said.fields[field] == usual)
    for said in (said for said in files if said.fields[field] != usual):
        own, more, less = said.fields[field], said.fields[field] - usual, usual - said.fields[field]
        parts = [f"has {_show(more)}"] * bool(more) + [f"lacks {_show(less)}"] * bool(less)
        message = f"its {field} differs from that of {model}: it {' and '.join(parts)}"
        command = f"unzip -p {said.file} '*.dist-info/*'" if said.file.endswith(".whl") else f"tar -xOzf {said.file}"
        yield Finding(said.file, TOGETHER, Level.WARNING, message, _show(own), _show(usual), EFFECT, command)


def find_shared_files(owners: Iterable[WheelMembers]) -> Iterator[Finding]:
    """Yield the files that wheels of two projects install at one place with other content."""
    seen: dict[str, dict[str, tuple[str, tuple[int, int]]]] = {}
    for project, file, members in owners:
        shared: dict[str, list[str]] = {}
        for name, content in members.items():
            others = seen.setdefault(name, {})
            for wheel, has in [found for other, found in others.items() if other != project]:
                if has != content and not name.endswith("/") and ".dist-info/" not in name:
                    shared.setdefault(wheel, []).append(name)
            others.setdefault(project, (file, content))
        for wheel, names in shared.items():
            message = f"it installs {count(len(names), 'file')} of {wheel}, of another project, with other content"
            expected = "files of its own project"
            yield Finding(file, TOGETHER, Level.WARNING, message, names[0], expected, OVERWRITES, f"unzip -l {file}")


def _show(values: frozenset[str]) -> str:
    return ", ".join(sorted(values)) or "none"


def _read_wheel(path: Path) -> StatedMetadata:
    wheel = open_wheel(path)
    with wheel.archive:
        points = read_entry_points(wheel)
        metadata = Metadata.from_email(wheel.dist_info_text("METADATA"), validate=False)
        commands = (f"{group}: {name} = {value}" for group, found in points.items() for name, value in found.items())
        fields = {**_fields(metadata), "entry points": frozenset(commands)}
        return StatedMetadata(path.name, _identity(metadata), fields)


def _read_sdist(path: Path) -> StatedMetadata:
    top = path.name.removesuffix(".tar.gz")
    with tarfile.open(path) as archive:
        file = archive.extractfile(f"{top}/PKG-INFO")
        text = file.read().decode() if file else ""
    metadata = Metadata.from_email(text, validate=False)
    version = tuple(map(int, (metadata.metadata_version or "1.0").split(".")))
    dynamic = {name.lower() for name in metadata.dynamic or ()}
    kept = {name: value for name, value in _fields(metadata).items() if name.lower() not in dynamic}
    return StatedMetadata(path.name, _identity(metadata), kept if version >= SAME_AS_WHEELS else {})


def _identity(metadata: Metadata) -> tuple[str, str]:
    return canonicalize_name(metadata.name), str(metadata.version)


def _fields(metadata: Metadata) -> dict[str, frozenset[str]]:
    required = metadata.requires_dist or ()
    return {
        "Requires-Dist": frozenset(str(one) for one in required if canonicalize_name(one.name) != "torch"),
        "Requires-Python": frozenset(map(str, metadata.requires_python or ())),
        "Provides-Extra": frozenset(map(canonicalize_name, metadata.provides_extra or ())),
    }
