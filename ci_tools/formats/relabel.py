"""Rewrites wheels reproducibly: with a local version, or as a variant; the same members give the same bytes."""

from __future__ import annotations

import csv
import io
import json
import re
import stat
import time
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from ci_tools.errors import Rejected
from ci_tools.formats.wheel import CONTROL, SBOM, Hashing, Wheel, open_wheel
from ci_tools.machine.storage import write_atomically
from ci_tools.model.files import EPOCH
from ci_tools.model.versions import parse_requirement, parse_specifiers

EARLIEST = time.gmtime(EPOCH)[:6]
WRITTEN_ANEW = ("METADATA", "RECORD", "RECORD.jws", "RECORD.p7s")  # the signatures belong to the old RECORD
EMPTY_LINE = re.compile(r"(?<=\n)\r?\n")
VERSION_FIELD = re.compile(r"^version:[ \t]*[^\s]+", re.IGNORECASE | re.MULTILINE)
LOCAL_VERSION_FIELD = re.compile(r"^(version:[ \t]*[^\s+]+)\+[^\s]+", re.IGNORECASE | re.MULTILINE)
# A field continues on the next line if that is indented.
REQUIRES_FIELD = re.compile(
    r"^(?P<name>requires-dist:[ \t]*)(?P<value>[^\r\n]*(?:\r?\n[ \t]+[^\r\n]+)*)", re.IGNORECASE | re.MULTILINE
)

REQUIRES_LINE = re.compile(REQUIRES_FIELD.pattern + r"\r?\n?", REQUIRES_FIELD.flags)
BUILD_FIELD = re.compile(r"^build:[^\r\n]*\r?\n?", re.IGNORECASE | re.MULTILINE)


class WheelFile(NamedTuple):
    """One file of a wheel: its path, its size in bytes, its content in pieces, and whether it is executable."""

    name: str
    size: int
    chunks: Iterable[bytes]
    executable: bool = False


class Label(NamedTuple):
    """Changes of a wheel's metadata after its build.

    `requires_torch` narrows the wheel's requirement of torch; if the wheel does not require torch unconditionally, that
    requirement is added. The requirements whose names are in `drops` are removed.
    """

    local: str = ""  # the local version, without its +
    requires_torch: str = ""
    drops: Collection[str] = ()
    rebuild: int | None = None  # the build number (PEP 427)


NO_LABEL = Label()


def relabel(
    source: Path,
    destination: Path,
    label: Label = NO_LABEL,
    *,
    replaced: Mapping[str, Path] | None = None,
    beside: Mapping[str, bytes] | None = None,
) -> None:
    """Write the wheel at `source` to `destination` with a label, and with reproducible order, times and modes.

    The local version goes into METADATA, the dist-info and data folders and RECORD; `destination` is the new file name.
    The files in `replaced` replace members; those in `beside` are put beside METADATA. The same members always give the
    same bytes. Raises Rejected if the wheel cannot be relabelled.
    """
    wheel = open_wheel(source)
    with wheel.archive:
        _refuse_unclear(wheel, label.local)
        old = wheel.dist_info.removesuffix(".dist-info")
        new = f"{old}+{label.local}" if label.local else old
        texts = {"METADATA": _label_metadata(wheel.dist_info_text("METADATA"), label, source.name)}
        if label.rebuild is not None:
            fields = BUILD_FIELD.sub("", wheel.dist_info_text("WHEEL")).rstrip()
            texts["WHEEL"] = f"{fields}\nBuild: {label.rebuild}\n"  # which its file name has too (PEP 427)
        contents = {name: text.encode() for name, text in texts.items()} | dict(beside or {})
        _rewrite(wheel, new, contents, destination, replaced or {})


