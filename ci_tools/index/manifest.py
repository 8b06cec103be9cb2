"""The manifests of an index, from which its pages are made: of each project, and the directory of all projects.

Each manifest has a generation, so that an older page never replaces a newer one.

A file is identified by its name, as for installers. Pages of others may list two files of one name, each in its own
folder; then the second is identified by its name and its place.

The directory also says how a new folder is filled before it becomes active.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeGuard, TypeVar

from packaging.utils import NormalizedName

from ci_tools.catalog.accelerators import FOLDER
from ci_tools.errors import RejectedInput
from ci_tools.formats import json_file
from ci_tools.formats.json_file import SEAL, digest
from ci_tools.index.file_names import project_and_version, variant_label
from ci_tools.index.pages import ADOPTED, IndexedFile, Link
from ci_tools.index.units import Offer
from ci_tools.model.names import Name

SHA256 = re.compile(r"[0-9a-f]{64}")
GENERATION = re.compile(rb'\{"generation": ([0-9]{1,18}), ')  # the start of `Manifest.dumps`
SEALED = re.compile(rb',[ \n]"seal": "([0-9a-f]{64})"\n?\}\n\Z')  # the end of all dumps
HALF_CHARACTER = re.compile(rb"\\u[dD]")  # a lone surrogate can only be an escape
PROJECT = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")  # a canonical name (PEP 503)
APART = re.compile(r"([0-9a-f]{16})?")  # the separate folder of a file: the start of its sha256
DRIVER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}){0,3}")
REMADE, DATE = 3, re.compile(r"\d{4}-\d\d-\d\d")
SAID = re.compile(r"[a-z0-9_-]{1,64}")  # the name of a hash or of an attribute
PROPERTY = re.compile(r"[0-9a-z_]+ :: [0-9a-z_]+ :: [0-9a-z_.]+")  # PEP 825
# The page of a project with such a name would be in the folder of a channel or of the finder's data.
TAKEN = frozenset({"finder", "nightly", "test"})
ROWS = tuple[tuple[str, str, str, str, str, str], ...]  # the fields of an `Offer`
GENERIC = "cpu"  # the folder for machines without an accelerator; it always exists

Table = TypeVar("Table", bound=tuple[object, ...])


class ManifestTable(NamedTuple):
    """The JSON of a manifest; an entry has the fields that say something."""

    generation: int
    files: tuple[IndexedFile, ...] = ()
    offers: tuple[tuple[str, str], ...] = ()  # version and hash
    links: tuple[Link, ...] = ()
    place: str = ""
    seal: str = ""


class StagedTable(NamedTuple):
    """The JSON of a publisher's note."""

    generation: int
    keys: tuple[str, ...]


class Manifest(NamedTuple):
    """The files of one project in an index, by name."""

    project: NormalizedName
    generation: int = 0
    files: Mapping[str, IndexedFile] = MappingProxyType({})
    offers: Mapping[str, str] = MappingProxyType({})  # the hash of each version's offers
    links: tuple[Link, ...] = ()  # links of adopted pages to other files than the project's
    place: str = ""  # the folder for new files that every folder lists; empty: the root

    def dumps(self) -> bytes:
        """Return the manifest as JSON, one file per line."""
        offers = json.dumps([[version, self.offers[version]] for version in sorted(self.offers)])
        more = {"links": [*map(_said, self.links)], "place": self.place}
        said = "".join(f'"{name}": {json.dumps(value)}, ' for name, value in more.items() if value)
        in_order = sorted(self.files.values(), key=lambda file: file.name)  # files of one name keep theirs
        lines = (json.dumps(_said(file)) for file in in_order)
        head = f'{{"generation": {self.generation}, "offers": {offers}, {said}"files": [\n'
        listed = (head + ",\n".join(lines) + "\n]").encode()
        return listed + f', "{SEAL}": "{digest(listed)}"}}\n'.encode()

    def called(self, name: str) -> tuple[IndexedFile, ...]:
        """Return the files of a name: one, or several in separate folders."""
        return tuple(self.files[key] for key in _keys_by_name(self.files, {name})[name])

    def add_files(self, files: Iterable[IndexedFile]) -> Manifest:
        """Return the manifest with new files; each replaces the one at its place.

        One of our files also replaces those of its name that a folder cannot list beside it; one of others does not:
        their pages list both, and installers take one by their order.
        """
        files = tuple(files)
        kept = dict(self.files)
        keys = _keys_by_name(kept, {file.name for file in files})
        for file in files:
            is_ours = file.origin != ADOPTED
            for key in [
                key for key in keys[file.name] if kept[key].key == file.key or (is_ours and kept[key].meets(file))
            ]:
                keys[file.name].remove(key)
                del kept[key]
            key = file.name if file.name not in kept else f"{file.name} at {file.key}"
            kept[key] = file
            keys[file.name].append(key)
        return self._replace(files=kept)


def _said(entry: IndexedFile | Link) -> dict[str, object]:
    """Return an entry's JSON: the fields that say something."""
    usual = entry._field_defaults
    return {name: value for name, value in entry._asdict().items() if name not in usual or value != usual[name]}


