"""Rules about where a library runs: the machine and system of its tag, and where it looks for other libraries."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ci_tools import catalog
from ci_tools.errors import Rejected
from ci_tools.formats.binaries.elf import Linking
from ci_tools.formats.binaries.magic import machines
from ci_tools.model.files import Level
from ci_tools.verify.audit.subject import Flaw, Member, Subject, abbreviate

if TYPE_CHECKING:
    from auditwheel.policy import Policy  # type: ignore[import-untyped]


MAX_DEBUG_BYTES = 16 << 20  # of a library's .debug_* sections

FORMATS = {"linux": ("ELF",), "win": ("PE",), "macosx": ("Mach-O", "Mach-O universal")}
MACHINES = {  # the machines of a library, by the end of the platform tag
    "universal2": {"x86_64", "arm64"},
    "win32": {"win32"},
    **{name: {name} for name in ("x86_64", "aarch64", "i686", "armv7l", "ppc64le", "s390x", "riscv64", "loongarch64")},
    **{name: {name} for name in ("amd64", "arm64")},
}
LIBRARY = re.compile(r"\.(?:pyd|dll|dylib|so(?:\.\d+)*)$")
POLICY = re.compile(
    r"(?P<libc>many|musl)linux(?:_(?P<major>\d+)_(?P<minor>\d+)|(?P<alias>1|2010|2014))"
    r"_(?P<machine>x86_64|i686|aarch64|armv7l|ppc64le|s390x|riscv64|loongarch64)"
)
ALIASES = {"1": (2, 5), "2010": (2, 12), "2014": (2, 17)}  # PEP 600
LOADER = re.compile(r"ld(?:64)?[-.]")  # ld-linux-x86-64.so.2, ld64.so.2: the dynamic loader
MUSL = {(1, 1): "musllinux_1_1", (1, 2): "musllinux_1_2"}  # auditwheel raises for any other
ORIGIN = re.compile(r"^\$(?:ORIGIN|\{ORIGIN\})(?=/|$)")
SHARED = re.compile(r"^/(?:tmp|var/tmp|dev/shm)(?:/|$)")  # world-writable
DATA = re.compile(r"^[^/]+\.data/(?P<scheme>[^/]+)/")


def platform(subject: Subject) -> Iterator[Flaw]:
    """Libraries are for the system and the machine of the platform tag, and need no library or symbol it lacks."""
    for member in subject.members:
        if member.format and LIBRARY.search(member.base):
            yield from _foreign(member, subject.platforms)
    for name, one in subject.linkings.items():
        if isinstance(one, Rejected):
            yield Flaw(f"{name} cannot be read: {one.message}", "unreadable", "a whole file")
        elif one.refusal and LIBRARY.search(name):
            effect = "the loader refuses it, and the import fails"
            yield Flaw(f"{name} is a file that a loader refuses", one.refusal, "a shared library", effect=effect)
    yield from _find_gaps(subject)


def _find_gaps(subject: Subject) -> Iterator[Flaw]:
    """Yield what the libraries need beyond what the tags promise."""
    levels = [level for tag in sorted(subject.platforms) if (level := _find_level(tag))]
    for level in levels:
        if level.is_unknown:
            nearest = f"as {level.policy.name}, the nearest that is known"
            message = f"no policy is known for {level.tag}, it is judged as if there were one"
            yield Flaw(message, level.tag, nearest, Level.WARNING)
    if levels:
        oldest = min(levels, key=lambda level: level.number)  # the others allow all that it allows
        for name, one in subject.readable_linkings.items():
            yield from _find_policy_gaps(name, one, oldest, subject)
    elif any(tag.startswith("linux") for tag in subject.platforms) and subject.job is None:
        yield from _find_gaps_of_linux(subject)


def _find_gaps_of_linux(subject: Subject) -> Iterator[Flaw]:
    """Yield the libraries that a wheel for `linux` needs, and that no policy knows: the tag promises nothing."""
    # newer than any policy: this takes the newest
    newest = _find_level(f"manylinux_9_9_{next(iter(sorted(subject.platforms))).removeprefix('linux_')}")
    for name, one in subject.readable_linkings.items() if newest else ():
        missing = [each for each in one.needed if each not in subject.own_names and not _is_provided(each, newest)]  # type: ignore[arg-type]
        if missing:
            message = f"{name} needs libraries that neither the wheel nor every Linux has"
            yield Flaw(message, abbreviate(missing), "a manylinux tag: auditwheel repair", Level.WARNING)


def _foreign(member: Member, platforms: frozenset[str]) -> Iterator[Flaw]:
    """Check a library's system and machine against the tags; device files have a machine that is not known here."""
    systems = {system for system in FORMATS for tag in platforms if system in tag}
    wanted = {name for system in systems for name in FORMATS[system]}
    if wanted and member.format not in wanted:
        yield Flaw(f"{member.name} is for another operating system", member.format, abbreviate(wanted))
        return
    with member.open() as file:
        found = machines(file)
    for tag in sorted(platforms):
        # A tag ends in its machine, but for `win32`, which is one: both get the sign before it.
        expected = next((value for end, value in MACHINES.items() if f"_{tag}".endswith(f"_{end}")), set())
        if found and not expected <= found:
            yield Flaw(f"{member.name} is for another machine than {tag}", abbreviate(found), abbreviate(expected))