def write_plain(source: Path, destination: Path, beside: Mapping[str, bytes]) -> None:
    """Write the wheel at `source` to `destination` without its local version, with files `beside` METADATA.

    The order, times and modes of the members are those of `relabel`. Raises Rejected if it cannot be relabelled.
    """
    wheel = open_wheel(source)
    with wheel.archive:
        _refuse_unclear(wheel, "")
        new = wheel.dist_info.removesuffix(".dist-info").partition("+")[0]
        head, blank, body = _partition_metadata(wheel.dist_info_text("METADATA"))
        metadata = (LOCAL_VERSION_FIELD.sub(r"\1", head) + blank + body).encode()
        contents = {"METADATA": metadata, **_restate_sbom(wheel.dist_info_data(SBOM)), **beside}
        _rewrite(wheel, new, contents, destination, {})


def _rewrite(
    wheel: Wheel, new: str, contents: Mapping[str, bytes], destination: Path, replaced: Mapping[str, Path]
) -> None:
    """Write a wheel whose dist-info folder has another name, and there these files."""
    own = [WheelFile(f"{new}.dist-info/{name}", len(data), (data,)) for name, data in contents.items()]
    names = {member.name for member in own}
    members = (member for member in _rename_members(wheel, new, replaced) if member.name not in names)
    _write([*members, *own], f"{new}.dist-info", destination)


