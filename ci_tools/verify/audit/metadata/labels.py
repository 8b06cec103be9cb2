"""Rules about a wheel's metadata: its name, its tags, its requirements."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.tags import parse_tag
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from ci_tools.addresses import redact
from ci_tools.formats.pypi_rules import (
    PLATFORMS,
    classifier_problems,
    description_problems,
    field_problems,
    read_fields,
)
from ci_tools.formats.wheel import SBOM, Wheel
from ci_tools.model.files import Level
from ci_tools.model.versions import Minor, admits, parse_requirement, parse_specifiers, read_version
from ci_tools.verify.audit.subject import Flaw, Subject, abbreviate

if TYPE_CHECKING:
    from packaging.requirements import Requirement


TEXT_FILES = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt")
SAID_ELSEWHERE = frozenset({"name", "version", "requires-python"})
# Fields that occur once (core metadata specification); readers take the first, or the last.
# ruff: noqa: SIM905 - as words they fit on a page
ONCE = tuple(
    "Metadata-Version Name Version Summary Description Description-Content-Type Home-page Download-URL Author "
    "Author-email Maintainer Maintainer-email License License-Expression Requires-Python Keywords".split()
)
OF_ONE_MACHINE = re.compile(r"linux_\w+|macosx_\d+_\d+_\w+|win_\w+|ios_\w+|android_\w+|(?:many|musl)linux_\d+_\d+_\w+")
INTERPRETER = re.compile(r"(?:py|cp|pp|ip|jy|graalpy)\d+")
ABI = re.compile(r"none|abi3t?|cp\d+[a-z]*|pypy\d+_pp\d+|graalpy\w+|jython\w*")
DECIDING = frozenset({"Metadata-Version", "Name", "Version", "Requires-Python"})
# All Pythons that a wheel could meet: of a tag for all of them, one has to be admitted.
PYTHONS = tuple(Minor(major, minor) for major in (2, 3) for minor in range(100))
OF_PYTHON = re.compile(r"(?P<kind>cp|py)(?P<major>\d)(?P<minor>\d*)")
INTRODUCED = "introduced in metadata version"  # indexes accept such a field: setuptools has long written them
LICENCE_FILE = re.compile(r"(?:^|/)[^/]*(?:licen[cs]e|copying|notice|authors|copyright)|^licenses/", re.IGNORECASE)
LIBRARY_NAME = re.compile(r"(?:lib)?(?P<name>[A-Za-z]*)")


def names(subject: Subject) -> Iterator[Flaw]:
    """File name, dist-info folder and METADATA agree on project and version."""
    wheel = subject.wheel
    if wheel.named is None:
        yield Flaw("the file name is not a wheel's", wheel.path.name, "name-version-python-abi-platform.whl (PEP 427)")
        return
    if not wheel.dist_info:
        yield Flaw("the wheel does not have one dist-info folder", "none or several", "one")
        return
    name, version, _ = wheel.named
    folder_name, _, folder_version = wheel.dist_info.removesuffix(".dist-info").partition("-")
    said = {
        "the dist-info folder": (folder_name, folder_version),
        "METADATA": (wheel.metadata.get("Name", ""), wheel.metadata.get("Version", "")),
    }
    for where, (said_name, said_version) in said.items():
        if canonicalize_name(said_name) != name:
            yield Flaw(f"{where} and the file name differ in the project", said_name or "nothing", name)
        if read_version(said_version) != version:
            yield Flaw(f"{where} and the file name differ in the version", said_version or "nothing", str(version))


def tags(subject: Subject) -> Iterator[Flaw]:
    """WHEEL has the tags and build number of the file name, Root-Is-Purelib fits them, and they are the planned ones.

    In a wheel from elsewhere for one platform, Root-Is-Purelib is a warning: NVIDIA's wheels have it, and it works
    wherever Python has one folder for both kinds of packages.
    """
    if subject.wheel.named is None:
        return
    said = {tag for line in subject.wheel.wheel_metadata.get_all("Tag", []) for tag in _expand_tag(line)}
    if said != subject.tags:
        yield Flaw("WHEEL and the file name differ in their tags", abbreviate(said), abbreviate(subject.tags))
    yield from _unknown_tags(subject)
    number = "".join(map(str, parse_wheel_filename(subject.wheel.path.name)[2]))
    # PEP 427 leaves Build out of WHEEL if there is none; other tools often do in any case.
    if subject.job and (written := subject.wheel.wheel_metadata.get("Build", "")) != number:
        yield Flaw("WHEEL and the file name differ in their build number", written or "none", number or "none")
    for field in ("Wheel-Version", "Root-Is-Purelib", "Build"):
        if len(given := subject.wheel.wheel_metadata.get_all(field, [])) > 1:
            yield Flaw(f"WHEEL has {field} {len(given)} times", abbreviate(map(str, given)), "once")
    purelib = subject.wheel.wheel_metadata.get("Root-Is-Purelib", "").lower()
    if purelib != str(subject.is_pure).lower():
        level = Level.WARNING if purelib == "true" and subject.job is None else Level.ERROR
        expected = str(subject.is_pure).lower()
        yield Flaw("Root-Is-Purelib does not fit the tags", purelib or "nothing", expected, level)
    if subject.job and subject.wheel.path.name != subject.job.wheel:
        yield Flaw("the file name is not the planned one", subject.wheel.path.name, subject.job.wheel)


def _unknown_tags(subject: Subject) -> Iterator[Flaw]:
    """Yield the tags that no installer has among its own."""
    for platform in sorted(subject.platforms):
        if not (PLATFORMS.fullmatch(platform) or OF_ONE_MACHINE.fullmatch(platform)):
            yield Flaw("no installer takes a wheel for this platform", platform, "manylinux_2_28_x86_64, win_amd64, …")
    for tag in sorted(subject.tags):
        python, abi, platform = tag.split("-")
        if not (INTERPRETER.fullmatch(python) and ABI.fullmatch(abi)) or (platform == "any" and abi != "none"):
            yield Flaw("no installer takes a wheel of this tag", tag, "py3-none-any, cp311-cp311-…, cp311-abi3-…")


def _expand_tag(tag: str) -> frozenset[str]:
    """Return the tags that a line of WHEEL stands for; an invalid tag stands for itself."""
    try:
        return frozenset(map(str, parse_tag(tag)))
    except ValueError:
        return frozenset({tag})


def requires_python(subject: Subject) -> Iterator[Flaw]:
    """Requires-Python admits every Python the wheel is to serve."""
    said = subject.wheel.metadata.get("Requires-Python", "")
    try:
        specifier = parse_specifiers(said)
    except ValueError:  # also more digits than Python converts
        yield Flaw("Requires-Python is not a specifier", said, "one such as >=3.10 (PEP 440)")
        return
    if said and not any(admits(specifier, python) for python in _find_pythons(subject)):
        effect = "every installer refuses it, on each Python of its tags"
        yield Flaw("Requires-Python admits no Python of the tags", said, abbreviate(subject.tags), effect=effect)
    served = {cell.python.version for cell in subject.job.covers} if subject.job else set()
    refused = [str(python) for python in sorted(served) if not admits(specifier, python)]
    if refused:
        yield Flaw("Requires-Python refuses a Python the wheel is for", said, f"Python {', '.join(refused)} admitted")


def _find_pythons(subject: Subject) -> Iterator[Minor]:
    """Yield the Pythons of the tags: one, those from the tag's on for abi3 and py3x, or all of a major version."""
    for tag in subject.tags:
        python, abi, _ = tag.split("-")
        if match := OF_PYTHON.fullmatch(python):
            lowest = Minor(int(match["major"]), int(match["minor"] or 0))
            is_one = match["kind"] == "cp" and bool(match["minor"]) and not abi.startswith("abi3")
            later = (one for one in PYTHONS if one >= lowest and one.major == lowest.major)
            yield from [lowest] if is_one else later


