"""Versions and architectures: of Python, torch, CUDA and ROCm, and those of anybody (PEP 440, PEP 508).

An untrusted one that is invalid gives None or ValueError.
"""

from __future__ import annotations

import functools
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

if TYPE_CHECKING:
    from packaging.requirements import Requirement


class Minor(NamedTuple):
    """A `major.minor` version of Python, torch, CUDA or ROCm, or a nightly of torch; orders as numbers."""

    major: int
    minor: int
    nightly: str = ""  # the date of a torch nightly, such as 20261125; no other version has one

    @classmethod
    def parse(cls, text: str) -> Minor:
        """Read `13.0`; raise ValueError for anything else."""
        match = re.fullmatch(r"(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})", text)
        if match is None:
            raise ValueError(f'"{text}" is not a version such as 13.0')
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def parse_torch(cls, text: str) -> Minor:
        """Read `2.16`, or a nightly such as `2.16.0.dev20261125`; raise ValueError for anything else."""
        release, _, date = text.partition(".0.dev")
        if date and re.fullmatch(r"20\d{6}", date, re.ASCII) is None:
            raise ValueError(f'"{text}" is not a torch such as 2.16 or 2.16.0.dev20261125')
        return cls.parse(release if date else text)._replace(nightly=date)

    def __str__(self) -> str:
        """Return `13.0`; of a nightly its whole version, since only that says which torch it is."""
        return f"{self.major}.{self.minor}{f'.0.dev{self.nightly}' if self.nightly else ''}"

    @property
    def digits(self) -> str:
        """The version without its dot, as in `cu130` and `cp312`."""
        return f"{self.major}{self.minor}"

    @property
    def next(self) -> Minor:
        """The next minor version, the first that is newer than every patch release of this one."""
        return Minor(self.major, self.minor + 1)

    @property
    def pin(self) -> str:
        """The version of a torch that is installed: any patch release of a minor version, or one nightly."""
        return str(self) if self.nightly else f"{self}.*"

    @property
    def requirement(self) -> str:
        """The specifier of exactly this torch (PEP 440): any patch release of a minor version, or one nightly."""
        return f"=={self}" if self.nightly else f">={self},<{self.next}"


NEWEST_PATCH = 999  # higher than any patch release that will exist


def admits(specifier: SpecifierSet, version: Minor) -> bool:
    """Return whether a specifier admits some release of a minor version (PEP 440).

    The set of admitted releases changes only at the releases that the specifier names. So those are tried, with their
    neighbours and both ends. A nightly is one release, which comes before the final one: `>=2.16` does not admit it.
    """
    if version.nightly:
        return specifier.contains(str(version), prereleases=True)
    named = [re.match(rf"{version.major}\.{version.minor}\.(\d+)(\+.+)?", one.version) for one in specifier]
    patches = {max(int(match[1]) + step, 0) for match in named if match for step in (-1, 0, 1)}
    labelled = [match[0] for match in named if match and match[2]]  # `==2.13.0+xpu` admits no release without the label
    releases = [*(f"{version}.{patch}" for patch in sorted({0, NEWEST_PATCH, *patches})), *labelled]
    # With pre-releases: a Python or torch that is not released yet can be requested only so.
    return any(specifier.contains(release, prereleases=True) for release in releases)


class Python(NamedTuple):
    """A Python minor version, free-threaded (PEP 703) or not."""

    version: Minor
    free_threaded: bool = False

    @classmethod
    def parse(cls, text: str) -> Python:
        """Read `3.14` or `3.14t`; raise ValueError for anything else."""
        return cls(Minor.parse(text.removesuffix("t")), text.endswith("t"))

    def __str__(self) -> str:
        """Return `3.14t`."""
        return f"{self.version}{'t' if self.free_threaded else ''}"

    @property
    def interpreter_tag(self) -> str:
        """The wheel's Python tag, `cp314` (PEP 425)."""
        return f"cp{self.version.digits}"

    @property
    def abi_tag(self) -> str:
        """The wheel's ABI tag, `cp314t` for free-threaded (PEP 703)."""
        return f"{self.interpreter_tag}{'t' if self.free_threaded else ''}"


class CudaArch(NamedTuple):
    """One entry of `TORCH_CUDA_ARCH_LIST`: a compute capability, its variant, and whether PTX is included."""

    capability: Minor
    variant: str = ""  # "a": this chip only; "f": this chip's family (CUDA 12.9 and later)
    ptx: bool = False

    @classmethod
    def parse(cls, text: str) -> CudaArch:
        """Read `9.0`, `9.0a` or `10.0+PTX`; raise ValueError for anything else."""
        match = re.fullmatch(r"(\d{1,2}\.\d)([af]?)(\+PTX)?", text)
        if match is None:
            raise ValueError(f'"{text}" is not an architecture such as 9.0, 9.0a or 10.0+PTX')
        return cls(Minor.parse(match[1]), match[2], match[3] is not None)

    def __str__(self) -> str:
        """Return `10.0+PTX`."""
        return f"{self.capability}{self.variant}{'+PTX' if self.ptx else ''}"

    @property
    def sm(self) -> str:
        """The name of its machine code (SASS), `sm_100a`."""
        return f"sm_{self.capability.digits}{self.variant}"

    @property
    def compute(self) -> str:
        """The name of its virtual code (PTX), `compute_100a`."""
        return f"compute_{self.capability.digits}{self.variant}"

    def spell(self, text: str) -> str:
        """Return it in a project's own notation: `{number}` stands for 90a, `{version}` for 9.0a."""
        version = f"{self.capability}{self.variant}"
        return text.replace("{number}", version.replace(".", "")).replace("{version}", version)


