"""Rules about device code: it is for the planned architectures, and no kernel lacks one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

from ci_tools.catalog.accelerators import KINDS
from ci_tools.formats.binaries.fatbinary import PTX, CompiledUnit, Image, ImageSize, images, measure_images, units
from ci_tools.model.files import Level
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.verify.audit.subject import Flaw, Member, Subject, abbreviate, read_each

LOOSE = tuple(ending for kind in KINDS.values() for ending in kind.loose)
HOLDS_DEVICE_CODE = frozenset({"ELF", "PE", "static library", "CUDA fatbinary"})


def fatbinary(subject: Subject) -> Iterator[Flaw]:
    """Device code is for the planned architectures, no more and no fewer, in every library that has any."""
    job = subject.job
    if job is None or job.accelerator is None:
        return
    kind = job.accelerator.kind
    asked = set(kind.images(job.archs))
    if not asked:
        return
    found = {name: kind.name_images(seen, asked) for name, seen in _find_images(subject, kind) if seen}
    if not found and not job.libraries:
        yield Flaw("no library holds device code", "none", _all(asked))
        return
    libraries = {name: seen for name, seen in found.items() if not name.endswith(LOOSE)}  # `_loose_files` judges these
    planned = _images_by_library(subject, libraries, asked)
    for name, expected in planned.items():
        seen = libraries.get(name, set())
        if seen != expected:
            yield Flaw(f"{name} is not for the planned architectures", _all(seen), _all(expected))
    yield from _loose_files(found, planned, asked)
    if job.libraries:
        yield from _find_unserved_archs(job.archs, kind, {image for seen in found.values() for image in seen})


def held_images(subject: Subject) -> tuple[str, ...]:
    """Return the device images in all of a wheel's own members, sorted by number."""
    found = {str(image) for _, seen in read_each(_find_device_members(subject), images) for image in seen}
    return tuple(sorted(found, key=_as_numbers))


def describe_sizes(subject: Subject) -> str:
    """Return what each architecture costs in a wheel, and what compression would save; "" without device code."""
    sizes: dict[str, ImageSize] = {}
    for _, found in read_each(_find_device_members(subject), measure_images):
        for name, one in found.items():
            known = sizes.get(name, ImageSize(0, 0))
            sizes[name] = ImageSize(known.now + one.now, known.smallest + one.smallest)
    costs = ", ".join(f"{name} {sizes[name].now / 1e6:.1f} MB" for name in sorted(sizes, key=_as_numbers))
    saved = sum(one.now - one.smallest for one in sizes.values()) / 1e6
    way = f"; `nvcc --compress-mode=size` would save {saved:.1f} MB of them" if saved >= 1 else ""
    return f"{costs}{way}"


def _as_numbers(image: str) -> tuple[bool, list[str | int], str]:
    """Return the sort key of an image: machine code before PTX, sm_90 before sm_100."""
    parts = re.split(r"(\d+)", image)
    return image.startswith("compute_"), [int(part) if part.isdigit() else part for part in parts], image


def _all(images: Iterable[str]) -> str:
    """Return all images in words: two long lists may differ only in the last one."""
    return ", ".join(sorted(images)) or "none"


def _find_images(subject: Subject, kind: AcceleratorKind) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the images in each member that may have any, also those in a format of an accelerator's own."""

    def read(library: BinaryIO) -> frozenset[str]:
        return frozenset(map(str, images(library))) | kind.find_images(library)

    return read_each(_find_device_members(subject), read)


def _find_device_members(subject: Subject) -> Iterator[Member]:
    """Yield the project's own members that may hold device code: by their first bytes, or by name for PTX text."""
    for member in subject.members:
        may_hold = member.format in HOLDS_DEVICE_CODE or member.name.endswith(LOOSE)
        if may_hold and not member.damage and not member.is_grafted:  # another project's, for its own architectures
            yield member


def _images_by_library(subject: Subject, libraries: Iterable[str], asked: set[str]) -> Mapping[str, set[str]]:
    """Return the images that each library should hold: its planned ones if known, else all of the job's."""
    if subject.job is None or not subject.job.libraries:
        return dict.fromkeys(libraries, asked)
    present = {member.name for member in subject.members}
    return {library.member: set(library.images) for library in subject.job.libraries if library.member in present}


def _loose_files(found: Mapping[str, set[str]], planned: Mapping[str, set[str]], asked: set[str]) -> Iterator[Flaw]:
    """Yield the flaws of files of device code: each may be for some architectures, together they must be for all."""
    loose = {name: seen for name, seen in found.items() if name.endswith(LOOSE)}
    expected = {image for images in planned.values() for image in images} or asked
    for name, seen in loose.items():
        if not seen <= expected:
            yield Flaw(f"{name} is not for the planned architectures", _all(seen), f"some of {_all(expected)}")
    together = {image for seen in loose.values() for image in seen}
    if loose and not planned and together < expected:
        yield Flaw("the files with device code are not for all planned architectures", _all(together), _all(asked))


def _find_unserved_archs(archs: Iterable[str], kind: AcceleratorKind, found: set[str]) -> Iterator[Flaw]:
    """Yield a flaw for the requested architectures that no image in any library can run on."""
    unserved = [arch for arch in archs if not any(kind.runs(image, arch) for image in found)]  # PTX counts too
    if unserved:
        yield Flaw("no library serves an architecture asked for", _all(found), _all(unserved), Level.WARNING)


# ---------------------------------------------------------------- kernels


def kernels(subject: Subject) -> Iterator[Flaw]:
    """Every kernel is there for each architecture that its source file, and its library, are compiled for.

    All are warnings: known projects compile some kernels, or whole source files, only for the architectures that they
    launch them on.
    """
    if subject.is_pure:
        return
    for name, found in read_each(_find_device_members(subject), lambda library: tuple(units(library))):
        for unit in found:
            yield from _missing_in_unit(name, unit)
        yield from _missing_in_library(name, found)


def _missing_in_unit(library: str, unit: CompiledUnit) -> Iterator[Flaw]:
    """Yield the images of a source file that lack one of its kernels: the kernel cannot be launched there."""
    known = {code.image: code.kernels for code in unit.codes if code.kernels is not None}  # None: not readable
    every = frozenset().union(*known.values())
    for image, own in known.items():
        if lacking := every - own:
            message = f"{library} lacks kernels for {image} that it has for others ({unit.where})"
            yield Flaw(message, f"{len(own)} kernels", f"also {abbreviate(lacking)}", Level.WARNING)


def _missing_in_library(library: str, found: Sequence[CompiledUnit]) -> Iterator[Flaw]:
    """Yield the kernels that are compiled for only some architectures, by mistake or on purpose, as for `sm_90a`."""
    compiled: dict[str, set[Image]] = {}
    for unit in found:
        own = {code.image for code in unit.codes}
        for name in frozenset().union(*(code.kernels or () for code in unit.codes)):
            compiled.setdefault(name, set()).update(own)
    every = set().union(*compiled.values())
    by_gap: dict[frozenset[Image], list[str]] = {}
    for name, own in compiled.items():
        by_gap.setdefault(frozenset(every - own), []).append(name)
    for gap, names in by_gap.items():
        if any(image.kind != PTX for image in gap):
            message = f"{library} has kernels for only some of its architectures"
            yield Flaw(message, abbreviate(names), f"also for {_all(map(str, gap))}", Level.WARNING)
