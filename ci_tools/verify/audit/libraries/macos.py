"""A rule about libraries for macOS: the system they are for, and the libraries that they need."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import chain

from ci_tools.errors import Rejected
from ci_tools.formats.binaries.macho import MachO
from ci_tools.model.files import Level
from ci_tools.verify.audit.subject import DATA, Flaw, Subject, abbreviate

TAG = re.compile(r"macosx_(?P<major>\d+)_(?P<minor>\d+)_(?P<machine>\w+)")
MACHINES = {"universal2": {"x86_64", "arm64"}, "intel": {"x86_64", "i386"}}
OF_SYSTEM = ("/usr/lib/", "/System/Library/")
OF_LOADER = re.compile(r"@(?:loader_path|rpath|executable_path)(?:/|$)")
OF_PYTHON = re.compile(r"/Python\.framework/|(?:^|/)libpython3")
OF_TORCH = re.compile(r"lib(?:torch|c10|shm)\w*\.dylib")
SHARED = re.compile(r"^/(?:private/)?(?:tmp|var/tmp)(?:/|$)")  # world-writable
BIG_SUR = 11  # from it on, a tag names only the major version


def macos(subject: Subject) -> Iterator[Flaw]:
    """Libraries for macOS are for the system of the tag, and need what that system, the wheel or torch has.

    A minimum within the tag's major version is a warning: `macosx_11_0` is for every macOS 11. So is a run path of the
    machine it was built on in a wheel of others, as on Linux, and a world-writable one that nothing asks for by @rpath.
    A weak library may be missing.
    """
    bases = {member.base for member in subject.members}
    installed = {DATA.sub("", member.name) for member in subject.members}
    for name, parts in subject.machos.items():
        if isinstance(parts, Rejected):
            yield Flaw(f"{name} cannot be read: {parts.message}", "unreadable", "a whole file")
            continue
        flaws = ((*_minimum(name, part, subject), *_needed(name, part, subject, bases, installed)) for part in parts)
        yield from dict.fromkeys(chain.from_iterable(flaws))  # once if it is that of each part
    yield from _run_paths(subject)


def _run_paths(subject: Subject) -> Iterator[Flaw]:
    read = [(name, part) for name, parts in subject.readable_machos.items() for part in parts]
    is_asked = any(one.name.startswith("@rpath/") for _, part in read for one in part.needed)
    effect = "another library is loaded than the wheel's, perhaps one that anybody may place"
    effect = effect if is_asked else "nothing yet: no library of the wheel asks for one by @rpath"
    for path in sorted({path for _, part in read for path in part.run_paths if not OF_LOADER.match(path)}):
        names = abbreviate(dict.fromkeys(name for name, part in read if path in part.run_paths))
        level = Level.ERROR if subject.job or (is_asked and SHARED.match(path)) else Level.WARNING
        message = f"{names} look for libraries on the machine they were built on"
        yield Flaw(message, path, "a path from @loader_path", level, effect)


def _minimum(name: str, part: MachO, subject: Subject) -> Iterator[Flaw]:
    for match in filter(None, map(TAG.fullmatch, sorted(subject.platforms))):
        promised = int(match["major"]), int(match["minor"])
        of_tag = MACHINES.get(match["machine"], {match["machine"]})
        if part.minimum is None or part.minimum <= promised or part.machine not in of_tag:
            continue
        if part.machine == "arm64" and part.minimum == (BIG_SUR, 0):  # the first for Apple's own CPUs
            continue
        is_near = promised[0] >= BIG_SUR and part.minimum[0] == promised[0]
        found, expected = (f"macOS {major}.{minor}" for major, minor in (part.minimum, promised))
        effect = f"it may not load, or crash, on a macOS older than {part.minimum[0]}.{part.minimum[1]}"
        level = Level.WARNING if is_near else Level.ERROR
        yield Flaw(f"{name} is for a newer macOS than {match[0]}", found, f"{expected} at most", level, effect)


def _needed(name: str, part: MachO, subject: Subject, bases: set[str], installed: set[str]) -> Iterator[Flaw]:
    outside, lost = [], []
    for one in part.needed:
        base = posixpath.basename(one.name)
        if one.name.startswith(OF_SYSTEM) or OF_TORCH.fullmatch(base) or one.is_weak:
            continue
        if not OF_LOADER.match(one.name):
            outside.append(one.name)
        elif not (_is_found(name, one.name, part, installed) or (base in bases and subject.loads_by_path)):
            lost.append(one.name)
    if outside:
        is_python = all(map(OF_PYTHON.search, outside))
        effect = "the import fails wherever that file is not, or loads another Python"
        level = Level.WARNING if is_python and subject.job is None else Level.ERROR
        message = f"{name} needs libraries outside of the wheel"
        yield Flaw(message, abbreviate(outside), "@loader_path/…: delocate-wheel", level, effect)
    if lost:
        is_of_user = not all(map(OF_LOADER.match, part.run_paths))  # as torchcodec takes the FFmpeg of Homebrew
        may_be_there = is_of_user or bool(subject.wheel.metadata.get_all("Requires-Dist", []))
        level = Level.WARNING if may_be_there and subject.job is None else Level.ERROR
        effect = "the import fails: Library not loaded"
        yield Flaw(
            f"{name} does not reach a library that it needs", abbreviate(lost), "a library of the wheel", level, effect
        )


def _is_found(name: str, library: str, part: MachO, installed: set[str]) -> bool:
    """Whether a name with @loader_path or @rpath leads to a file of the wheel."""
    origin = posixpath.dirname(DATA.sub("", name)) or "."
    paths = part.run_paths if library.startswith("@rpath/") else ("",)
    ends = (library.replace("@rpath", path, 1) if path else library for path in paths)
    places = (re.sub(r"^@(?:loader_path|executable_path)", origin, end) for end in ends)
    return any(posixpath.normpath(place) in installed for place in places)