def requires_torch(subject: Subject) -> Iterator[Flaw]:
    """Torch is required within what the wheel was built for, and every torch it is to serve is admitted."""
    job = subject.job
    if job is None:
        return
    said = list(requirements(subject.wheel))
    torches = [requirement for requirement in said if canonicalize_name(requirement.name) == "torch"]
    always = [requirement for requirement in torches if requirement.marker is None]
    found = "; ".join(map(str, torches)) or "nothing"
    within = set(parse_specifiers(job.requires_torch))
    if within and (not always or not all(within <= set(requirement.specifier) for requirement in torches)):
        yield Flaw("another torch may be installed than the wheel is for", found, f"torch{job.requires_torch}")
    served = sorted({cell.torch for cell in job.covers if cell.torch})
    refused = [str(torch) for torch in served if not all(admits(one.specifier, torch) for one in always)]
    if refused:
        yield Flaw("METADATA refuses a torch the wheel is for", found, f"torch {', '.join(refused)} admitted")


def requirements(wheel: Wheel) -> Iterator[Requirement]:
    """Yield a wheel's requirements; the `metadata` rule reports those that cannot be parsed."""
    for text in wheel.metadata.get_all("Requires-Dist", []):
        with suppress(ValueError):
            yield parse_requirement(text)


# ---------------------------------------------------------------- the files of dist-info


