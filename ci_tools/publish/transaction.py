"""Publishes one release at several targets: stages and verifies it at all of them, then activates one after another.

Until the first target is activated, users see nothing. From then on the release cannot be undone, and the journal
records it: it can only be completed, with exactly the same files. The targets themselves are asked what they have, so
that the same command completes a release on another machine too, where there is no journal.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ci_tools.errors import FatwheelError, InputError, MachineError, RejectedInput, count
from ci_tools.formats.json_file import sealed, unsealed
from ci_tools.index.units import Change, Published, Unit
from ci_tools.machine.context import Reporter
from ci_tools.machine.storage import UNFINISHED, write_atomically
from ci_tools.publish.foresight import say_shared
from ci_tools.publish.targets import Target, accept, ask_each
from ci_tools.publish.targets.reach import refuse_private


class Shown(NamedTuple):
    """The published files of a unit at one target."""

    target: str
    files: tuple[Published, ...]


class UnitJournal(NamedTuple):
    """The record of a unit, written before the first target is activated."""

    files: dict[str, str]  # sha256 by file name
    targets: list[str]
    switched: list[str]

    @property
    def is_done(self) -> bool:
        """Whether every target has published it."""
        return set(self.targets) <= set(self.switched)


class Standing:
    """The progress of a unit, for the final message of a run that fails."""

    def __init__(self, unit: Unit, targets: Sequence[Target], public: Iterable[str]) -> None:
        self.unit = unit
        self.targets = targets
        self.public = set(public)  # the addresses of targets that have published all of it
        self.under_way: Target | None = None  # the target that began to publish it

    def sentence(self, error: FatwheelError) -> str:
        """Return where the unit is public by now, where it is not, and what the same command would do next."""
        part = self._part(error)
        there = [target.address for target in self.targets if target.address in self.public]
        lacking = [target.address for target in self.targets if target.address not in self.public]
        begun = self.under_way.address if self.under_way else ""
        untouched = [address for address in lacking if not part or address != begun]
        words = [f"public by now at {', '.join(there)}" if there else "", part]
        words.append(f"not yet at {', '.join(untouched)}" if untouched and any(words) else "")
        so_far = "; ".join(filter(None, words)) or "public nowhere yet"
        return f"so far: {_describe_unit(self.unit)} is {so_far}. {_next(error, lacking, is_begun=bool(there or part))}"

    def _part(self, error: FatwheelError) -> str:
        """Return how much the current target may have published already, if its files appear one by one."""
        target = self.under_way
        if target is None or target.address in self.public:
            return ""
        if target.stages:  # it refuses before it publishes anything
            return f"perhaps public in part at {target.address}" if isinstance(error, MachineError) else ""
        try:
            answer = target.check(self.unit)
        except FatwheelError:
            return f"perhaps public in part at {target.address}"
        files = [change.what for change in answer if change.what in {"add", "keep", "replace"}]  # not pages
        there = f"{files.count('keep')} of {len(files)} files"
        return f"public in part at {target.address} ({there})" if "keep" in files else ""


def _next(error: FatwheelError, lacking: Sequence[str], *, is_begun: bool) -> str:
    """Return the advice after an error, and what the same command would do then."""
    again = f"continues with {', '.join(lacking)}" if lacking else "checks everything again"
    if not is_begun:
        again = "begins again"
    if isinstance(error, MachineError):
        return f"Run again: the same command {again}."
    return f"{'Nothing is undone. ' if is_begun else ''}Once that is fixed, the same command {again}."


def preview(unit: Unit, targets: Iterable[Target], journals: Path) -> tuple[tuple[str, Change], ...]:
    """Return what publishing would change, each with its target, in the order of activation; change nothing.

    Raises the errors that `publish` would raise before it changes anything.
    """
    ordered = _sort_targets(targets)
    _refuse_another(journals / f"{unit.name}.json", unit, ordered)
    found = accept(ask_each(ordered, lambda target: target.check(unit)))
    return tuple((target.address, change) for target, changes in found for change in changes)


def publish(unit: Unit, targets: Iterable[Target], journals: Path, reporter: Reporter) -> tuple[Shown, ...]:
    """Publish a unit at every target, or at none; return its files at each.

    If a target fails after the first activation, the same command completes the others later. Raises InputError if a
    release in progress would be completed with other files, or without one of its targets.
    """
    ordered = _sort_targets(targets)
    path = journals / f"{unit.name}.json"
    _set_aside(path, reporter)  # before anything that reads it
    _refuse_another(path, unit, ordered)
    begun = _begun(path, unit)
    standing = Standing(unit, ordered, begun.switched)
    try:
        answers = ask_each(ordered, lambda target: target.check(unit))
        standing.public |= {target.address for target, answer in answers if _shows_all(answer)}
        accept(answers)
        say_shared(unit, ordered, reporter.say)
        for target in (target for target in ordered if target.stages):
            with reporter.step(f"stage {_describe_unit(unit)} at {target.address}") as step:
                target.stage(unit)
                target.verify(unit)
                step.result("verified")
        refuse_private(unit, ordered, reporter.say)  # staged by now, so it can be asked for
        begun = begun._replace(targets=[target.address for target in ordered])
        return tuple(_switch_targets(standing, begun, path, reporter))
    except FatwheelError as error:
        error.standing = standing.sentence(error)
        raise


def _begun(path: Path, unit: Unit) -> UnitJournal:
    """Return the journal of this release, or an empty one if its publication has not begun."""
    files = {item.name: item.sha256 for item in unit.files}
    journal = _read(path)
    return journal if journal and journal.files == files else UnitJournal(files, [], [])


def _switch_targets(standing: Standing, journal: UnitJournal, path: Path, reporter: Reporter) -> Iterator[Shown]:
    unit = standing.unit
    _write(path, journal)
    for target in standing.targets:
        standing.under_way = target
        with reporter.step(f"publish {_describe_unit(unit)} at {target.address}") as step:
            try:
                files = tuple(target.switch(unit))
            except RejectedInput:
                if not journal.switched:  # another publisher came first, and nothing of this unit is public
                    path.unlink()
                raise
            new = sum(file.new for file in files)
            step.result(f"{new} new" if new else "already published")
        standing.public.add(target.address)
        journal = journal._replace(switched=list(dict.fromkeys([*journal.switched, target.address])))  # each once
        _write(path, journal)
        yield Shown(target.address, files)


def _sort_targets(targets: Iterable[Target]) -> list[Target]:
    return sorted(targets, key=lambda target: target.order)  # PyPI last: it takes nothing back


def _describe_unit(unit: Unit) -> str:
    return f"{unit.project} {unit.version} ({unit.name}, {count(len(unit.files), 'file')})"


def _shows_all(answer: tuple[Change, ...] | FatwheelError) -> bool:
    """Whether a target has nothing to change, and at least one file to keep."""
    return not isinstance(answer, FatwheelError) and {change.what for change in answer} == {"keep"}


# ---------------------------------------------------------------- the journal


def _refuse_another(path: Path, unit: Unit, targets: Sequence[Target]) -> None:
    """Raise InputError if the journal was begun with other files, or with a target that is not named now."""
    journal = _read(path)
    if journal is None or journal.is_done:
        return
    files = {item.name: item.sha256 for item in unit.files}
    other = sorted(name for name in {*files, *journal.files} if files.get(name) != journal.files.get(name))
    began = f"{_describe_unit(unit)} has begun to be published at {', '.join(journal.targets)}"
    if other:
        msg = f"{began}; {other[0]} has other bytes than then"
        hint = f"finish it with the files that it was begun with, or remove {path} to leave it unfinished"
        raise InputError(msg, hint=hint)
    missing = [address for address in journal.targets if address not in {target.address for target in targets}]
    if missing:
        msg = f"{began}; it cannot be finished without {', '.join(missing)}"
        named = " ".join(f"--to {shlex.quote(address)}" for address in journal.targets)
        raise InputError(msg, hint=f"name them too: {named}; or remove {path} to leave it unfinished")


def _set_aside(path: Path, reporter: Reporter) -> None:
    """Rename a damaged journal and report it: the targets themselves know what they have published.

    They refuse other bytes of a published file. Only the list of targets that had begun is lost.
    """
    if path.exists() and _read(path) is None:
        aside = path.with_suffix(".damaged")
        path.replace(aside)
        reporter.say(f"{path}, the journal of a release, is damaged: it is kept as {aside.name}, a new one is written")


def _read(path: Path) -> UnitJournal | None:
    """Return the journal, or None if there is none or it cannot be read."""
    try:
        table = unsealed(path.read_bytes())
        files = {str(name): str(sha256) for name, sha256 in table["files"].items()}
        return UnitJournal(files, list(map(str, table["targets"])), list(map(str, table["switched"])))
    except (AttributeError, OSError, ValueError, TypeError, KeyError):
        return None


def _write(path: Path, journal: UnitJournal) -> None:
    for begun in path.parent.glob(f".{path.name}.*{UNFINISHED}"):  # left by a publisher that was killed
        begun.unlink(missing_ok=True)
    with write_atomically(path) as file:
        file.write(sealed(journal._asdict()))
