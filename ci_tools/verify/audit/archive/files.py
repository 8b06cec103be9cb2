"""Rules about the archive itself: its paths, its RECORD, its modes, its size."""

from __future__ import annotations

import re
import stat
import sys
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ci_tools.formats.wheel import CONTROL, Hashing, is_folder
from ci_tools.model.files import Level
from ci_tools.verify.audit.libraries.device import describe_sizes
from ci_tools.verify.audit.subject import DATA, Flaw, Member, Subject, abbreviate

RECORD_HASHES = ("sha256", "sha384", "sha512")  # PEP 427: sha256 or better
COLUMNS = 3  # of RECORD: a path, a hash and a size (PEP 376)
OTHERS_MAY_WRITE = 0o002
FILE_KINDS = (0, stat.S_IFREG)  # 0 if the archive was not made on Unix
# Windows reserves device names, with any extension, and forbids these characters (Win32, "Naming Files").
RESERVED = re.compile(r"^(?:con|prn|aux|nul|com[1-9]|lpt[1-9])(?:\.|$)", re.IGNORECASE)
NOT_ON_WINDOWS = re.compile(r'[<>:"|?*]|[. ]$')
LEFT_OVER = re.compile(
    r"(?:^|/)(?:__pycache__|\.(?:git(?:ignore|attributes|modules|hub)?|hg|svn|idea|vscode|DS_Store|env|venv|tox|nox|eggs)"
    r"|__MACOSX|Thumbs\.db|\.(?:pytest|mypy|ruff)_cache|\.ipynb_checkpoints|\.travis\.yml|\.pre-commit-config\.yaml"
    r"|\.coverage|pyvenv\.cfg)(?:/|$)|\.(?:orig|rej|swp|o|obj|py[co]|whl|bak|egg-info|egg-link)$|~$|/core\.\d+$"
    r"|(?:^|/)core$|^[^/]+\.egg-info/|\.dist-info/(?:INSTALLER|REQUESTED|direct_url\.json)$"
)
# Names that many projects use, so that one project would overwrite another's files.
# ruff: noqa: SIM905 - as words they fit on a page
COMMON = frozenset(
    "test tests testing doc docs example examples benchmark benchmarks build dist src lib scripts script tools bin "
    "data app cli venv setup.py conftest.py __init__.py __main__.py LICENSE LICENSE.txt LICENSE.md COPYING NOTICE "
    "README README.md README.rst README.txt CHANGELOG.md pyproject.toml setup.cfg requirements.txt Makefile".split()
)
DEEPEST = 200  # folders within folders
NEAR = 0.7  # of the most that a place takes: an architecture more may be too much
MAX_PART, MAX_PATH = 255, 3800  # bytes: NAME_MAX, and PATH_MAX less a folder to install into (limits.h)
MAX_WINDOWS_PATH = 200  # characters, of the 260 that Windows allows (Win32, "Maximum Path Length Limitation")
SCHEMES = ("purelib", "platlib", "headers", "scripts", "data")
DRIVE = re.compile(r"^[A-Za-z]:")


def paths(subject: Subject) -> Iterator[Flaw]:
    """No member leaves the folder a wheel is unpacked into, is a link, or takes another's place."""
    for info in subject.wheel.archive.infolist():
        name = info.filename
        if name.startswith("/") or "\\" in name or DRIVE.match(name) or ".." in name.split("/"):
            yield Flaw(f"{name} leaves the folder it is unpacked into", name, "a relative path with forward slashes")
        if stat.S_ISLNK(info.external_attr >> 16):  # Unix has the mode in the upper half
            yield Flaw(f"{name} is a symbolic link", "a link", "a file")
        if CONTROL.search(info.orig_filename):  # zipfile cuts a name at a null byte
            yield Flaw(f"{name!a} holds a control character", ascii(info.orig_filename), "a name that can be shown")
        yield from _odd_parts(name)
    names = Counter(info.filename for info in subject.wheel.infos)
    for name, count in names.items():
        if count > 1:
            yield Flaw(f"{name} is in the archive {count} times", str(count), "1")
    yield from _unknown_schemes(subject)
    yield from _clashes(names, is_for_linux=bool(subject.tags) and all("linux" in tag for tag in subject.tags))