class PolicyLevel(NamedTuple):
    """A level of glibc or musl that a tag promises to keep to, and the policy that says what systems of it have."""

    tag: str
    number: tuple[int, int]
    policy: Policy
    is_unknown: bool  # whether auditwheel has no policy as new as this


def _find_policy_gaps(name: str, one: Linking, level: PolicyLevel, subject: Subject) -> Iterator[Flaw]:
    """Yield a library's needs that neither the policy, the wheel, torch nor a driver provides."""
    missing = {each for each in one.needed if each not in subject.own_names and not _is_provided(each, level)}
    if missing:
        strictness = Level.WARNING if subject.may_rely_on_others else Level.ERROR
        yield Flaw(
            f"{name} needs a library that {level.tag} lacks", abbreviate(missing), "one of the tag's", strictness
        )
    system = {library for library in one.needed if library in level.policy.whitelist or LOADER.match(library)}
    newer = {version for library, version in one.versions if library in system and not _has(level, version)}
    if newer:
        yield Flaw(f"{name} needs symbols that {level.tag} lacks", abbreviate(newer), _newest(level, newer))


def _is_provided(library: str, level: PolicyLevel) -> bool:
    known = library in level.policy.whitelist or LOADER.match(library) is not None
    return known or any(fnmatchcase(library, pattern) for pattern in catalog.load().brought)


def _has(level: PolicyLevel, version: str) -> bool:
    prefix, _, number = version.partition("_")
    if prefix == "GLIBC" and number[:1].isdigit():  # not GLIBC_PRIVATE, which is of no release
        return _numbers(number)[:2] <= [*level.number]
    versions = level.policy.symbol_versions
    return prefix not in versions or number in versions[prefix]


def _newest(level: PolicyLevel, versions: Iterable[str]) -> str:
    """Return the newest versions that a level has of the requested prefixes, in words."""
    prefixes = sorted({version.partition("_")[0] for version in versions})
    own = {"GLIBC": f"{level.number[0]}.{level.number[1]}"}
    known = level.policy.symbol_versions
    return ", ".join(f"at most {each}_{own.get(each) or max(known[each], key=_numbers)}" for each in prefixes)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)] if version[:1].isdigit() else []


@cache
def _find_level(tag: str) -> PolicyLevel | None:
    """Return what a platform tag promises; None for a tag without promises, such as linux.

    A level between two of auditwheel's policies has the libraries of the newer one, and the glibc of its own number.
    """
    known = POLICY.fullmatch(tag)
    if not known:
        return None
    number = ALIASES[known["alias"]] if known["alias"] else (int(known["major"]), int(known["minor"]))
    policies = {found: policy for policy in _list_policies(known["libc"], known["machine"], number)
                if (found := _read_level(policy.name))}  # fmt: skip
    if not policies:
        return None
    above = min((each for each in policies if each >= number), default=None)
    return PolicyLevel(tag, number, policies[above or max(policies)], above is None)


