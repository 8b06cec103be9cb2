"""Rules about the content of the members."""

from __future__ import annotations

import ast
import platform
import re
import warnings
from collections.abc import Iterator
from contextlib import suppress
from itertools import repeat
from typing import BinaryIO

from ci_tools.formats.binaries.magic import MAX_POINTER, is_lfs_pointer
from ci_tools.machine.storage import CHUNK
from ci_tools.model.files import Level
from ci_tools.model.versions import Minor, admits, parse_specifiers
from ci_tools.verify.audit.archive.hidden import SAMPLE
from ci_tools.verify.audit.subject import MAX_TEXT, Flaw, Member, Subject, abbreviate

# Home folders and build folders. /project, /__w and runner's are those of cibuildwheel and GitHub, and /usr, /opt,
# /dev and the like are the same on many machines. /root/.cargo holds the packages in the images that Rust is built in,
# and identifies nobody.
# Each pattern starts with a literal character, which a search finds much faster than a character class.
BUILD_PATH = re.compile(
    rb"/(?:(?:home|Users)/(?!runner/)[\w.-]{1,64}/|(?:root(?!/\.cargo/)|builds)/|tmp/(?:pip-|build-|tmp))[\x21-\x7e]{1,200}"
)
WINDOWS_PATH = re.compile(rb":\\(?:[Uu]sers\\(?!runneradmin\\)|actions\\)[\x20-\x7e]{1,200}")
WITHIN_PATH = re.compile(rb"[\w.+-]")  # before a match: part of a longer path, such as a toolset's own /root
LONGEST_PATH = 300
# Files that point to other files: a path of the build machine in them does not exist on the user's machine.
POINTERS = re.compile(r"\.(?:pth|egg-link|pc|la|cmake)$|\.dist-info/direct_url\.json$")
POINTED = re.compile(
    rb"(?m)(?:file://|^|[\s\"'=:;])((?:/(?!/|usr/|dev/|proc/|etc/)|[A-Za-z]:[\\/])[\w.+-]+/[^\s\"';]*)"
)
WORKS_BY_PATH = re.compile(r"\.(?:pth|egg-link)$|/direct_url\.json$")
SHEBANG = re.compile(rb"#![ \t]*(?P<program>[^\s]*)[^\n]*\n?")
OF_EVERY_SYSTEM = re.compile(rb"/(?:usr/(?:local/)?)?s?bin/[^/]+|python\w*")
LIBRARY = re.compile(r"\.(?:pyd|dll|dylib|so(?:\.\d+)*)$")


def pure(subject: Subject) -> Iterator[Flaw]:
    """Any-platform wheels hold no compiled file, by magic number; one for a platform holds some.

    A wheel of others for one platform with nothing compiled is a warning: watchdog has such wheels, and they work.
    """
    found = {member.name: member.format for member in subject.members if member.format}
    if subject.is_pure:
        for name, kind in found.items():
            level = Level.WARNING if name.endswith(".exe") else Level.ERROR  # a launcher is data on other systems
            yield Flaw(f"{name} is compiled, in a wheel for any platform", kind, "no compiled file", level)
    elif subject.tags and not found:
        level = Level.ERROR if subject.job else Level.WARNING
        yield Flaw("nothing is compiled, in a wheel for one platform", "no compiled file", "a library", level)


def prediction(subject: Subject) -> Iterator[Flaw]:
    """Members are the planned ones, where the plan knows them: none is missing and none was added."""
    job = subject.job
    if job is None or not (job.members or job.libraries):
        return
    planned = {*(job.members or ()), *(library.member for library in job.libraries or ())}
    found = {member.name: member for member in subject.members if not _is_the_tools_own(member.name, subject)}
    for name in sorted(planned - found.keys()):
        yield Flaw(f"{name} is planned, and not in the wheel", "no such member", name)
    added = sorted(found.keys() - planned)
    # Of some builds a plan knows only what is compiled.
    for name in added if job.members else (name for name in added if found[name].format):
        yield Flaw(f"{name} is in the wheel, and not planned", name, "no such member")


def _is_the_tools_own(name: str, subject: Subject) -> bool:
    """Whether a member is metadata, or a library that a repair tool such as auditwheel added."""
    top = name.split("/", maxsplit=1)[0]
    return top == subject.wheel.dist_info or top.endswith(".libs")


# ---------------------------------------------------------------- paths of the builder


def build_paths(subject: Subject) -> Iterator[Flaw]:
    """No compiled file holds a path of the person or the folder it was built in, and no file leads to one.

    Other text is not checked: documentation may name such folders. A path below a build's own fixed folder,
    /tmp/fatwheel-build-NAME, does not identify the builder, and is the same in every build.
    """
    holding: dict[str, set[str]] = {}
    for member in subject.members:
        if member.format:
            with member.open() as file:
                found = {_folder(path) for path in _paths(file)}
            holding.update({member.name: found} if found else {})
        elif POINTERS.search(member.name) and member.info.file_size <= MAX_TEXT:
            yield from _check_pointers(member)
    if holding:
        message = f"paths of the machine that built it are in {abbreviate(holding)}"
        folders = abbreviate({folder for found in holding.values() for folder in found})
        yield Flaw(message, folders, "a neutral prefix (-ffile-prefix-map)", Level.WARNING)


