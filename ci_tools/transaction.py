"""One release at several targets: staged and read back at all of them, and only then shown, one target after another.

Until the first target switches nobody sees anything. From then on there is no way back, and the journal says so: what
was begun can only be finished, with the very same files. What is where is asked of the targets, so that the same
command finishes a release on another machine as well, where there is no journal.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import FatwheelError, InputError, MachineError, Problem, RejectedInput
from ci_tools.storage import UNFINISHED, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from ci_tools.outside import Reporter
    from ci_tools.release import Change, Published, Unit
    from ci_tools.targets import Target

__all__ = ["Shown", "preview", "publish"]


class Shown(NamedTuple):
    """A unit's files at one target."""

    target: str
    files: tuple[Published, ...]


class Journal(NamedTuple):
    """What is noted of a unit once a target begins to show it."""

    files: dict[str, str]  # sha256s by name
    targets: list[str]
    switched: list[str]

    @property
    def is_done(self) -> bool:
        """Whether every target shows it."""
        return set(self.targets) <= set(self.switched)


def preview(unit: Unit, targets: Iterable[Target], journals: Path) -> tuple[tuple[str, tuple[Change, ...]], ...]:
    """Return what publishing would change at each target, in the order in which they switch; change nothing.

    Raises what `publish` would raise before it changes anything.
    """
    ordered = _ordered(targets)
    _refuse_another(journals / f"{unit.name}.json", unit, ordered)
    return tuple((target.address, changes) for target, changes in _checked(unit, ordered))


def publish(unit: Unit, targets: Iterable[Target], journals: Path, reporter: Reporter) -> tuple[Shown, ...]:
    """Publish a unit at every target, or at none; return its files at each.

    A target that fails after the first has switched leaves the rest for the same command, run again. Raises InputError
    where a release that has begun would be finished with other files, or without one of its targets.
    """
    ordered = _ordered(targets)
    path = journals / f"{unit.name}.json"
    _refuse_another(path, unit, ordered)
    _checked(unit, ordered)
    for target in (target for target in ordered if target.stages):
        with reporter.step(f"bring {_named(unit)} to {target.address}") as step:
            target.stage(unit)
            target.verify(unit)
            step.result("read back, as they should be")
    return tuple(_switched(unit, ordered, path, reporter))


def _switched(unit: Unit, targets: Sequence[Target], path: Path, reporter: Reporter) -> Iterator[Shown]:
    journal = Journal({item.name: item.sha256 for item in unit.files}, [target.address for target in targets], [])
    _write(path, journal)
    for target in targets:
        with reporter.step(f"show {_named(unit)} at {target.address}") as step:
            try:
                files = tuple(target.switch(unit))
            except RejectedInput:
                if not journal.switched:  # another publisher came first, and nothing of this one is seen
                    path.unlink()
                raise
            new = sum(file.new for file in files)
            step.result(f"{new} new" if new else "all there already")
        journal.switched.append(target.address)
        _write(path, journal)
        yield Shown(target.address, files)


def _ordered(targets: Iterable[Target]) -> list[Target]:
    return sorted(targets, key=lambda target: target.order)


def _named(unit: Unit) -> str:
    count = len(unit.files)
    return f"{unit.project} {unit.version} ({unit.name}, {count} file{'' if count == 1 else 's'})"


def _checked(unit: Unit, targets: Sequence[Target]) -> list[tuple[Target, tuple[Change, ...]]]:
    """Ask every target; raise RejectedInput with all that any of them says."""
    found = [(target, _asked(unit, target)) for target in targets]
    refusals = [(target, answer) for target, answer in found if isinstance(answer, FatwheelError)]
    if refusals:
        problems = (problem for target, error in refusals for problem in _problems(target, error))
        raise RejectedInput(problems, hint=refusals[0][1].hint)
    return [(target, answer) for target, answer in found if not isinstance(answer, FatwheelError)]


def _asked(unit: Unit, target: Target) -> tuple[Change, ...] | FatwheelError:
    try:
        return tuple(target.check(unit))
    except MachineError:
        raise
    except FatwheelError as error:
        return error


def _problems(target: Target, error: FatwheelError) -> Iterator[Problem]:
    said = map(str, error.problems) if isinstance(error, RejectedInput) else [error.message]
    yield from (Problem("" if target.address in text else target.address, text) for text in said)


# ---------------------------------------------------------------- the journal


def _refuse_another(path: Path, unit: Unit, targets: Sequence[Target]) -> None:
    """Raise InputError where what is noted was begun with other files, or with a target that is not named now."""
    journal = _read(path)
    if journal is None or journal.is_done:
        return
    files = {item.name: item.sha256 for item in unit.files}
    other = sorted(name for name in {*files, *journal.files} if files.get(name) != journal.files.get(name))
    began = f"{_named(unit)} has begun to appear: {', '.join(journal.targets)}"
    if other:
        msg = f"{began}; {other[0]} is not what it was then"
        hint = f"finish it with the files it was begun with, or remove {path} to leave it where it is"
        raise InputError(msg, hint=hint)
    missing = [address for address in journal.targets if address not in {target.address for target in targets}]
    if missing:
        msg = f"{began}; it cannot be finished without {', '.join(missing)}"
        named = " ".join(f"--to {shlex.quote(address)}" for address in journal.targets)
        raise InputError(msg, hint=f"name them too: {named}; or remove {path} to leave it where it is")


def _read(path: Path) -> Journal | None:
    """Return what is noted; raise InputError where it cannot be read."""
    if not path.exists():
        return None
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        files = {str(name): str(sha256) for name, sha256 in table["files"].items()}
        return Journal(files, list(map(str, table["targets"])), list(map(str, table["switched"])))
    except (AttributeError, OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        msg = f"{path}, the journal of a release, is damaged: {error}"
        raise InputError(msg, hint="look at the targets; remove it once you know what they show") from None


def _write(path: Path, journal: Journal) -> None:
    for begun in path.parent.glob(f".{path.name}.*{UNFINISHED}"):  # by a publisher that was killed
        begun.unlink(missing_ok=True)
    with write_atomically(path) as file:
        file.write(json.dumps(journal._asdict(), indent=1).encode())