def _read_level(name: str) -> tuple[int, int] | None:
    match = POLICY.fullmatch(name)
    return (int(match["major"]), int(match["minor"])) if match and match["major"] else None


def _list_policies(libc: str, machine: str, number: tuple[int, int]) -> list[Policy]:
    from auditwheel.architecture import Architecture  # type: ignore[import-untyped] # noqa: PLC0415 - it is slow
    from auditwheel.libc import Libc  # type: ignore[import-untyped] # noqa: PLC0415 - as above
    from auditwheel.policy import WheelPolicies  # noqa: PLC0415 - as above

    if libc == "many":
        return list(WheelPolicies(libc=Libc.GLIBC, arch=Architecture(machine)))
    musl = MUSL[max((each for each in MUSL if each <= number), default=min(MUSL))]
    return list(WheelPolicies(libc=Libc.MUSL, arch=Architecture(machine), musl_policy=musl))


def rpath(subject: Subject) -> Iterator[Flaw]:
    """Libraries look for others beside themselves, by a path that stays within the folder wheels are installed into."""
    for name, one in subject.readable_linkings.items():
        for part in (part for text in one.run_paths for part in text.split(":")):
            yield from _run_path(name, part, in_plan=subject.job is not None)


def _run_path(library: str, part: str, *, in_plan: bool) -> Iterator[Flaw]:
    """Check one folder of a run path.

    A folder of the build machine is a danger if somebody else can create it; otherwise good wheels have such folders
    too.
    """
    relative, count = ORIGIN.subn("", part)
    expected = "a path from $ORIGIN within site-packages"
    if not count and part.startswith("/"):
        level = Level.ERROR if in_plan or SHARED.match(part) else Level.WARNING
        yield Flaw(f"{library} looks for libraries on the machine it was built on", part, expected, level)
    elif not count:
        # ld.so(8): an empty part is the current folder.
        yield Flaw(f"{library} looks for libraries in the current folder", part or "nothing", expected)
    elif _leaves(library, relative):
        yield Flaw(f"{library} looks for libraries outside of site-packages", part, expected)


def _leaves(library: str, relative: str) -> bool:
    """Whether a path from a library's folder leaves site-packages; files installed elsewhere may point anywhere."""
    scheme = DATA.match(library)
    if scheme and scheme["scheme"] not in {"purelib", "platlib"}:
        return False
    folder = posixpath.dirname(DATA.sub("", library))
    return posixpath.normpath(f"{folder or '.'}/{relative}").split("/")[0] == ".."


def text_relocations(subject: Subject) -> Iterator[Flaw]:
    """No library has the loader write into its code.

    An error: musl and SELinux refuse to load such a library, and where it is loaded, processes cannot share its pages.
    The cause is an object compiled without -fPIC; compiling it again with -fPIC solves it. On 32-bit x86 it is a
    warning, since hand-written assembly there often has no other way.
    """
    level = Level.WARNING if all(tag.endswith("i686") for tag in subject.platforms) else Level.ERROR
    for name, one in subject.readable_linkings.items():
        if one.text_relocations:
            yield Flaw(f"{name} has the loader write into its code", "DT_TEXTREL", "-fPIC for every object", level)


def debug(subject: Subject) -> Iterator[Flaw]:
    """No library carries tens of megabytes for a debugger.

    A warning: such a wheel works, but every user downloads data that few of them can use, and some projects include it
    on purpose.
    """
    for name, one in subject.readable_linkings.items():
        if one.debug_bytes > MAX_DEBUG_BYTES:
            found = f"{one.debug_bytes:,} bytes of .debug_*"
            yield Flaw(f"{name} carries debug information", found, "-g0, or strip --strip-debug", Level.WARNING)


def stack(subject: Subject) -> Iterator[Flaw]:
    """No library asks for an executable stack, which glibc 2.41 and later refuse to load."""
    for name, one in subject.readable_linkings.items():
        if one.executable_stack:
            yield Flaw(f"{name} asks for an executable stack", "PT_GNU_STACK with X", "-z noexecstack")
