"""The edition of a release (stable, candidate or nightly), its version, and the variables that its builds see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from string import Formatter

from packaging.utils import canonicalize_name
from packaging.version import Version

from ci_tools.errors import InputError, TagError
from ci_tools.model.evidence import Project
from ci_tools.model.request import STABLE, UNTAGGED, Channel, Edition
from ci_tools.model.versions import parse_version, read_version

FIELDS = frozenset({"name", "version"})  # of a template: a release is for every Python, torch and CUDA
ALIAS_FIELDS = frozenset({"cuda", "cuda_major", "torch", "cxx11abi"})  # of the template of a wheel's second name
VERSION = "0.0+any"  # stands for every version
CANDIDATE = r"(?:-rc([1-9][0-9]{0,3}))?"
# The variables from which backends take a project's version instead of asking git, and that of PyTorch's own builds.
VERSION_VARIABLES = (
    "SETUPTOOLS_SCM_PRETEND_VERSION",  # setuptools-scm, and hatch-vcs, which is made of it
    "PDM_BUILD_SCM_VERSION",
    "POETRY_DYNAMIC_VERSIONING_BYPASS",
    "UV_DYNAMIC_VERSIONING_BYPASS",
    "BUILD_VERSION",
)


def parse_tag(tag: str, template: str, name: str, version: str) -> Edition:
    """Return the edition of a git tag: stable, or a candidate if the tag ends in `-rcN`.

    `template` is the config's `release: {tag: …}`. Raises InputError for a tag of another project or version.
    """
    known = {"name": name, "version": version}
    edition = _read(tag, template, known)
    if edition is None:
        expected = tag_of(STABLE, template, known)
        msg = f"{tag!r} is not a tag of {name} {version}, expected {expected}, or {expected}-rc1 for a candidate"
        raise TagError(msg, hint="the tag and the project's version change together")
    return edition


def is_named(tag: str, template: str, name: str) -> bool:
    """Whether a tag can be made by a template for some version of the project `name`."""
    any_version = "".join(_patterns(template, {"name": name, "version": VERSION})).replace(re.escape(VERSION), "(.+)")
    found = re.fullmatch(f"(?:{any_version}){CANDIDATE}", tag)
    return found is not None and all(read_version(text) for text in found.groups()[:-1])


def parse_commit_tags(tags: Iterable[str], template: str, known: Mapping[str, str]) -> Edition:
    """Return the edition of a commit with these git tags: stable, the newest candidate, or untagged."""
    editions = {edition for tag in tags if (edition := _read(tag, template, known))}
    return STABLE if STABLE in editions else max(editions, key=lambda one: one.candidate or 0, default=UNTAGGED)


def _read(tag: str, template: str, known: Mapping[str, str]) -> Edition | None:
    """Return the edition that a tag names according to the template; None if the tag is of another version."""
    found = re.fullmatch("".join(_patterns(template, known)) + CANDIDATE, tag)
    if found is None:
        return None
    return Edition(Channel.TEST, int(found[1])) if found[1] else STABLE


def _patterns(template: str, known: Mapping[str, str]) -> Iterator[str]:
    for literal, field, *_ in Formatter().parse(template):
        yield re.escape(literal)
        if field is not None:
            yield re.escape(known[field])


def tag_of(edition: Edition, template: str, known: Mapping[str, str]) -> str:
    """Return the tag of an edition according to the config's template."""
    return template.format(**known) + (f"-rc{edition.candidate}" if edition.candidate else "")


def candidate_of(tag: str, version: Version) -> int:
    """Return the N of a tag that ends in `-rcN`, unless the version itself is that candidate; 0 for any other tag."""
    found = re.search("-rc([1-9][0-9]{0,3})$", tag)
    return int(found[1]) if found and version.pre != ("rc", int(found[1])) else 0


def title_of(edition: Edition, template: str, known: Mapping[str, str]) -> str:
    """Return the title of an edition's GitHub Release according to the config's template."""
    return template.format(**known) + (f", candidate {edition.candidate}" if edition.candidate else "")


def is_template(text: str, fields: frozenset[str] = FIELDS) -> bool:
    """Whether a text is a valid template: it has only these fields, without format or conversion."""
    try:
        parsed = list(Formatter().parse(text))
    except ValueError:
        return False
    return all(field is None or (field in fields and not form and not how) for _, field, form, how in parsed)


def nightly(date: str) -> Edition:
    """Return the nightly edition of a date such as 20261121; raise InputError if it is not a date."""
    if not is_date(date):
        raise InputError(f"{date!r} is not a date, expected one such as 20261121")
    return Edition(Channel.NIGHTLY, date=date)


def is_date(text: str) -> bool:
    """Whether a text is a date in the form 20261121."""
    found = re.fullmatch(r"(20[0-9]{2})([0-9]{2})([0-9]{2})", text)
    try:
        return found is not None and bool(date(*map(int, found.groups())))
    except ValueError:
        return False


def version(base: str, edition: Edition) -> str:
    """Return the version of an edition's files (PEP 440); a nightly's ends in its date, as in `1.2.0.dev20261121`.

    In a nightly, the date replaces a pre-release such as `1.2.0a0`. A candidate has the plain version: exactly its
    bytes become the stable release.
    """
    if edition.channel is not Channel.NIGHTLY:
        return base
    said = parse_version(base)
    post = "" if said.post is None else f".post{said.post}"
    return f"{said.base_version}{post}.dev{edition.date}"


def variables(project: Project, edition: Edition, said: str | None = None, commit: str | None = None) -> dict[str, str]:
    """Return the environment variables that give the edition's version to a build.

    `project` has the edition's version; `said` is the version in the config. A stable build gets variables only if the
    config names a version, or the project's own tool was asked for it. A commit without a tag is built like a stable
    one. The names are those that backends and PyTorch's own builds read. With a version of
    the project's own tool goes the `commit`: setuptools-scm writes it into the version's file, also for hatch-vcs.
    """
    told = tell_version(project.name, project.version)
    if commit and project.told and not project.hides_git:
        told["SETUPTOOLS_SCM_PRETEND_METADATA"] = f'{{node="g{commit}"}}'
    if edition.channel in {Channel.STABLE, None}:
        return told if said or project.told else {}
    return {**told, "VERSION_SUFFIX": "", "CHANNEL": str(edition.channel)}


def tell_version(name: str, version: str) -> dict[str, str]:
    """Return the variables that tell a build the version of the project of this name."""
    own = canonicalize_name(name).replace("-", "_").upper()
    return dict.fromkeys((*VERSION_VARIABLES, f"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_{own}"), version)