def _odd_parts(name: str) -> Iterator[Flaw]:
    """Check a path's parts: installers write each as a folder or a file."""
    *folders, _ = parts = name.split("/")
    if not name:
        yield Flaw("a member has no name", "''", "a name")
    elif "." in parts or "" in folders[1:]:  # `paths` reports a leading slash
        yield Flaw(f"{name} has an empty part or a dot, and is one place by two names", name, "a plain path")
    longest = max(len(part.encode("utf-8", "surrogateescape")) for part in parts)
    if longest > MAX_PART or len(name.encode("utf-8", "surrogateescape")) > MAX_PATH:
        found = f"{len(name):,} characters, {longest:,} bytes in one part"
        yield Flaw(f"{abbreviate([name[:80]])}… is too long a path", found, f"{MAX_PART} bytes in a part")
    elif len(name) > MAX_WINDOWS_PATH:
        expected = f"at most {MAX_WINDOWS_PATH}, which Windows has room for below a user's folder"
        yield Flaw(f"{abbreviate([name[:80]])}… is a long path", f"{len(name):,} characters", expected, Level.WARNING)


def _unknown_schemes(subject: Subject) -> Iterator[Flaw]:
    """Yield members of a `.data` folder that no installer knows a place for (PEP 427)."""
    own = f"{subject.wheel.dist_info.removesuffix('.dist-info')}.data"
    for name in (info.filename for info in subject.wheel.infos if ".data/" in info.filename):
        top, _, rest = name.partition("/")
        scheme, is_within, _ = rest.partition("/")
        if top.endswith(".data") and (scheme not in SCHEMES or not is_within):
            yield Flaw(f"{name} is for no place that installers know", scheme, f"one of {', '.join(SCHEMES)}")
        elif scheme == "scripts" and "/" in rest.removeprefix("scripts/"):
            yield Flaw(f"{name} is in a folder of scripts", name, "a file in the folder `scripts` itself")
        elif top.endswith(".data") and top != own:
            yield Flaw(f"{top} is the data of another wheel", top, own)


def _clashes(names: Iterable[str], *, is_for_linux: bool) -> Iterator[Flaw]:
    """Yield files that are installed to one place, and names that some system takes for one."""
    places: dict[str, set[str]] = {}
    spellings: dict[str, set[str]] = {}
    folders: dict[str, str] = {}
    for name in names:
        place = DATA.sub("", name)  # a file of .data/purelib is installed beside the others
        places.setdefault(place, set()).add(name)
        # macOS takes composed and decomposed letters for one, and any case, as Windows does
        spellings.setdefault(unicodedata.normalize("NFC", place).casefold(), set()).add(place)
        folders.update(dict.fromkeys((folder.rstrip("/") for folder in _folders(place)), name))
    for place, same in places.items():
        if len(same) > 1:
            yield Flaw(f"{abbreviate(same)} are installed as one file", place, "one of them")
        if place in folders:
            yield Flaw(f"{place} is a file, and a folder of {folders[place]}", "both", "one of them")
    for same in () if is_for_linux else spellings.values():
        if len(same) > 1:
            one, other, *_ = sorted(same)
            yield Flaw(f"{one} and {other} are one file on Windows and macOS", abbreviate(same), "one of them")


