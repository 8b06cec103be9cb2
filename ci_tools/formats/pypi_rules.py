"""PyPI's own rules for uploads, checked before the first byte is sent; most other indexes do not have them.

The source is Warehouse, the software of PyPI: its upload view, its metadata rules and its rules for zip files
(https://github.com/pypi/warehouse).
"""

from __future__ import annotations

import functools
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta
from email.message import EmailMessage
from typing import NamedTuple

from packaging.metadata import ExceptionGroup, InvalidMetadata, Metadata, parse_email
from packaging.utils import NormalizedName, canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version
from trove_classifiers import classifiers, deprecated_classifiers

from ci_tools.errors import MAX_SHOWN, Problem, nearest
from ci_tools.formats.wheel import explain_headers
from ci_tools.model.versions import parse_version

MIB = 1 << 20
MAX_BYTES = 100 * MIB  # of a file, unless PyPI has granted the project more
FREE_UNPACKED = 64 * MIB  # below this uncompressed size, any compression ratio is allowed
MAX_RATIO = 50  # above it, the highest ratio of uncompressed to compressed size
MAX_SUMMARY = 512  # characters
MAX_LABEL = 32  # characters of a Project-URL's label
OPEN_FOR = timedelta(days=14)  # PyPI accepts new files for this long after the first
PROJECT_NAME = re.compile(r"[A-Z0-9]|[A-Z0-9][A-Z0-9._-]*[A-Z0-9]", re.IGNORECASE)
PROHIBITED = frozenset({"requirements-txt", "rrequirements-txt"})
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")  # PyPI refuses these in the name of a member
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
JOINT = "x86_64|i686|aarch64|armv7l|ppc64le|s390x|riscv64"
PLATFORMS = re.compile(
    rf"""any | win32 | win_(?:amd64|arm64|ia64) | linux_armv[67]l
    | manylinux(?:1|2010)_(?:x86_64|i686) | manylinux2014_(?:x86_64|i686|aarch64|armv7l|ppc64|ppc64le|s390x)
    | manylinux_\d+_\d+_(?:{JOINT}|ppc64) | musllinux_\d+_\d+_(?:{JOINT})
    | macosx_10_\d+_(?:ppc|ppc64|i386|x86_64|arm64|intel|fat|fat3|fat64|universal|universal2)
    | macosx_(?:1[1-5]|2[6-9])_0_(?:x86_64|arm64|universal2)
    | ios_\d+_\d+_(?:arm64|x86_64)_(?:iphoneos|iphonesimulator)
    | android_\d+_(?:armeabi_v7a|arm64_v8a|x86|x86_64)
    | py(?:odide|emscripten)_\d{{4}}_\d+_wasm32""",
    re.VERBOSE,
)


class Archive(NamedTuple):
    """The facts of one file that the rules check."""

    name: str
    size: int  # bytes
    metadata: bytes  # its METADATA or PKG-INFO; empty if it has none
    members: tuple[str, ...]
    unpacked: int = 0  # bytes
    flaws: tuple[str, ...] = ()  # irregularities in the structure of its zip file


class Held(NamedTuple):
    """One file that the index has already."""

    name: str
    sha256: str  # empty if the index does not name it
    url: str = ""
    uploaded: datetime | None = None


class UploadRelease(NamedTuple):
    """The release to which files are to be uploaded, as the index knows it."""

    project: str
    version: str
    held: tuple[Held, ...] | None  # all files of the project on the index; None if it has no such project
    now: datetime


def identity(file: str) -> tuple[NormalizedName, Version]:
    """Return the project and version in a file name; raise ValueError if it is not the name of a wheel or sdist."""
    try:
        if file.endswith(".whl"):
            return parse_wheel_filename(file)[:2]
        return parse_sdist_filename(file)
    except ValueError as error:  # also a number with more digits than Python converts
        raise ValueError(str(error)) from error


def strangers(files: Iterable[Archive], release: UploadRelease) -> tuple[Problem, ...]:
    """Return why files do not belong to this release, by name and metadata; no index accepts such files."""
    return tuple(Problem(_printable(file.name), what) for file in files for what in _strange(file, release))


def _strange(file: Archive, release: UploadRelease) -> Iterator[str]:
    try:
        said = identity(file.name)
    except ValueError as error:
        yield f"it is not the name of a wheel or an sdist: {error}"
        return
    if said[0] != canonicalize_name(release.project) or said[1].public != parse_version(release.version).public:
        yield f"it is named as {_printable(said[0])} {said[1]}, expected {release.project} {release.version}"
    fields, errors = _read(file.metadata)
    yield from errors if file.metadata else ["it has no metadata"]
    if fields and (canonicalize_name(fields.name), fields.version) != said:
        yield f"its metadata is of {fields.name} {fields.version}, its name says {_printable(said[0])} {said[1]}"


