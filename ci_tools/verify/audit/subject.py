"""The input of a rule: the wheel, its members unpacked once, and the job that should have made it."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from ci_tools.errors import MachineError, Rejected
from ci_tools.formats.binaries.elf import Bindings, Extent, Linking, linking, symbols
from ci_tools.formats.binaries.macho import MachO, read_macho
from ci_tools.formats.binaries.magic import binary_format
from ci_tools.formats.binaries.pe import Import, read_pe
from ci_tools.formats.wheel import GRAFTED, Hashing, Wheel, record_hash
from ci_tools.machine.storage import naming
from ci_tools.model.files import Level
from ci_tools.model.plan import Job

SMALL = 1 << 16  # bytes; a member up to this size is kept in memory, since writing a file would cost more
MAX_MEMORY = 64 << 20  # bytes of all members in memory
MAX_TEXT = 4 << 20  # bytes; a longer file is data
# Members that are installed into site-packages, whatever folder of the wheel they are in.
DATA = re.compile(r"^[^/]+\.data/(?:purelib|platlib)/")
# Words by which a package loads libraries itself, wherever they are and whatever their names.
BY_PATH = re.compile(
    rb"load_library|\bCDLL\b|cdll|dlopen|ExtensionFileLoader|spec_from_file_location|load_dynamic|add_dll_directory"
)
SHOWN = 5  # a message names at most so many items
Read = TypeVar("Read")


class Flaw(NamedTuple):
    """A problem that a rule found."""

    message: str
    found: str
    expected: str
    level: Level = Level.ERROR
    effect: str = ""  # what happens to a user, where the rule's own words for it are not enough


class Member(NamedTuple):
    """A file of the wheel: its entry, its content or unpacked file, and what unpacking found."""

    info: zipfile.ZipInfo
    content: bytes | Path
    sha256: str  # in RECORD's form
    format: str  # of a compiled file, by its first bytes; empty for other files
    damage: str = ""  # why it cannot be read completely; empty: it can

    @property
    def name(self) -> str:
        """The path in the wheel."""
        return self.info.filename

    def open(self) -> BinaryIO:
        """Return the content as a seekable stream."""
        return io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content.open("rb")

    def read(self) -> bytes:
        """Return the whole content."""
        return self.content if isinstance(self.content, bytes) else self.content.read_bytes()

    @property
    def base(self) -> str:
        """The last part of the path."""
        return self.name.rpartition("/")[2]

    @property
    def is_grafted(self) -> bool:
        """Whether a repair tool copied it into the wheel, as a library of another project."""
        return GRAFTED.search(self.name) is not None


@dataclass(frozen=True)
class Subject:
    """A wheel under audit, the job that should have made it if known, and the size limits of its targets."""

    wheel: Wheel
    job: Job | None
    limits: Mapping[str, int]
    to_pypi: bool
    work: Path  # a folder for the files of a rule's tool

    @cached_property
    def tags(self) -> frozenset[str]:
        """The tags of the file name, as text."""
        return frozenset(map(str, self.wheel.named[2])) if self.wheel.named else frozenset()

    @cached_property
    def is_pure(self) -> bool:
        """Whether every tag says `any`."""
        return bool(self.tags) and all(tag.endswith("-none-any") for tag in self.tags)

    @cached_property
    def platforms(self) -> frozenset[str]:
        """The platform tags of the file name."""
        return frozenset(tag.platform for tag in self.wheel.named[2]) if self.wheel.named else frozenset()

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """Every file of the wheel, each decompressed once."""
        room = MAX_MEMORY
        found = []
        try:
            for number, info in enumerate(self.wheel.infos):
                is_small = info.file_size <= min(SMALL, room)  # many small ones are large together
                room -= info.file_size if is_small else 0
                found.append(self._read_into_memory(info) if is_small else self._unpack_to_disk(number, info))
        except OSError as error:
            msg = f"{self.wheel.path.name} cannot be unpacked: {error}"
            raise MachineError(msg, hint="free some disk space and run the same command again") from error
        return tuple(found)

    @property
    def libraries(self) -> tuple[Member, ...]:
        """The members that are ELF files, by their first bytes."""
        return tuple(member for member in self.members if member.format == "ELF" and not member.damage)

    @cached_property
    def linkings(self) -> Mapping[str, Linking | Rejected]:
        """The run-time needs of each library, or why it cannot be read; empty for an any-platform wheel."""
        return self._read_compiled("ELF", linking)

    @property
    def readable_linkings(self) -> Mapping[str, Linking]:
        """The run-time needs of each library that can be read."""
        return {name: found for name, found in self.linkings.items() if isinstance(found, Linking)}

    @property
    def own_names(self) -> frozenset[str]:
        """The names by which others need the libraries of the wheel: those of their files, and their sonames."""
        linkings = self.readable_linkings
        return frozenset({name.rpartition("/")[2] for name in linkings} | {one.name or "" for one in linkings.values()})

    @property
    def may_rely_on_others(self) -> bool:
        """Whether a package that the wheel requires may bring what it lacks: only wheels of others may rely on that."""
        return self.job is None and bool(self.wheel.metadata.get_all("Requires-Dist", []))

    @cached_property
    def symbols(self) -> Mapping[str, Bindings]:
        """The dynamic symbols of each library that can be read; empty for an any-platform wheel."""
        readable = self.readable_linkings
        return dict(read_each((member for member in self.libraries if member.name in readable), symbols))

    @cached_property
    def defined(self) -> frozenset[str]:
        """The symbols that the wheel's own libraries define."""
        return frozenset().union(*(found.defined for found in self.symbols.values()))

    @cached_property
    def imports(self) -> Mapping[str, tuple[Import, ...] | Rejected]:
        """The libraries that each PE file imports, or why it cannot be read; empty for an any-platform wheel."""
        return self._read_compiled("PE", lambda file: read_pe(Extent.whole(file)).imports())

    @cached_property
    def machos(self) -> Mapping[str, tuple[MachO, ...] | Rejected]:
        """The parts of each Mach-O file, or why it cannot be read; empty for an any-platform wheel."""
        return self._read_compiled("Mach-O", read_macho)

    def _read_compiled(self, kind: str, read: Callable[[BinaryIO], Read]) -> Mapping[str, Read | Rejected]:
        members = () if self.is_pure else self.members
        found = (each for each in members if each.format.startswith(kind) and not each.damage)
        return {each.name: _read_or_refuse(each, read) for each in found}

    @property
    def readable_machos(self) -> Mapping[str, tuple[MachO, ...]]:
        """The parts of each Mach-O file that can be read."""
        return {name: found for name, found in self.machos.items() if not isinstance(found, Rejected)}

    @property
    def readable_imports(self) -> Mapping[str, tuple[Import, ...]]:
        """The libraries that each PE file imports, of those that can be read."""
        return {name: found for name, found in self.imports.items() if not isinstance(found, Rejected)}

    def exports(self, member: Member) -> frozenset[str]:
        """Return the names that a library defines for others; none if it cannot be read."""
        if member.format == "PE" and not member.damage:
            with member.open() as file, suppress(Rejected):
                return frozenset(read_pe(Extent.whole(file)).exports())
        if member.name in self.readable_machos:  # each part has to have them
            return frozenset.intersection(*(part.defined for part in self.readable_machos[member.name]))
        return self.symbols[member.name].defined if member.name in self.symbols else frozenset()

    @cached_property
    def loads_by_path(self) -> bool:
        """Whether Python code of the wheel loads libraries itself, as `torch.ops.load_library` and ctypes do."""
        code = (member for member in self.members if member.base.endswith(".py") and member.info.file_size <= MAX_TEXT)
        return any(BY_PATH.search(member.read()) for member in code)

    def _read_into_memory(self, info: zipfile.ZipInfo) -> Member:
        chunks, damage = [], ""
        try:
            for chunk in self.wheel.chunks(info):
                chunks.append(chunk)  # noqa: PERF402 - the chunks before a damage are kept
        except Rejected as error:
            damage = error.message
        content = b"".join(chunks)  # as much as was read before the damage
        return Member(info, content, record_hash(content), binary_format(io.BytesIO(content)), damage)

    def _unpack_to_disk(self, number: int, info: zipfile.ZipInfo) -> Member:
        file = self.work / f"member-{number}"  # a member's name may be hostile
        hashing, damage = Hashing(), ""
        with naming(file), file.open("wb") as sink:
            try:
                for chunk in self.wheel.chunks(info):
                    hashing.update(chunk)
                    sink.write(chunk)
            except Rejected as error:
                damage = error.message
        with file.open("rb") as content:
            return Member(info, file, hashing.record_value, binary_format(content), damage)


def _read_or_refuse(member: Member, read: Callable[[BinaryIO], Read]) -> Read | Rejected:
    """Return what `read` finds in a member, or why it cannot be read."""
    try:
        with member.open() as file:
            return read(file)
    except Rejected as error:
        return error


def abbreviate(items: Iterable[str]) -> str:
    """Return the first few items in sorted order, and the number of the others."""
    some = sorted(items)
    more = f" and {len(some) - SHOWN} more" if len(some) > SHOWN else ""
    return ", ".join(some[:SHOWN]) + more or "none"


def read_each(members: Iterable[Member], read: Callable[[BinaryIO], Read]) -> Iterator[tuple[str, Read]]:
    """Yield each member's name and the result of `read`; raise Rejected, with the name, for a malformed member."""
    for member in members:
        with member.open() as stream:
            try:
                found = read(stream)
            except Rejected as error:
                raise Rejected(f"{member.name} cannot be read: {error.message}") from error
        yield member.name, found