def record(subject: Subject) -> Iterator[Flaw]:
    """RECORD lists every member once, with the hash and size of its content."""
    wheel = subject.wheel
    own = f"{wheel.dist_info}/RECORD"
    listed = [row or [""] for row in wheel.record()]  # an empty row has no name
    rows = {row[0]: row[1:] for row in listed if row[0]}
    if not rows:
        yield Flaw("the wheel has no RECORD", "nothing", own)
        return
    yield from _odd_rows(listed)
    for member in subject.members:
        said = rows.pop(member.name, None)
        if said is None:
            yield Flaw(f"{member.name} is not in RECORD", "no row", "its hash and size")
        elif member.damage:
            yield Flaw(member.damage, "unreadable", "a whole file")
        # signatures of RECORD, whose hashes it cannot have (PEP 427)
        elif member.name not in {own, f"{own}.jws", f"{own}.p7s"}:
            yield from _record_row(member, said)
        elif member.name == own and any(said):
            yield Flaw("RECORD has a hash or a size of itself", ",".join(said), "neither", Level.WARNING)
    for name in rows:
        yield Flaw(f"RECORD lists {name}, which is not in the wheel", "no such member", name)


def _odd_rows(listed: Sequence[Sequence[str]]) -> Iterator[Flaw]:
    for name, count in Counter(row[0] for row in listed).items():
        if count > 1 and name:
            yield Flaw(f"RECORD lists {name} {count} times", str(count), "1")
    for row in listed:
        if len(row) != COLUMNS:
            yield Flaw(f"a row of RECORD has {len(row)} columns", ",".join(row)[:80], "a path, a hash and a size")


def _record_row(member: Member, row: Sequence[str]) -> Iterator[Flaw]:
    said = [*row, "", ""][:2]  # a row may be cut
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
    yield from _odd_tops(subject)
    yield from _odd_folders(subject, names)


def _odd_tops(subject: Subject) -> Iterator[Flaw]:
    """Check the names that get into site-packages itself."""
    names = [info.filename for info in subject.wheel.infos]
    tops = {DATA.sub("", name).split("/")[0] for name in names}
    for top in sorted(tops & COMMON - ({subject.wheel.named[0].replace("-", "_")} if subject.wheel.named else set())):
        yield Flaw(f"{top} is installed beside the projects of others", top, "in a folder of its own", Level.WARNING)
    for top in sorted({top for top in tops if top.removesuffix(".py") in sys.stdlib_module_names}):
        effect = "`import` takes the standard library's"
        yield Flaw(f"{top} has the name of a module of Python", top, "another name", Level.WARNING, effect)
    is_empty = all(name.startswith(f"{subject.wheel.dist_info}/") for name in names)
    if is_empty and not subject.wheel.metadata.get("Requires-Dist"):  # such a wheel only brings others
        yield Flaw("the wheel installs nothing", "only dist-info", "a package", Level.WARNING)


def _odd_folders(subject: Subject, names: Sequence[str]) -> Iterator[Flaw]:
    """Check the entries for folders, which wheels need not have."""
    folders = [info for info in subject.wheel.archive.infolist() if is_folder(info)]
    filled = {f"{folder}/" for name in names for folder in _folders(name)}
    for info in folders:
        if info.file_size or info.filename.rstrip("/") in names:
            message = f"{info.filename} is a folder with content, or a file as well"
            yield Flaw(message, f"{info.file_size} bytes", "one of them")
    for folder in sorted({info.filename for info in folders} - filled):
        yield Flaw(f"{folder} is empty, and no installer makes it", "an empty folder", "a file in it", Level.WARNING)


def _folders(name: str) -> Iterator[str]:
    """Yield the folders that a member is in, at most the first `DEEPEST`: file systems hold no deeper ones."""
    parts = name.split("/")[:DEEPEST]
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


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
    if found > most * NEAR:
        what, level = ("is too large", Level.ERROR) if found > most else ("is nearly too large", Level.WARNING)
        costs = describe_sizes(subject)
        says = f"the wheel {what} for {place}{f': {costs}' if costs else ''}"
        yield Flaw(says, f"{found:,} bytes", f"at most {most:,} bytes", level)