def pypi_problems(
    files: Collection[Archive], release: UploadRelease, own_modules: Collection[str]
) -> tuple[Problem, ...]:
    """Return every reason for which PyPI would refuse new files of a release; `own_modules` are Python's own modules.

    Facts that only PyPI knows are not checked: the owner of the name, similar names, and the project's free space.
    """
    found = [Problem(release.project, what) for what in _release_flaws(files, release, own_modules)]
    found += [Problem(_printable(file.name), what) for file in files for rule in RULES for what in rule(file)]
    return tuple(found)


def _release_flaws(files: Collection[Archive], release: UploadRelease, own_modules: Collection[str]) -> Iterator[str]:
    if not PROJECT_NAME.fullmatch(release.project):
        yield "a project's name begins and ends with a letter or a digit and has only them and ., _ and - between"
    prohibited = {*map(canonicalize_name, own_modules), *PROHIBITED}
    if release.held is None and canonicalize_name(release.project) in prohibited:
        yield "PyPI lets nobody take this name: it is that of a module of Python, or of a requirements file"
    held = [file for file in release.held or () if _is_of(file.name, release)]
    yield from _age_flaws(files, held, release)
    names = [*(file.name for file in files), *(file.name for file in held)]
    sdists = {name for name in names if not name.endswith(".whl")}
    if len(sdists) > 1:
        yield f"a release has one sdist, {release.version} would have {_printable(', '.join(sorted(sdists)))}"


def _age_flaws(files: Collection[Archive], held: Iterable[Held], release: UploadRelease) -> Iterator[str]:
    first = min((file.uploaded for file in held if file.uploaded), default=None)
    if files and first and release.now - first > OPEN_FOR:
        yield (
            f"{release.version} has been on PyPI since {first:%Y-%m-%d}, and a release takes no new file after "
            f"{OPEN_FOR.days} days: raise the version"
        )


def _is_of(name: str, release: UploadRelease) -> bool:
    try:
        return identity(name)[1] == parse_version(release.version)
    except ValueError:
        return False


# -- rules of one file


def _size(file: Archive) -> Iterator[str]:
    if file.size > MAX_BYTES:
        yield (
            f"it has {file.size / MIB:,.1f} MiB, PyPI takes {MAX_BYTES // MIB} unless it granted the project more: "
            "build fewer architectures into it, or publish it elsewhere"
        )


def _name(file: Archive) -> Iterator[str]:
    """Check that the name is normalized: PEP 625 for sdists, PEP 427 and PEP 503 for wheels."""
    try:
        project, version = identity(file.name)
    except ValueError:
        return  # reported already
    normalised = project.replace("-", "_")
    if not file.name.endswith(".whl") and file.name != f"{normalised}-{version}.tar.gz":
        yield f"an sdist of this release is named {normalised}-{version}.tar.gz (PEP 625)"
    elif file.name.endswith(".whl") and file.name.partition("-")[0] != normalised:
        yield f"a wheel of this project has a name that begins with {normalised}- (PEP 427)"
    if version.local:
        yield f"PyPI takes no local version, it has +{version.local}"


def _platform(file: Archive) -> Iterator[str]:
    try:
        platforms = {tag.platform for tag in parse_wheel_filename(file.name)[3]}
    except ValueError:  # also more digits than Python converts
        return
    for platform in sorted(platforms):
        if not PLATFORMS.fullmatch(platform):
            asked = "a manylinux or musllinux tag" if "linux" in platform else "a platform PyPI knows"
            yield f"PyPI takes no wheel for {platform}, expected {asked}"


def _content(file: Archive) -> Iterator[str]:
    """Check that the files which every wheel or sdist must have exist in the right places."""
    if file.name.endswith(".whl"):
        top = "-".join(file.name.split("-")[:2]) + ".dist-info"
        needed = [f"{top}/WHEEL", f"{top}/RECORD"]
        licences = f"{top}/licenses"
    else:
        top = licences = file.name.removesuffix(".tar.gz")
        needed = []
    fields, _ = _read(file.metadata)
    needed += [f"{licences}/{path}" for path in (fields and fields.license_files) or ()]
    there = frozenset(file.members)
    yield from (f"it has no {path}" for path in needed if path not in there)


def _zip(file: Archive) -> Iterator[str]:
    if not file.name.endswith(".whl"):
        return
    yield from file.flaws
    twice = sorted(name for name, count in Counter(file.members).items() if count > 1)
    yield from (f"it has {name!r} more than once" for name in twice)
    yield from (f"it has {name!r}, which cannot be printed" for name in file.members if UNPRINTABLE.search(name))
    if file.unpacked > max(FREE_UNPACKED, MAX_RATIO * file.size):
        yield f"it unpacks to {file.unpacked:,} bytes, over {MAX_RATIO} times its size: PyPI takes it for a zip bomb"


def _fields(file: Archive) -> Iterator[str]:
    """Check PyPI's limits for METADATA that go beyond the specification."""
    fields, _ = _read(file.metadata)
    if fields is None:
        return
    yield from field_problems(fields)
    yield from _wrong_classifiers(fields.classifiers or ())
    for requirement in fields.requires_dist or ():
        if requirement.url is not None:
            yield f"Requires-Dist names an address, which PyPI takes from nobody: {requirement.name}"