def _keys_by_name(files: Mapping[str, IndexedFile], names: set[str]) -> dict[str, list[str]]:
    """Return the keys in a manifest of the files with some names."""
    found: dict[str, list[str]] = {name: [name] for name in names if name in files and files[name].name == name}
    for name in names - found.keys():
        found[name] = []
    for key, file in files.items():
        if key != file.name and file.name in found:
            found[file.name].append(key)
    return found


def generation_of(data: bytes) -> int | None:
    """Return the generation of a manifest, parsing only its beginning; None if there is none."""
    found = GENERATION.match(data)
    return int(found[1]) if found else None


def parse_manifest(data: bytes, project: NormalizedName) -> Manifest:
    """Read the manifest of a project; raise ValueError if it is invalid or of another project."""
    refuse_changed(data)
    return manifest_of(read_table(data, ManifestTable), project)


def manifest_of(table: ManifestTable, project: NormalizedName) -> Manifest:
    """Return a project's manifest from its JSON; raise ValueError if it is invalid or of another project."""
    strangers = [file.name for file in table.files if project_and_version(file.name)[0] != project]
    if strangers:
        raise ValueError(f"it lists {strangers[0]}")
    offers = {version: sha256 for version, sha256 in table.offers if SHA256.fullmatch(sha256)}
    found: dict[str, IndexedFile] = {}
    for file in table.files:
        _refuse_false_entry(file)
        found[file.name if file.name not in found else f"{file.name} at {file.key}"] = file
    links = tuple(sorted(table.links, key=lambda link: link[:3]))
    for link in links:
        _refuse_place(link.name, link.at, link.only_in)
        _refuse_false_facts(link)
    if table.place and not PROJECT.fullmatch(table.place):
        raise ValueError(f"{table.place!r} is not a folder for its files")
    return Manifest(project, table.generation, found, offers, links, table.place)


def refuse_changed(data: bytes) -> None:
    """Raise ValueError if a file's seal does not match its content; files of others may have no seal."""
    sealed = SEALED.search(data)
    if sealed and digest(data[: sealed.start()]) != sealed[1].decode():
        raise ValueError("its content does not match its seal")


def dump_staged_keys(keys: Iterable[str]) -> bytes:
    """Return the note of the keys at which a publisher will add or remove files, in case it is interrupted."""
    return (json.dumps({"generation": 0, "keys": sorted(keys)}, indent=0) + "\n").encode()


def parse_staged_keys(data: bytes) -> frozenset[str]:
    """Read a publisher's note; raise ValueError if it is invalid."""
    keys = read_table(data, StagedTable).keys
    outside = [key for key in keys if ".." in key.split("/")]
    if outside:
        raise ValueError(f"it names {outside[0]!r}, expected a key of the index")
    return frozenset(keys)


def is_project(name: str) -> TypeGuard[NormalizedName]:
    """Return whether an index can have a project of that name: canonical, and not the name of one of its folders."""
    return PROJECT.fullmatch(name) is not None and FOLDER.fullmatch(name) is None and name not in TAKEN


def dump_offers(offers: Iterable[Offer]) -> bytes:
    """Return the offers of a release for every combination as JSON."""
    return json.dumps(list(offers), separators=(",", ":")).encode()


def parse_offers(data: bytes) -> tuple[Offer, ...]:
    """Read the offers of a release; empty if they are invalid."""
    try:
        return tuple(Offer(*row) for row in json_file.structure(json_file.parse(data), ROWS, "offers"))
    except (ValueError, RejectedInput):
        return ()


def read_table(data: bytes, kind: type[Table], *, exact: bool = True) -> Table:
    """Read a JSON object by its fields; raise ValueError with the first wrong key.

    Surrogates, which pages cannot hold, are refused. If `exact`, keys that no field has are wrong, too.
    """
    table = json_file.parse(data.decode())
    if HALF_CHARACTER.search(data):
        json.dumps(table, ensure_ascii=False).encode()
    try:
        return json_file.structure(table, kind, "it: content", exact=exact)
    except RejectedInput as error:
        where, what = error.problems[0]
        key = where.removeprefix("it: content").lstrip(".")
        msg = f"{key}: {what}" if key else what
        raise ValueError(msg) from error


def _refuse_false_entry(file: IndexedFile) -> None:
    """Raise ValueError if an entry has a value that no index has."""
    is_apart = file.folder or file.also or file.apart
    if is_apart and not (_is_folder(file.folder) and all(map(_is_folder, file.also)) and APART.fullmatch(file.apart)):
        raise ValueError(f"{file.name} is in a folder that no index has")
    if file.at or file.only_in:
        _refuse_place(file.name, file.at, file.only_in)
    if not file.sha256:
        raise ValueError(f"{file.name} has a hash that is not a sha256")
    _refuse_false_facts(file)
    if not (len(file.drivers) in {0, 2} and all(map(DRIVER.fullmatch, file.drivers))):
        raise ValueError(f"{file.name} needs the drivers {file.drivers}, expected two versions or none")
    if file.remade and not (len(file.remade) == REMADE and DATE.fullmatch(file.remade[1])):
        raise ValueError(f"{file.name} was remade by {file.remade}, expected who, a date and a workflow")
    if bool(file.variant) != bool(variant_label(file.name)) or not all(map(PROPERTY.fullmatch, file.variant)):
        raise ValueError(f"{file.name} has the properties {file.variant}, expected those of a wheel variant")