def _paths(file: BinaryIO) -> Iterator[str]:
    """Yield the builders' paths in a file, read in pieces that overlap, so that no path is cut."""
    rest = b""
    while chunk := file.read(CHUNK):
        content = rest + chunk
        for match in BUILD_PATH.finditer(content):
            # The start of a file has nothing before it: the slice is empty.
            if not WITHIN_PATH.match(content[match.start() - 1 : match.start()]):
                yield match[0].decode("ascii", "replace")
        for match in WINDOWS_PATH.finditer(content):
            yield content[match.start() - 1 : match.end()].decode("ascii", "replace")  # with the drive's letter
        rest = content[-LONGEST_PATH:]


def _folder(path: str) -> str:
    """Return the first parts of a path, which identify its owner."""
    parts = re.split(r"([/\\])", path)
    return "".join(parts[:6])


def _check_pointers(member: Member) -> Iterator[Flaw]:
    found = {match[1].decode("utf-8", "replace") for match in POINTED.finditer(member.read())}
    if found:
        level = Level.ERROR if WORKS_BY_PATH.search(member.name) else Level.WARNING
        yield Flaw(f"{member.name} leads to the machine it was built on", abbreviate(found), "a relative path", level)


# ---------------------------------------------------------------- text


def pointers(subject: Subject) -> Iterator[Flaw]:
    """No member is a pointer of Git LFS, which a checkout has in place of a file that was not fetched."""
    for member in subject.members:
        if member.info.file_size < MAX_POINTER and not member.damage and is_lfs_pointer(member.read()):
            yield Flaw(f"{member.name} is a pointer of Git LFS", "a pointer", "the file: `git lfs pull`")


def text(subject: Subject) -> Iterator[Flaw]:
    """Python files compile in the encoding they declare, and scripts begin with a line that every system can run."""
    requires = subject.wheel.metadata.get("Requires-Python", "")
    is_for_us, oldest = _admits_this_python(requires), _find_oldest(requires)
    for member in subject.members:
        if member.damage or member.format or member.info.file_size > MAX_TEXT:
            continue
        if member.base.endswith(".py"):
            yield from _python(member, oldest) if is_for_us else ()
        elif member.base.endswith(".sh") or "/scripts/" in member.name:
            yield from _script(member)


def _admits_this_python(specifier: str) -> bool:
    """Whether a wheel is for the Python that audits it: newer code may use syntax that this one lacks."""
    try:
        return parse_specifiers(specifier).contains(platform.python_version(), prereleases=True)
    except ValueError:  # also for more digits than Python converts
        return True


def _find_oldest(specifier: str) -> Minor | None:
    """Return the oldest Python that Requires-Python admits; None if it does not say one."""
    with suppress(ValueError):
        found = parse_specifiers(specifier)
        return next((each for each in map(Minor, repeat(3), range(7, 20)) if specifier and admits(found, each)), None)
    return None


def _python(member: Member, oldest: Minor | None) -> Iterator[Flaw]:
    """Compile a file: a top-level module or package that fails is an error; other files may be templates or test data.

    A needed file is parsed by the grammar of the oldest Python as well, as far as this Python knows it.
    """
    parts = member.name.split("/")
    is_needed = parts[1:] == ["__init__.py"] or len(parts) == 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # `ast.parse` accepts a `return` outside of a function.
            compile(member.read(), member.name, "exec", dont_inherit=True)
            if is_needed and oldest:
                ast.parse(member.read(), feature_version=(oldest.major, oldest.minor))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or str(error)  # a null byte is a ValueError
        level = Level.ERROR if is_needed else Level.WARNING
        yield Flaw(
            f"{member.name} is not Python: {reason}", f"line {getattr(error, 'lineno', None) or 1}", "Python", level
        )


def _script(member: Member) -> Iterator[Flaw]:
    """Check the first line, which names the program that runs a script; installers rewrite `#!python`."""
    with member.open() as file:
        line = file.readline(LONGEST_PATH)
    match = SHEBANG.fullmatch(line)
    shown = repr(line.decode("utf-8", "replace").rstrip("\n"))
    is_command = ".data/scripts/" in member.name
    if match is None:
        if is_command and not member.name.lower().endswith((".bat", ".cmd", ".ps1", ".exe", ".py")):
            yield Flaw(f"{member.name} does not say what runs it", shown, "#!python", Level.WARNING)
    elif line.endswith(b"\r\n") and not line.startswith(b"#!python"):
        yield Flaw(f"{member.name} begins with a line that ends in CR LF", shown, "LF alone")
    elif is_command and not OF_EVERY_SYSTEM.fullmatch(match["program"]):
        yield Flaw(f"{member.name} is run by a program of the machine it was built on", shown, "#!python")


def libraries(subject: Subject) -> Iterator[Flaw]:
    """Files with the name of a library are libraries, and none is there under several names.

    A text in its place is what a checkout makes of a symbolic link. Of copies, each is loaded for itself, with data of
    its own: a warning, as is a file in a folder of tests.
    """
    copies: dict[tuple[str, int], list[str]] = {}
    for member in subject.members:
        if not LIBRARY.search(member.base) or member.damage:
            continue
        if not member.format:
            level = Level.WARNING if SAMPLE.search(member.name) else Level.ERROR
            found = "an empty file" if not member.info.file_size else "text or data"
            yield Flaw(f"{member.name} has the name of a library, and is another file", found, "a library", level)
        else:
            copies.setdefault((member.sha256, member.info.file_size), []).append(member.name)
    for (_, size), same in copies.items():
        if len(same) > 1:
            message = f"{abbreviate(same)} are one library under several names"
            yield Flaw(message, f"{len(same)} copies of {size:,} bytes", "one: a wheel has no links", Level.WARNING)
