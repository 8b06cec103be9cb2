"""Versions and architectures: of Python, torch, CUDA and ROCm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

__all__ = ["CudaArch", "GfxArch", "Minor", "Python", "admits"]


class Minor(NamedTuple):
    """A `major.minor` version of Python, torch, CUDA or ROCm; orders as numbers."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Minor:
        """Read `13.0`; raise ValueError for anything else."""
        match = re.fullmatch(r"(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})", text)
        if match is None:
            msg = f'"{text}" is not a version such as 13.0'
            raise ValueError(msg)
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        """Return `13.0`."""
        return f"{self.major}.{self.minor}"

    @property
    def digits(self) -> str:
        """The version without its dot, as in `cu130` and `cp312`."""
        return f"{self.major}{self.minor}"

    @property
    def next(self) -> Minor:
        """The first version that is not this one any more."""
        return Minor(self.major, self.minor + 1)


NEWEST_PATCH = 999  # newer than any patch release there will be


def admits(specifier: SpecifierSet, version: Minor) -> bool:
    """Return whether a specifier admits some release of a minor version (PEP 440).

    What it admits changes at the releases that it names, so those are tried, their neighbours, and both ends.
    """
    named = (re.match(rf"{version.major}\.{version.minor}\.(\d+)", one.version) for one in specifier)
    patches = {max(int(match[1]) + step, 0) for match in named if match for step in (-1, 0, 1)}
    releases = [f"{version}.{patch}" for patch in sorted({0, NEWEST_PATCH, *patches})]
    # With pre-releases: a Python or a torch that is still one is asked for by that.
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
    """One entry of `TORCH_CUDA_ARCH_LIST`: a compute capability, its variant, and whether PTX rides along."""

    capability: Minor
    variant: str = ""  # "a": this chip only; "f": this chip's family (CUDA 12.9 and later)
    ptx: bool = False

    @classmethod
    def parse(cls, text: str) -> CudaArch:
        """Read `9.0`, `9.0a` or `10.0+PTX`; raise ValueError for anything else."""
        match = re.fullmatch(r"(\d{1,2}\.\d)([af]?)(\+PTX)?", text)
        if match is None:
            msg = f'"{text}" is not an architecture such as 9.0, 9.0a or 10.0+PTX'
            raise ValueError(msg)
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


class GfxArch(NamedTuple):
    """One entry of `PYTORCH_ROCM_ARCH`: a processor, or a generic target, and the features it is for or is not for.

    Code without features runs whatever their setting; LLVM calls this a target ID.
    """

    processor: str
    features: tuple[str, ...] = ()  # "xnack+"

    @classmethod
    def parse(cls, text: str) -> GfxArch:
        """Read `gfx942`, `gfx9-4-generic` or `gfx90a:xnack+`; raise ValueError for anything else."""
        processor, *features = text.split(":")
        if GFX.fullmatch(processor) is None or not all(re.fullmatch(r"[a-z]+[+-]", feature) for feature in features):
            msg = f'"{text}" is not an architecture such as gfx942, gfx9-4-generic or gfx90a:xnack+'
            raise ValueError(msg)
        return cls(processor, tuple(sorted(features)))

    def __str__(self) -> str:
        """Return `gfx90a:sramecc-:xnack+`, the features in the order in which compilers write them."""
        return ":".join((self.processor, *self.features))

    @property
    def named(self) -> tuple[str, ...]:
        """Its features, whether they are to be on or off."""
        return tuple(feature[:-1] for feature in self.features)

    @property
    def capability(self) -> Minor:
        """What torch says of such a GPU where it says the compute capability of others, 9.4 for gfx942."""
        found = GFX.fullmatch(self.processor)
        return Minor(int(found["major"]), int(found["minor"] or found["part"] or 0)) if found else Minor(0, 0)


GFX = re.compile(r"gfx(?P<major>\d{1,2}?)((?P<minor>\d)[0-9a-f]|(-(?P<part>\d))?-generic)")