def _refuse_false_facts(entry: IndexedFile | Link) -> None:
    """Raise ValueError if an entry has a hash or an attribute that no page shows."""
    if not all(SHA256.fullmatch(value) for value in (entry.sha256, entry.metadata_sha256) if value):
        raise ValueError(f"{entry.name} has a hash that is not a sha256")
    wrong = next((name for name, value in (*entry.hashes, *entry.said) if not (SAID.fullmatch(name) and value)), None)
    if wrong is not None:
        raise ValueError(f"{entry.name} has the attribute {wrong!r}, which no page shows")


def _is_folder(name: str) -> bool:
    return name == "" or FOLDER.fullmatch(name) is not None


def _refuse_place(name: str, at: str, only_in: Iterable[str]) -> None:
    """Raise ValueError if a page cannot link to a file's place, or one of its folders is not an index's."""
    inside = at.split("/") if "://" not in at else []
    while inside[:1] == [".."]:
        del inside[0]
    is_web = at.startswith(("https://", "http://")) or "://" not in at
    if (
        ".." in inside
        or at.startswith("//")  # a link to another host
        or not is_web
        or re.search(r"[\x00-\x20\x7f\"<>]", at if "://" in at else "")
    ):
        raise ValueError(f"{name} has the place {at!r}, which is not valid")
    if not all(map(_is_folder, only_in)):
        raise ValueError(f"{name} is listed in a folder that no index has")


class Root(Name):
    """The owner of the front pages of an index, which list its projects, at the root and in each folder."""

    OWN = "own"  # ours: written completely
    SHARED = "shared"  # shared: our lines are added, and every other byte stays
    KEPT = "kept"  # others': never changed


class Directory(NamedTuple):
    """The projects and folders of an index; a folder is filling until every project has its page there."""

    generation: int = 0
    projects: frozenset[NormalizedName] = frozenset()
    folders: frozenset[str] = frozenset({GENERIC})
    filling: frozenset[str] = frozenset()
    root: Root = Root.OWN

    def dumps(self) -> bytes:
        """Return the directory as JSON."""
        table: dict[str, object] = {name: sorted(getattr(self, name)) for name in ("projects", "folders", "filling")}
        if self.root is not Root.OWN:
            table["root"] = self.root.value
        said = json.dumps({"generation": self.generation, **table}, indent=0).encode().removesuffix(b"\n}")
        return said + f',\n"{SEAL}": "{digest(said)}"\n}}\n'.encode()


class DirectoryTable(NamedTuple):
    """The JSON of a directory."""

    generation: int
    projects: tuple[str, ...]
    folders: tuple[str, ...]
    filling: tuple[str, ...]
    root: Root = Root.OWN
    seal: str = ""


def parse_directory(data: bytes) -> Directory:
    """Read the directory of an index; raise ValueError if it is invalid."""
    refuse_changed(data)
    table = read_table(data, DirectoryTable)
    folders, filling = frozenset(table.folders), frozenset(table.filling)
    strangers = [f"{name!r} as a project" for name in table.projects if not is_project(name)]
    strangers += [f"{name!r} as a folder" for name in folders | filling if not (name and FOLDER.fullmatch(name))]
    if strangers:
        raise ValueError(f"it has {min(strangers)}")
    projects = filter(is_project, table.projects)
    return Directory(table.generation, frozenset(projects), folders, filling, table.root)


def slash(folder: str) -> str:
    """Return a folder's name as the start of a key."""
    return f"{folder}/" if folder else ""


def announce_folders(known: Directory, folders: Iterable[str], root: Root | None = None) -> Directory:
    """Return the directory with its new folders as filling."""
    return known._replace(filling=known.filling | (set(folders) - known.folders), root=root or known.root)


def activate_folders(known: Directory, basis: Directory, projects: set[NormalizedName]) -> Directory:
    """Return the directory with new projects, and with the folders active that now have a page of every project.

    If others have added projects or folders without pages meanwhile, nothing is activated yet.
    """
    if not covers(basis, known, projects):
        return known
    return known._replace(
        projects=known.projects | projects, folders=known.folders | basis.filling, filling=known.filling - basis.filling
    )


def covers(basis: Directory, known: Directory, projects: set[NormalizedName]) -> bool:
    """Return whether the pages written by one directory are all that another one needs of these projects."""
    has_folders = known.folders | known.filling <= basis.folders | basis.filling
    return has_folders and (not basis.filling or known.projects <= basis.projects | projects)


def folders_of(manifest: Manifest) -> set[str]:
    """Return every folder that a project's files name for themselves, except the root."""
    return {name for file in manifest.files.values() for name in file.folders if name}
