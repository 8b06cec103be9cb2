"""Random walks through the life of an index, by us and by others' tools, beside a small model of what installers see.

A walk is its seed. After each step of ours, every page of a project must list what the model says; a step that is
killed between two writes loses nothing, and done once more it is done. `python -m tests.builders.index_walks SEED`
tells one walk step by step.
"""

from __future__ import annotations

import functools
import os
import random
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import InputError
from ci_tools.index import maintain
from ci_tools.index.foreign import adoption
from ci_tools.index.ledger import Ledger
from ci_tools.index.maintain import marks
from ci_tools.index.manifest import Root
from ci_tools.index.objects.store import FolderStore
from ci_tools.index.wheel_index import Settings, WheelIndex
from ci_tools.machine.context import Outside, Silent
from ci_tools.model.request import Channel, Edition
from ci_tools.publish.additions import ADDED
from ci_tools.publish.promotion import promote
from tests.builders import index_peers, releases
from tests.builders.index_views import Key, Killed, MortalStore, Pages, Seen, read_document
from tests.builders.wheels import hexdigest, make

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


KINDS = ("ours", "s3pypi", "dumb-pypi", "script")
STEPS = 7
PROJECT = "demo"
VERSIONS = ("1.0", "1.1", "2.0")
FOLDERS = ("", "cu128", "cu130")
REASONS = ("broken", "use 2.0", "")


@dataclass
class Wheel:
    """What the model knows of a file."""

    name: str
    path: Path
    is_ours: bool
    folders: frozenset[str]  # whose pages list it; of ours "" alone stands for all of them
    yanked: str | None = None
    before: tuple[str | None, ...] = ()  # its yank before its retraction, if it is retracted
    is_known: bool = True  # whether a manifest has it, since a step of ours has read the page that lists it

    @property
    def version(self) -> str:
        """Its version without the local part."""
        return self.name.split("-")[1].partition("+")[0]

    def is_listed_in(self, folder: str) -> bool:
        """Whether a page has to list it."""
        return self.is_known and (folder in self.folders or (self.is_ours and "" in self.folders and self.at_root))

    @property
    def at_root(self) -> bool:
        """Whether every folder lists it."""
        return "+" not in self.name


class Ended(NamedTuple):
    """How a walk ended."""

    seed: int
    kind: str
    steps: tuple[str, ...]
    kills: int
    complaints: tuple[str, ...]


@functools.cache
def wheel(folder: Path, version: str, accelerator: str, word: str) -> Path:
    """Return a wheel; two words make two files of one name."""
    local = f"+{accelerator}" if accelerator else ""
    name = f"{PROJECT}-{version}{local}-py3-none-any.whl"
    return make(folder / word, name, {f"{PROJECT}.py": f"word = {word!r}\n".encode()}, "Requires-Python: >=3.8\n")