def metadata(subject: Subject) -> Iterator[Flaw]:
    """Files of dist-info are text that installers read, and METADATA is what a package index takes."""
    for file in TEXT_FILES:
        yield from _text(subject, file)
    version = subject.wheel.wheel_metadata.get("Wheel-Version", "")
    if not re.match(r"1\.\d+$", version):  # PEP 427: readers refuse another major version
        yield Flaw("installers refuse this Wheel-Version", version or "nothing", "1.0")
    if not subject.wheel.wheel_metadata.get("Generator"):
        yield Flaw("WHEEL does not say what made it", "nothing", "Generator (PEP 427)", Level.WARNING)
    for field in ONCE:
        if len(said := subject.wheel.metadata.get_all(field, [])) > 1:
            level = Level.ERROR if field in DECIDING else Level.WARNING
            yield Flaw(f"METADATA has {field} {len(said)} times", abbreviate(map(str, said)), "once", level)
    for field, problem in read_fields(subject.wheel.dist_info_data("METADATA"))[1]:
        is_of_licence = field in {"license-expression", "license-file"} and INTRODUCED not in problem
        if field not in SAID_ELSEWHERE and not is_of_licence:
            is_taken = INTRODUCED in problem and field != "license-expression"
            level = Level.WARNING if is_taken else Level.ERROR
            yield Flaw(f"METADATA: {problem}", field, "a value that the core metadata specification allows", level)


def _text(subject: Subject, file: str) -> Iterator[Flaw]:
    """Check the bytes of a file in dist-info; raise Rejected if they are not UTF-8."""
    content = subject.wheel.dist_info_text(file)
    if "\0" in content:
        yield Flaw(f"{file} holds a zero byte", "NUL", "text")
    if content.startswith("\ufeff"):
        yield Flaw(
            f"{file} starts with a byte order mark, which installers take for a part of the first field", "BOM", "none"
        )


# ---------------------------------------------------------------- an index's own rules


def index(subject: Subject) -> Iterator[Flaw]:
    """METADATA has what an index takes and shows: a description that renders, known classifiers, no address to require.

    An error if the wheel may go to PyPI and only the upload would show it: PyPI renders with readme_renderer. Unknown
    classifiers are a warning: PyPI may know newer ones than this machine, and older wheels have those of their time. A
    `file:` requirement is always an error, since it names a path on the machine that built the wheel.
    """
    content = subject.wheel.dist_info_data("METADATA")
    strictness = Level.ERROR if subject.to_pypi else Level.WARNING
    fields, _ = read_fields(content)
    for problem in field_problems(fields) if fields else ():
        yield Flaw(f"METADATA: {problem}", "a field", "one that PyPI takes", strictness)
    labels = subject.wheel.metadata
    if (labels.get_payload() or labels.get("Description")) and not labels.get("Description-Content-Type"):
        expected = "text/markdown, text/x-rst or text/plain"
        yield Flaw("METADATA does not say of which kind its description is", "nothing", expected, Level.WARNING)
    for problem in description_problems(content):
        yield Flaw(f"METADATA: {problem}", "Description", "one that renders", strictness)
    for problem in classifier_problems(content):
        yield Flaw(f"METADATA: {problem}", "Classifier", "one of trove-classifiers", Level.WARNING)
    for requirement in requirements(subject.wheel):
        if requirement.url is not None:
            level = Level.ERROR if requirement.url.lower().startswith("file:") else strictness
            message = f"METADATA requires {requirement.name} from one address"
            yield Flaw(message, redact(requirement.url), "a version specifier", level)


# ---------------------------------------------------------------- the licence