def dump_sbom(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of an SBOM: one way to write each content."""
    return (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _restate_sbom(data: bytes) -> dict[str, bytes]:
    """Return our SBOM without the local version in what it describes; nothing if the wheel has no such SBOM."""
    try:
        content = json.loads(data)
        described = content["metadata"]["component"]
        version = described["version"]
        described["version"] = version.partition("+")[0]
    except (ValueError, KeyError, TypeError, AttributeError):  # it has none, or one that the audit refuses
        return {}
    local = version.partition("+")[2]
    described["purl"] = described.get("purl", "").replace(f"%2B{local}", "").replace(f"+{local}", "")
    return {SBOM: dump_sbom(content)}


def _rename_members(wheel: Wheel, new: str, replaced: Mapping[str, Path]) -> Iterator[WheelFile]:
    """Yield the members to copy, those in the dist-info and data folders under new names."""
    old = wheel.dist_info.removesuffix(".dist-info")
    for info in wheel.infos:
        if info.filename not in {f"{wheel.dist_info}/{file}" for file in WRITTEN_ANEW}:
            yield _member(_rename_folder(info.filename, old, new), wheel, info, replaced.get(info.filename))


def _member(name: str, wheel: Wheel, info: zipfile.ZipInfo, other: Path | None) -> WheelFile:
    """Return a member under its new name, with the content of the file `other` if one is given."""
    if other is None:
        return WheelFile(name, info.file_size, wheel.chunks(info), _executable(info))
    return WheelFile(name, other.stat().st_size, (other.read_bytes(),), _executable(info))


def _refuse_unclear(wheel: Wheel, local: str) -> None:
    """Raise Rejected if the wheel's label or its members are ambiguous."""
    if not wheel.dist_info:
        raise Rejected(f"{wheel.path.name} has no dist-info folder or several, expected one")
    if not wheel.dist_info_data("METADATA"):
        raise Rejected(f"{wheel.path.name} has no METADATA")
    if local and "+" in wheel.dist_info:
        raise Rejected(f"{wheel.path.name} has a local version already, expected none, so that +{local} can be added")
    names = Counter(info.filename for info in wheel.infos)
    unshown = next(filter(CONTROL.search, names), "")
    if unshown:
        raise Rejected(f"{wheel.path.name}: the name of {unshown!r} holds a control character")
    twice = next((name for name, count in names.items() if count > 1), "")
    if twice:
        raise Rejected(f"{wheel.path.name}: {twice} is in the archive {names[twice]} times")


def _executable(info: zipfile.ZipInfo) -> bool:
    return bool((info.external_attr >> 16) & stat.S_IXUSR)


def _rename_folder(name: str, old: str, new: str) -> str:
    """Return the name of a member with its dist-info or data folder renamed."""
    for suffix in (".dist-info/", ".data/"):
        if name.startswith(old + suffix):
            return new + name.removeprefix(old)
    return name


def _label_metadata(metadata: str, label: Label, wheel: str) -> str:
    """Add a local version and a torch specifier to METADATA, drop requirements, and keep every other character."""
    head, blank, body = _partition_metadata(metadata)
    if label.local:
        head, count = VERSION_FIELD.subn(rf"\g<0>+{label.local}", head)
        if count != 1:
            raise Rejected(f"{wheel}: METADATA has {count} Version fields, expected one")
    if label.requires_torch or label.drops:
        try:
            head = _drop(head, label.drops)
            head = _narrow_torch(head, label.requires_torch) if label.requires_torch else head
        except ValueError as error:  # InvalidRequirement, or more digits than Python converts
            raise Rejected(f"{wheel}: METADATA has an invalid Requires-Dist: {str(error).splitlines()[0]}") from error
    return head + blank + body


def _partition_metadata(metadata: str) -> tuple[str, str, str]:
    """Split METADATA at its first empty line: into the fields, that line, and the description."""
    blank = EMPTY_LINE.search(metadata)
    return (metadata[: blank.start()], blank[0], metadata[blank.end() :]) if blank else (metadata, "", "")


def _drop(fields: str, names: Collection[str]) -> str:
    """Remove the requirements of these names."""
    dropped = set(map(canonicalize_name, names))
    return REQUIRES_LINE.sub(
        lambda field: "" if canonicalize_name(_requirement(field).name) in dropped else field[0], fields
    )


def _narrow_torch(fields: str, specifier: str) -> str:
    """Add a specifier to every requirement of torch; add a requirement if none is without a marker."""
    found = [_requirement(field) for field in REQUIRES_FIELD.finditer(fields)]
    narrowed = REQUIRES_FIELD.sub(lambda field: _narrow_field(field, specifier), fields)
    if any(canonicalize_name(requirement.name) == "torch" and not requirement.marker for requirement in found):
        return narrowed
    line_end = "\r\n" if "\r\n" in fields else "\n"
    return f"{narrowed.rstrip()}{line_end}Requires-Dist: torch{specifier}{line_end}"


def _narrow_field(field: re.Match[str], specifier: str) -> str:
    requirement = _requirement(field)
    if canonicalize_name(requirement.name) != "torch":
        return field[0]
    if requirement.url:
        raise InvalidRequirement(f"{requirement} gives an address, expected a specifier")
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    own = sorted(map(str, {*requirement.specifier} - {*parse_specifiers(specifier)}))
    return f"{field['name']}{requirement.name}{extras}{','.join([*own, specifier])}{marker}"


def _requirement(field: re.Match[str]) -> Requirement:
    return parse_requirement(field["value"])


def _write(members: Iterable[WheelFile], dist_info: str, destination: Path) -> None:
    """Write the members sorted, dist-info last and RECORD at the very end, with fixed times and permissions."""
    ordered = sorted(members, key=lambda member: (member.name.startswith(dist_info), member.name))
    own = f"{dist_info}/RECORD"
    with write_atomically(destination) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        rows = [(member.name, _write_member(archive, member), str(member.size)) for member in ordered]
        record = io.StringIO()
        csv.writer(record, lineterminator="\n").writerows([*rows, (own, "", "")])
        content = record.getvalue().encode()
        _write_member(archive, WheelFile(own, len(content), (content,)))


def _write_member(archive: zipfile.ZipFile, member: WheelFile) -> str:
    """Write a member; return its hash in the notation of RECORD."""
    info = zipfile.ZipInfo(member.name, EARLIEST)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3  # Unix, so that the permission bits are valid
    info.external_attr = (stat.S_IFREG | (0o755 if member.executable else 0o644)) << 16
    info.file_size = member.size  # zipfile needs it for the header: a large member has a zip64 one
    hashing = Hashing()
    with archive.open(info, "w") as sink:
        for chunk in member.chunks:
            hashing.update(chunk)
            sink.write(chunk)
    return hashing.record_value