@dataclass
class Walk:
    """One index, and what the model says of it."""

    seed: int
    root: Path
    made: Path
    files: dict[Key, Wheel] = field(default_factory=dict)
    told: dict[str, Seen] = field(default_factory=dict)  # pages that others wrote since our last step, by folder
    pool: dict[str, index_peers.Pooled] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    is_adopted: bool = False
    kills: int = 0
    claimed: set[str] = field(default_factory=set)  # the names of files that we have published
    dropped: dict[Key, Wheel] = field(default_factory=dict)  # what others removed since our last step

    def __post_init__(self) -> None:
        """Choose what kind of index it is."""
        self.pages = Pages(self.root, PROJECT)
        self.chance = random.Random(self.seed)  # noqa: S311 - a walk is its seed
        self.kind = KINDS[self.seed % len(KINDS)]
        self.is_adopted = self.kind == "ours"
        self.outside = Outside(environ=os.environ, cache=self.root.with_name("cache"), reporter=Silent())
        self.settings = Settings(root=Root.SHARED) if self.kind == "script" else Settings()

    def walk(self) -> Ended:
        """Take every step, until one goes wrong."""
        if not self.is_adopted:
            for _ in range(self.chance.randint(1, 3)):
                self._others()
            if self.kind != "script":
                index_peers.front(self.root, PROJECT)
        ways: Mapping[Callable[[], None], int] = {
            self._publish: 4, self._yank: 2, self._unyank: 1, self._retract: 2, self._restore: 2,
            self._promote: 1 if self.kind == "ours" else 0, self._others: 0 if self.kind == "ours" else 4,
            self._adopt: 0 if self.kind == "ours" else 2,
        }  # fmt: skip
        for _ in range(STEPS):
            step = self.chance.choices(list(ways), list(ways.values()))[0] if self.is_adopted else self._adopt
            step()
            if self.complaints:
                break
        return Ended(self.seed, self.kind, tuple(self.steps), self.kills, tuple(self.complaints))

    # -- steps of ours

    def _publish(self) -> None:
        version, word = self.chance.choice(VERSIONS), self.chance.choice(("ours", "ours", "else"))
        folders = self.chance.sample(FOLDERS, self.chance.randint(1, 2))
        paths = {folder: wheel(self.made, version, folder, word) for folder in folders}
        origin = self.chance.choice(("", "", ADDED))
        items = [releases.item(path, folder)._replace(origin=origin) for folder, path in paths.items()]
        unit = releases.unit(PROJECT, *items, version=version)

        def change() -> None:
            for folder, path in paths.items():
                self._claim(path, folder)

        # A file of that name with other bytes is refused, and so are its own bytes where only others list them.
        names = {path.name: hexdigest(path) for path in paths.values()}
        may_fail = any(names.get(name, sha256) != sha256 for name, sha256 in self.files)
        words = f"{'add' if origin else 'publish'} {' '.join(names)} ({word})"
        self._do(words, lambda index: releases.publish(index, unit), change, may_fail=may_fail)
        for path in paths.values():  # of a run that was killed and then refused: a script may list what it has left
            left = Wheel(path.name, path, is_ours=False, folders=frozenset(), is_known=False)
            self.files.setdefault((path.name, hexdigest(path)), left)

    def _claim(self, path: Path, folder: str) -> None:
        """Note a file that we have published: from then on, nobody else removes it."""
        key, new = (path.name, hexdigest(path)), Wheel(path.name, path, is_ours=True, folders=frozenset({folder}))
        if key not in self.files or not self.files[key].folders:
            self.files[key] = new
        self.claimed.add(path.name)

    def _promote(self) -> None:
        version, root = self.chance.choice(VERSIONS), self.root
        path = wheel(self.made, version, "", self.chance.choice(("ours", "else")))
        is_there = (path.name, hexdigest(path)) in self.files
        if not is_there and any(one.version == version for one in self.files.values()):
            return
        unit = releases.unit(PROJECT, releases.item(path), version=version, edition=Edition(Channel.TEST, 1))
        tested = root / "test" / PROJECT / "index.html"
        if not (tested.exists() and path.name in tested.read_text()):
            releases.publish(self._index(), unit)
        source = WheelIndex(FolderStore(root / "test", Silent()), order=0)

        def change() -> None:
            self._claim(path, "")

        def act(index: WheelIndex) -> None:
            promote(source, (index,), f"{PROJECT}=={version}", self.outside)

        self._do(f"promote {version}", act, change, may_fail=True)

    def _mark(self, words: str, act: Callable[[WheelIndex, str], object], change: Callable[[Wheel], None]) -> None:
        there = [one.version for one in self.files.values()]
        version = self.chance.choice(there if there and self.chance.random() < 0.9 else VERSIONS)
        told = {key for seen in self.told.values() for key in seen}
        files = [one for key, one in self.files.items() if one.version == version and (one.is_known or key in told)]
        name = self.chance.choice(files).name if files and words.endswith("yank") and self.chance.random() < 0.5 else ""
        named = [one for one in files if one.name == name] if name else files

        def change_all() -> None:
            for one in named:
                change(one)

        release = name or f"{PROJECT}=={version}"
        self._do(f"{words} {release}", lambda index: act(index, release), change_all, may_fail=not files)

    def _yank(self) -> None:
        reason = self.chance.choice(REASONS)

        def change(one: Wheel) -> None:
            one.yanked, one.before = reason, ()

        self._mark("yank", lambda index, release: maintain.yank(index, release, reason), change)

    def _unyank(self) -> None:
        def change(one: Wheel) -> None:
            one.yanked, one.before = None, ()

        self._mark("unyank", lambda index, release: maintain.yank(index, release, None), change)

    def _retract(self) -> None:
        reason = self.chance.choice(REASONS)

        def change(one: Wheel) -> None:
            one.yanked, one.before = reason, one.before or (one.yanked,)

        self._mark("retract", lambda index, release: marks.retract(index, release, reason), change)

    def _restore(self) -> None:
        def change(one: Wheel) -> None:
            one.yanked, one.before = (one.before[0] if one.before else one.yanked), ()

        self._mark("undo", marks.restore, change)

    def _adopt(self) -> None:
        only = (PROJECT,) if self.kind == "script" else ()
        twins = {name for name, _ in self.files if sum(name == other for other, _ in self.files) > 1}
        before = None if self.is_adopted else adoption.survey(self._index(), only, self.outside)

        def act(index: WheelIndex) -> None:
            done = adoption.adopt(index, only, self.outside)
            if before and done != before and not self.steps[-1].endswith("again"):
                self.complaints.append(f"foreseen: {before}, done: {done}")

        self._do("adopt", act, lambda: None, may_fail=bool(twins) and self.is_adopted)
        self.is_adopted = True

    # -- steps of others

    def _others(self) -> None:
        folder = self.chance.choice(FOLDERS) if self.kind == "script" else ""
        path = wheel(self.made, self.chance.choice(VERSIONS), folder, self.chance.choice(("theirs", "else")))
        {"s3pypi": self._s3pypi, "dumb-pypi": self._dumb, "script": self._script}[self.kind](path, folder)

    def _s3pypi(self, path: Path, _: str) -> None:
        if any(name == path.name for name, _ in self.files):  # it would overwrite it, which nobody can mend
            return
        self.steps.append(f"s3pypi uploads {path.name}")
        index_peers.s3pypi(self.root, PROJECT, path)
        self._take_note(path, "")

    def _dumb(self, path: Path, _: str) -> None:
        free = [name for name in self.pool if name not in self.claimed]
        gone = self.chance.choice(free) if free and len(self.pool) > 1 else None
        if gone and self.chance.random() < 0.3:
            self.steps.append(f"dumb-pypi drops {gone}")
            key = (gone, hexdigest(self.pool.pop(gone).path))
            (self.root / "pool" / gone).unlink()
            self.dropped[key] = self.files.pop(key)
        elif path.name not in self.pool:
            self.steps.append(f"dumb-pypi lists {path.name} ({path.parent.name})")
            self.pool[path.name] = index_peers.Pooled(path)
        else:
            reason = self.chance.choice(REASONS)
            self.steps.append(f"dumb-pypi yanks {path.name}: {reason!r}")
            self.pool[path.name] = self.pool[path.name]._replace(yanked=reason)
        index_peers.dumb_pypi(self.root, PROJECT, self.pool)
        for one in self.pool.values():
            self._take_note(one.path, "")

    def _script(self, path: Path, folder: str) -> None:
        if any(name == path.name for name, _ in self.files):
            return
        self.steps.append(f"test-infra uploads {folder}/{path.name}, and its script runs")
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        (self.root / folder / path.name).write_bytes(path.read_bytes())
        index_peers.script(self.root)
        self._take_note(path, folder)

    def _take_note(self, path: Path, folder: str) -> None:
        new = Wheel(path.name, path, is_ours=False, folders=frozenset({folder}), is_known=False)
        key = (path.name, hexdigest(path))
        self.files.setdefault(key, self.dropped.pop(key, new))  # what is back before our next step was never gone
        self.told = {
            place: seen
            for place in FOLDERS
            if not self.pages.is_ours(place) and (seen := self.pages.read(place)) is not None
        }

    # -- a step of ours, with a kill in it

    def _index(self, left: int = -1) -> WheelIndex:
        store = MortalStore(self.root)
        store.left = left
        return WheelIndex(store, order=0, settings=self.settings)

    def _do(
        self, words: str, act: Callable[[WheelIndex], object], change: Callable[[], None], *, may_fail: bool
    ) -> None:
        """Do a step, perhaps killed once before it is done; then hold every page against the model."""
        seen = self.pages.all(FOLDERS)
        if self.chance.random() < 0.4:
            left = self.chance.randint(0, 12)
            self.steps.append(f"{words}, killed before write {left + 1} unless it was done by then")
            try:
                act(self._index(left))
            except Killed:
                self.kills += 1
                self._compare_after_kill(seen)
            except InputError as error:
                self._refused(error, may_fail=may_fail)
                return
            words = f"{words}, again"
        self.steps.append(words)
        try:
            act(self._index())
        except InputError as error:
            self._refused(error, may_fail=may_fail)
            return
        self._join_told()
        change()
        self._compare()

    def _refused(self, error: InputError, *, may_fail: bool) -> None:
        self.steps[-1] += " (refused)"
        if not may_fail:
            self.complaints.append(f"refused: {error.message}")

    def _join_told(self) -> None:
        """Let the model know what our step has read on pages of others: files, yanks, folders."""
        for folder, seen in self.told.items():
            for key, yanked in seen.items():
                if key in self.files:
                    one = self.files[key]
                    one.folders |= {folder}
                    one.is_known = True
                    one.yanked = yanked if one.yanked is None else one.yanked
        self.told, self.dropped = {}, {}

    # -- what installers see

    def _compare(self) -> None:
        if Ledger(FolderStore(self.root, Silent()), "").manifest(PROJECT).generation == 0:
            return
        for folder in FOLDERS:
            seen = self.pages.read(folder)
            self.complaints += self.pages.broken(folder)
            must = {key: one for key, one in self.files.items() if one.is_listed_in(folder)}
            if seen is None:
                if must and (self.root / folder).is_dir():
                    self.complaints += [f"{folder or 'the root'} has no page, and should list {len(must)} files"]
                continue
            self._judge(folder, seen, must)
            document = self.root / folder / PROJECT / "index.json"
            if document.exists() and read_document(document) != seen:
                self.complaints.append(f"{folder}: JSON {read_document(document)}, HTML {seen}")

    def _judge(self, folder: str, seen: Seen, must: Mapping[Key, Wheel]) -> None:
        where = folder or "the root"
        self.complaints += [f"{where}: {key} is lost" for key in must if key not in seen]
        for key, yanked in seen.items():
            one = self.files.get(key)
            if one is None:
                self.complaints.append(f"{where}: {key} is listed, and nobody put it there")
            elif one.is_ours and not one.is_listed_in(folder):
                self.complaints.append(f"{where}: {key} is listed, which is for {set(one.folders)}")
            elif yanked != one.yanked:
                self.complaints.append(f"{where}: {key} has the yank {yanked!r}, expected {one.yanked!r}")

    def _compare_after_kill(self, before: Mapping[str, Seen]) -> None:
        for folder, old in before.items():
            new = self.pages.read(folder) or {}
            lost = [key for key in old if key not in new and key in self.files]
            self.complaints += [f"{folder or 'the root'}: {key} is lost by the kill" for key in lost]


def walk(seed: int) -> Ended:
    """Take the walk of a seed."""
    with tempfile.TemporaryDirectory(prefix="fatwheel-", dir=_quick()) as folder:
        (Path(folder) / "index").mkdir()
        return Walk(seed, Path(folder) / "index", _wheels()).walk()


def _quick() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - memory, where there is such a folder


@functools.cache
def _wheels() -> Path:
    return Path(tempfile.mkdtemp(prefix="fatwheel-wheels-", dir=_quick()))


if __name__ == "__main__":
    for number in map(int, sys.argv[1:]):
        ended = walk(number)
        sys.stdout.write("\n".join([ended.kind, *ended.steps, *ended.complaints, ""]))