class GfxArch(NamedTuple):
    """One entry of `PYTORCH_ROCM_ARCH`: a processor or generic target, with required (`+`) or forbidden (`-`) features.

    LLVM calls this a target ID (User Guide for AMDGPU Backend). Code without a feature runs with the feature on or off.
    """

    processor: str
    features: tuple[str, ...] = ()  # "xnack+"

    @classmethod
    def parse(cls, text: str) -> GfxArch:
        """Read `gfx942`, `gfx9-4-generic` or `gfx90a:xnack+`; raise ValueError for anything else."""
        processor, *features = text.split(":")
        if GFX.fullmatch(processor) is None or not all(re.fullmatch(r"[a-z]+[+-]", feature) for feature in features):
            raise ValueError(f'"{text}" is not an architecture such as gfx942, gfx9-4-generic or gfx90a:xnack+')
        return cls(processor, tuple(sorted(features)))

    def __str__(self) -> str:
        """Return `gfx90a:sramecc-:xnack+`, with the features in the compilers' order."""
        return ":".join((self.processor, *self.features))

    @property
    def named(self) -> tuple[str, ...]:
        """The names of its features, without `+` or `-`."""
        return tuple(feature[:-1] for feature in self.features)

    @property
    def capability(self) -> Minor:
        """The version that torch reports for such a GPU as its device capability, such as 9.4 for gfx942."""
        found = GFX.fullmatch(self.processor)
        return Minor(int(found["major"]), int(found["minor"] or found["part"] or 0)) if found else Minor(0, 0)


GFX = re.compile(r"gfx(?P<major>\d{1,2}?)((?P<minor>\d)[0-9a-f]|(-(?P<part>\d))?-generic)")


# ---------------------------------------------------------------- PEP 440 and PEP 508

# `packaging` raises InvalidVersion for most invalid versions, but a plain ValueError for a number with more digits than
# Python converts (`sys.int_info.default_max_str_digits`). Code that catches only the first fails on the second.
OFTEN = 1 << 12  # cached versions: those of a project are parsed again for each of its pages
MAX_SHOWN = 40  # characters of an invalid version that a message repeats
ONE = r"(?:[<>=!~]=|[<>])[ ]*[0-9][\w.*+!]*"  # most specifiers: no `===`, no hyphen
PLAIN = re.compile(rf"([A-Z0-9](?:[\w.-]*[A-Z0-9])?)[ ]*((?:{ONE}(?:[ ]*,[ ]*{ONE})*)?)", re.ASCII | re.IGNORECASE)


class Required(NamedTuple):
    """The project that a requirement names, the versions it takes, and whether it holds in some environments only."""

    name: str  # normalized
    specifier: str
    has_marker: bool


def read_version(text: str) -> Version | None:
    """Return a text as a version; None if it is invalid."""
    try:
        return parse_version(text)
    except ValueError:
        return None


@functools.lru_cache(maxsize=OFTEN)
def parse_version(text: str) -> Version:
    """Return a text as a version; raise ValueError if it is invalid."""
    try:
        return Version(text)
    except ValueError as error:
        raise ValueError(f'"{text[:MAX_SHOWN]}" is not a version (PEP 440)') from error


def parse_specifiers(text: str) -> SpecifierSet:
    """Return a text as a set of specifiers; raise ValueError if it is invalid.

    `SpecifierSet` parses its versions only at the first comparison, and raises ValueError there for a number with more
    digits than Python converts.
    """
    specifiers = SpecifierSet(text)
    specifiers.contains("0")
    return specifiers


def parse_or_all(text: str) -> SpecifierSet:
    """Return a text as specifiers, those that admit every version if it is invalid."""
    try:
        return parse_specifiers(text)
    except ValueError:  # also raised for more digits than Python converts
        return parse_specifiers("")


def read_poetry(text: str) -> str:
    """Return a specifier of poetry's as PEP 440 spells it, `>=3.10,<4` for `^3.10`; "" for alternatives and others."""
    said = re.sub(r"~(\d+\.\d+)(?![\d.])", r"~=\1.0", text)  # ~3.10 admits 3.10 only
    try:
        return str(parse_specifiers(re.sub(r"\^(\d+)([\d.]*)", lambda it: f">={it[1]}{it[2]},<{int(it[1]) + 1}", said)))
    except ValueError:
        return ""


def read_required(text: str) -> Required | None:
    """Return what a requirement (PEP 508) asks for, None if it is invalid; the versions in it are not parsed.

    One of a name and plain specifiers is read here: a plan does not wait for packaging's parser to be loaded.
    """
    if plain := PLAIN.fullmatch(text.strip()):
        with suppress(ValueError):
            return Required(canonicalize_name(plain[1]), str(SpecifierSet(plain[2])), has_marker=False)
    from packaging import requirements  # noqa: PLC0415 - see above

    try:
        found = requirements.Requirement(" ".join(text.split()))
    except ValueError:
        return None
    return Required(canonicalize_name(found.name), str(found.specifier), found.marker is not None)


def name_of_required(text: str) -> str:
    """Return the name of the project that a requirement asks for, or "" if it is not a requirement (PEP 508)."""
    found = read_required(text)
    return found.name if found else ""


def is_of_index(text: str) -> bool:
    """Whether a text is a valid requirement (PEP 508) that is looked for on an index, and not at an address."""
    try:
        return parse_requirement(text).url is None
    except ValueError:
        return False


def parse_requirement(text: str) -> Requirement:
    """Return a text as a requirement (PEP 508); raise ValueError if it, or a version in it, is invalid."""
    from packaging import requirements  # noqa: PLC0415 - see above

    requirement = requirements.Requirement(" ".join(text.split()))
    requirement.specifier.contains("0")  # see parse_specifiers
    return requirement