def field_problems(fields: Metadata) -> Iterator[str]:
    """Yield why PyPI takes no METADATA with such a summary or such addresses."""
    if len(fields.summary or "") > MAX_SUMMARY:
        yield f"Summary has {len(fields.summary or ''):,} characters, PyPI takes {MAX_SUMMARY}"
    yield from _wrong_links(fields)


def _wrong_classifiers(said: Iterable[str]) -> Iterator[str]:
    for number, classifier in enumerate(said):
        if classifier in deprecated_classifiers:
            instead = ", ".join(deprecated_classifiers[classifier]) or "none"
            yield f"Classifier {classifier!r} is not in use any more, in its place: {instead}"
        elif classifier.startswith("Private ::"):
            yield f"Classifier {classifier!r} says that this project is not for PyPI"
        elif classifier not in classifiers:
            yield f"Classifier {classifier!r} is unknown to PyPI{_like(classifier) if number < MAX_SHOWN else ''}"


def _like(classifier: str) -> str:
    found = nearest(classifier, classifiers)
    return f", {found}" if found.startswith("did you") else ""


def _wrong_links(fields: Metadata) -> Iterator[str]:
    for label in fields.project_urls or {}:
        if not label or len(label) > MAX_LABEL:
            yield f"Project-URL {label!r} needs a label of 1 to {MAX_LABEL} characters"
    said = {"Home-page": fields.home_page, "Download-URL": fields.download_url, **(fields.project_urls or {})}
    for label, address in said.items():
        if address is not None and not address.startswith(("http://", "https://")):
            yield f"the address of {label!r} is not a web address: {address!r}"


def classifier_problems(metadata: bytes) -> Iterator[str]:
    """Yield a message for each classifier in METADATA that PyPI does not know or no longer accepts."""
    fields, _ = _read(metadata)
    yield from _wrong_classifiers((fields.classifiers if fields else None) or ())


def description_problems(metadata: bytes) -> Iterator[str]:
    """Yield why the description in METADATA cannot be rendered; plain text and Markdown always can."""
    fields, _ = _read(metadata)
    if fields is None or not fields.description:
        return
    header = EmailMessage()
    header["content-type"] = fields.description_content_type or "text/x-rst"
    if header.get_content_type() != "text/x-rst":
        return
    reason = _explain_markup(fields.description)
    if reason is not None:
        advice = "" if fields.description_content_type else "; where it is Markdown, say so in Description-Content-Type"
        yield f"its description is not valid reStructuredText: {_printable(reason)}{advice}"


@functools.lru_cache(maxsize=8)  # every wheel of a release has the same, and docutils takes longer than other rules
def _explain_markup(text: str) -> str | None:
    """Return why a text is not valid reStructuredText, as PyPI renders it; None if it is valid."""
    import readme_renderer.rst  # noqa: PLC0415 - docutils loads longer than a plan is made

    complaints = io.StringIO()
    if readme_renderer.rst.render(text, stream=complaints) is not None:
        return None
    return complaints.getvalue().strip().partition("\n")[0].removeprefix("<string>:")


RULES: tuple[Callable[[Archive], Iterator[str]], ...] = (
    *(_size, _name, _platform, _content, _zip, _fields),
    lambda file: description_problems(file.metadata),
)


def _read(metadata: bytes) -> tuple[Metadata | None, tuple[str, ...]]:
    """Return the fields of METADATA and its errors; None instead of the fields if it is invalid or empty."""
    if not metadata:
        return None, ()
    fields, errors = read_fields(metadata)
    return fields, tuple(f"its metadata is not valid: {error}" for _, error in errors)


def read_fields(metadata: bytes) -> tuple[Metadata | None, tuple[tuple[str, str], ...]]:
    """Return the fields of METADATA, None if it is invalid, and each error with the field it is about.

    License-File below Metadata-Version 2.4 is accepted: setuptools long wrote it, twine leaves it out, PyPI takes it.
    """
    flaw = explain_headers(metadata.decode(errors="replace"))
    if flaw:
        return None, (("", flaw),)
    try:
        raw, unknown = parse_email(metadata)
        if raw.get("metadata_version", "").startswith(("1.", "2.0", "2.1", "2.2", "2.3")):
            raw.pop("license_files", None)
        fields = Metadata.from_raw(raw, validate=False)
        errors: list[Exception] = [InvalidMetadata(name, f"unrecognized field: {name!r}") for name in unknown]
        try:
            fields = Metadata.from_raw(raw)
        except ExceptionGroup as group:
            errors += group.exceptions
    except RecursionError:  # from Python's email, for a content type with thousands of brackets
        return None, (("Description-Content-Type", "a field is nested too deeply to be read"),)
    said = tuple((getattr(error, "field", ""), str(error).partition("\n")[0]) for error in errors)
    return None if said else fields, said


def _printable(text: str) -> str:
    """Return an untrusted name with `?` for each control character, which could move a terminal's cursor."""
    return CONTROL.sub("?", text)
