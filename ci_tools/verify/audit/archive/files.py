"""Rules about the archive itself: its paths, its RECORD, its modes, its size."""

from __future__ import annotations

import re
import stat
from collections import Counter
from typing import TYPE_CHECKING

from ci_tools.formats.wheel import CONTROL, Hashing, is_folder
from ci_tools.model.files import Level
from ci_tools.verify.audit.subject import Flaw, abbreviate

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterable, Iterator, Sequence

    from ci_tools.verify.audit.subject import Member, Subject

__all__ = ["members", "paths", "record", "size"]

RECORD_HASHES = ("sha256", "sha384", "sha512")  # PEP 427: sha256 or better
OTHERS_MAY_WRITE = 0o002
FILE_KINDS = (0, stat.S_IFREG)  # 0 if the archive was not made on Unix
# Windows reserves device names, with any extension, and forbids these characters (Win32, "Naming Files").
RESERVED = re.compile(r"^(?:con|prn|aux|nul|com[1-9]|lpt[1-9])(?:\.|$)", re.IGNORECASE)
NOT_ON_WINDOWS = re.compile(r'[<>:"|?*]|[. ]$')
LEFT_OVER = re.compile(
    r"(?:^|/)(?:__pycache__|\.git|\.hg|\.svn|\.DS_Store|__MACOSX|Thumbs\.db|\.pytest_cache|\.mypy_cache)(?:/|$)"
    r"|\.(?:orig|rej|swp|o|obj|py[co])$|/core\.\d+$|(?:^|/)core$"
)
# Names that many projects use, so that one project would overwrite another's files.
COMMON = frozenset(
    {"test", "tests", "testing", "doc", "docs", "example", "examples", "build", "setup.py", "conftest.py"}
)
DEEPEST = 200  # folders within folders
DRIVE = re.compile(r"^[A-Za-z]:")


def paths(subject: Subject) -> Iterator[Flaw]:
    """No member leaves the folder a wheel is unpacked into, is a link, or takes another's place."""
    for info in subject.wheel.archive.infolist():
        name = info.filename
        if name.startswith("/") or "\\" in name or DRIVE.match(name) or ".." in name.split("/"):
            yield Flaw(f"{name} leaves the folder it is unpacked into", name, "a relative path with forward slashes")
        if stat.S_ISLNK(info.external_attr >> 16):
            yield Flaw(f"{name} is a symbolic link", "a link", "a file")
        if not name:
            yield Flaw("a member has no name", "''", "a name")
        if CONTROL.search(name):
            yield Flaw(f"{name!a} holds a control character", ascii(name), "a name that can be shown")
    names = Counter(info.filename for info in subject.wheel.infos)
    for name, count in names.items():
        if count > 1:
            yield Flaw(f"{name} is in the archive {count} times", str(count), "1")
    if not all("linux" in tag for tag in subject.tags):
        yield from _clashes(names)


def _clashes(names: Iterable[str]) -> Iterator[Flaw]:
    """Yield names that differ only in case: Windows and macOS treat them as one file."""
    spellings: dict[str, list[str]] = {}
    for name in sorted(names):
        spellings.setdefault(name.casefold(), []).append(name)
    for same in spellings.values():
        if len(same) > 1:
            yield Flaw(f"{same[0]} and {same[1]} are one file on Windows and macOS", abbreviate(same), "one of them")


def record(subject: Subject) -> Iterator[Flaw]:
    """RECORD lists every member once, with the hash and size of its content."""
    wheel = subject.wheel
    own = f"{wheel.dist_info}/RECORD"
    abbreviate = [row for row in wheel.record() if row]
    rows = {row[0]: row[1:] for row in abbreviate}
    if not rows:
        yield Flaw("the wheel has no RECORD", "nothing", own)
        return
    for name, count in Counter(row[0] for row in abbreviate).items():
        if count > 1:
            yield Flaw(f"RECORD lists {name} {count} times", str(count), "1")
    for member in subject.members:
        row = rows.pop(member.name, None)
        if row is None:
            yield Flaw(f"{member.name} is not in RECORD", "no row", "its hash and size")
        elif member.damage:
            yield Flaw(member.damage, "unreadable", "a whole file")
        elif member.name not in {own, f"{own}.jws", f"{own}.p7s"}:
            yield from _record_row(member, row)
    for name in rows:
        yield Flaw(f"RECORD lists {name}, which is not in the wheel", "no such member", name)