def licence(subject: Subject) -> Iterator[Flaw]:
    """Licence files that METADATA names are there, and the licence of each part of the wheel is stated."""
    wheel, fields = subject.wheel, subject.wheel.metadata
    present = {member.name.partition("/")[2] for member in subject.members if member.name.startswith(wheel.dist_info)}
    named = fields.get_all("License-File", [])
    for name in named:
        # Before PEP 639, tools put them into various places.
        if not present & {f"licenses/{name}", f"license_files/{name}", name, name.rpartition("/")[2]}:
            yield Flaw(f"the licence file {name} is not in the wheel", "no such file", f"licenses/{name} (PEP 639)")
    expression = fields.get("License-Expression")
    if expression is not None:
        yield from _expression(expression)
    classified = any(field.startswith("License ::") for field in fields.get_all("Classifier", []))
    files = [name for name in present if LICENCE_FILE.search(name)]
    if not (files or named or expression or classified or fields.get("License")):
        yield Flaw("the wheel does not state its licence", "no field, no file", "License-Expression", Level.WARNING)
    yield from _check_grafts(subject, files)


def _expression(expression: str) -> Iterator[Flaw]:
    try:
        canonicalize_license_expression(expression)
    except InvalidLicenseExpression as error:
        yield Flaw("License-Expression is not valid", expression, str(error) or "an SPDX expression")


def _check_grafts(subject: Subject, files: Sequence[str]) -> Iterator[Flaw]:
    """Check that the licence files name each library of another project in the wheel."""
    grafted = {member.base for member in subject.members if member.is_grafted and member.format}
    told = "\n".join([*files, *(subject.wheel.dist_info_data(name).decode("utf-8", "replace") for name in files)])
    untold = {name for name in grafted if LIBRARY_NAME.match(name)["name"].lower() not in told.lower()}  # type: ignore[index]
    if untold:
        message = "libraries of others are in the wheel, and no licence file names them"
        yield Flaw(message, abbreviate(untold), "their licences in dist-info/licenses", Level.WARNING)


CYCLONEDX = "CycloneDX"
FOLDER = PurePosixPath(SBOM).parent


def sbom(subject: Subject) -> Iterator[Flaw]:
    """Each SBOM in dist-info is JSON that names this wheel; a wheel that Fatwheel builds has one.

    A warning in wheels from elsewhere. An SBOM of another tool may lack the local version, which is put on the finished
    wheel; one that is not in CycloneDX's JSON, such as SPDX, is not compared.
    """
    level = Level.ERROR if subject.job else Level.WARNING
    dist_info = PurePosixPath(subject.wheel.dist_info)
    found = [member.name for member in subject.members if PurePosixPath(member.name).parent == dist_info / FOLDER]
    if subject.job and str(dist_info / SBOM) not in found:
        yield Flaw("the wheel has no SBOM of its build", "no such member", str(dist_info / SBOM))
    for name in found:
        if name.endswith(".json"):
            file = str(PurePosixPath(name).relative_to(dist_info))
            yield from (flaw._replace(level=level) for flaw in _check(file, subject))


def _check(file: str, subject: Subject) -> Iterator[Flaw]:
    try:
        content = json.loads(subject.wheel.dist_info_data(file))
    except (ValueError, RecursionError) as error:
        yield Flaw(f"{file} is not JSON: {str(error).splitlines()[0]}", "unreadable", "a CycloneDX or SPDX document")
        return
    is_ours = file == SBOM
    if not isinstance(content, dict) or (is_ours and content.get("bomFormat") != CYCLONEDX):
        yield Flaw(f"{file} is not an SBOM", type(content).__name__, f'an object with "bomFormat": "{CYCLONEDX}"')
    elif content.get("bomFormat") == CYCLONEDX and subject.wheel.named:
        yield from _compare(file, content, subject.wheel.named[0], subject.wheel.named[1])


def _compare(file: str, content: dict[str, Any], name: str, version: Version) -> Iterator[Flaw]:
    """Compare the component that an SBOM describes with the project and version of the file name."""
    described: Any = content.get("metadata")
    described = described.get("component") if isinstance(described, dict) else None
    if not isinstance(described, dict):
        if file == SBOM:
            yield Flaw(f"{file} does not say what it describes", "no metadata.component", f"{name} {version}")
        return
    said_name, said_version = str(described.get("name", "")), str(described.get("version", ""))
    if canonicalize_name(said_name) != name:
        yield Flaw(f"{file} and the file name differ in the project", said_name or "nothing", name)
    allowed = {version} if file == SBOM else {version, read_version(version.public)}
    if read_version(said_version) not in allowed:
        yield Flaw(f"{file} and the file name differ in the version", said_version or "nothing", str(version))