def _record_row(member: Member, row: Sequence[str]) -> Iterator[Flaw]:
    said = [*row, "", ""][:2]
    algorithm = said[0].partition("=")[0]
    actual = [_hash(member, algorithm), str(member.info.file_size)]
    if said != actual:
        yield Flaw(f"{member.name} is not what RECORD says", ",".join(actual), ",".join(said))


def _hash(member: Member, algorithm: str) -> str:
    """Return the member's hash by the algorithm in RECORD, or by SHA-256 if that algorithm is too weak."""
    if algorithm not in RECORD_HASHES[1:]:
        return member.sha256
    with member.open() as content:
        return Hashing(algorithm).of(content)


def members(subject: Subject) -> Iterator[Flaw]:
    """Members are plain files of plain modes, no leftovers, and have names that every system of the tags takes."""
    names = [info.filename for info in subject.wheel.infos]
    for info in subject.wheel.archive.infolist():
        yield from _odd_mode(info)
    open_to_all = [info.filename for info in subject.wheel.archive.infolist() if _may_be_written(info)]
    is_for_windows = bool(subject.platforms) and all(tag.startswith("win") for tag in subject.platforms)
    if open_to_all and not is_for_windows:  # os.stat says -rw-rw-rw- of every file there
        yield Flaw(f"{abbreviate(open_to_all)} may be written by everybody", "-rw-rw-rw-", "-rw-r--r--", Level.WARNING)
    for name in dict.fromkeys(names):
        yield from _odd_name(name, subject)
        if LEFT_OVER.search(name):
            yield Flaw(f"{name} is a leftover", name, "no such file", Level.WARNING)
    for top in sorted({name.split("/")[0] for name in names} & COMMON - _own_names(subject)):
        yield Flaw(f"{top} is installed beside the projects of others", top, "in a folder of its own", Level.WARNING)
    folders = {info.filename for info in subject.wheel.archive.infolist() if is_folder(info)}
    filled = {f"{folder}/" for name in names for folder in _folders(name)}
    for folder in sorted(folders - filled):
        yield Flaw(f"{folder} is empty, and no installer makes it", "an empty folder", "a file in it", Level.WARNING)


def _folders(name: str) -> Iterator[str]:
    """Yield the folders that a member is in, at most the first `DEEPEST`: file systems hold no deeper ones."""
    parts = name.split("/")[:DEEPEST]
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


def _own_names(subject: Subject) -> set[str]:
    return {subject.wheel.named[0].replace("-", "_")} if subject.wheel.named else set()


def _odd_mode(info: zipfile.ZipInfo) -> Iterator[Flaw]:
    """Check the mode of a member; an archive made on another system than Unix has none."""
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) not in {*FILE_KINDS, stat.S_IFLNK, stat.S_IFDIR}:  # `paths` reports links
        yield Flaw(f"{info.filename} is not a regular file", stat.filemode(mode), "a file")
    elif mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX) and not is_folder(info):
        yield Flaw(f"{info.filename} would run as another user", stat.filemode(mode), "-rw-r--r-- or -rwxr-xr-x")
    elif mode and not mode & stat.S_IRUSR and not is_folder(info):
        yield Flaw(f"{info.filename} may not be read", stat.filemode(mode), "-rw-r--r--", Level.WARNING)


def _may_be_written(info: zipfile.ZipInfo) -> bool:
    mode = info.external_attr >> 16
    return bool(mode & OTHERS_MAY_WRITE) and not stat.S_ISLNK(mode)


def _odd_name(name: str, subject: Subject) -> Iterator[Flaw]:
    """Check a name against the rules of Windows if the wheel may be installed there."""
    if not (subject.is_pure or any(tag.startswith("win") for tag in subject.platforms)) or DRIVE.match(name):
        return  # `paths` reports drives
    parts = [part for part in name.split("/") if part not in {"", ".", ".."}]
    if any(RESERVED.match(part) or NOT_ON_WINDOWS.search(part) for part in parts):
        level = Level.WARNING if subject.is_pure else Level.ERROR
        yield Flaw(f"{name} is not a valid file name on Windows", name, "another name", level)


def size(subject: Subject) -> Iterator[Flaw]:
    """Files are at most as large as PyPI or GitHub accepts."""
    place = "pypi" if subject.to_pypi else "github"
    found, most = subject.wheel.path.stat().st_size, subject.limits[place]
    if found > most:
        yield Flaw(f"the wheel is too large for {place}", f"{found:,} bytes", f"at most {most:,} bytes")
