"""`fatwheel index retract`: marks a bad release at every target that supports it; `--undo` takes the marks away.

Nothing is deleted: users who pin the version still get it (PEP 592), and every mark can be taken away. All targets are
checked before the first one is marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from ci_tools import catalog
from ci_tools.catalog.targets import kind_of
from ci_tools.catalog.targets.github import GITHUB
from ci_tools.catalog.targets.pypi import PYPI
from ci_tools.config import loader
from ci_tools.errors import FatwheelError, InputError, MachineError
from ci_tools.index.foreign.guests import CHANNELS
from ci_tools.index.ledger import Ledger
from ci_tools.index.maintain import marks
from ci_tools.index.maintain.marks import Marks, Selection, refuse_unprintable, selection_of
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside
from ci_tools.publish.targets import Target, accept, ask_each
from ci_tools.publish.targets.addresses import channel_of, targets_of

if TYPE_CHECKING:
    from ci_tools.publish.targets.github_release import GitHubTarget
    from ci_tools.publish.targets.pypi import PyPITarget

MAX_CHARACTERS = 500  # of a reason, which pip prints on one line
NOT_THERE = "it does not have this release"


class TargetRetraction(NamedTuple):
    """The changes to a release at one target, and the steps left to the user."""

    target: str
    done: str
    left: str = ""


class RetractionStep(NamedTuple):
    """A step at one place that has the release; `act` performs it and returns a description."""

    target: str
    act: Callable[[], str]
    left: str = ""


class Mark(NamedTuple):
    """The mark of a release; without a reason, it takes an earlier mark away."""

    release: Selection
    reason: str | None

    @property
    def named(self) -> str:
        """The release in the user's notation."""
        return f"{self.release.project}=={self.release.version}"


def targets_in(path: Path, outside: Outside) -> tuple[str, ...]:
    """Return the targets in a config; raise InputError if it has none."""
    addresses = loader.load(path, catalog.load(), outside=outside).publish.targets
    if not addresses:
        raise InputError(f"{path} names no target under `publish: targets`", hint="say with --to where the release is")
    return addresses


def retract(release: str, reason: str, addresses: Sequence[str], outside: Outside) -> tuple[TargetRetraction, ...]:
    """Mark a release as bad at some targets; return the changes at each.

    Raises InputError if no target has the release, or one that has it cannot be marked; nothing is changed then.
    """
    refuse_unprintable(reason)
    if not reason.strip() or len(reason) > MAX_CHARACTERS:
        what = f"it has {len(reason):,} characters" if reason.strip() else "it is empty"
        msg = f"--reason: {what}, expected one sentence of at most {MAX_CHARACTERS} characters"
        hint = "pip prints it for those who pin this version: what is wrong, and what to use instead"
        raise InputError(msg, hint=hint)
    return _mark_targets(Mark(_release_of(release), reason), addresses, outside)


def _release_of(text: str) -> Selection:
    """Return the release that a user names; raise InputError for a part of one, which other targets do not know."""
    release = selection_of(text)
    if not release.is_whole:
        expected = f"expected a whole one such as {release.project}=={release.version.public}"
        hint = "`fatwheel index yank` marks a part of a release in an index"
        raise InputError(f'"{text}" is a part of a release, {expected}', hint=hint)
    return release


def restore(release: str, addresses: Sequence[str], outside: Outside) -> tuple[TargetRetraction, ...]:
    """Take the marks of a release away at some targets; return the changes at each. Raises as `retract` does."""
    return _mark_targets(Mark(_release_of(release), None), addresses, outside)


def _mark_targets(mark: Mark, addresses: Sequence[str], outside: Outside) -> tuple[TargetRetraction, ...]:
    targets = sorted(targets_of(addresses, outside), key=lambda target: target.order)  # as they were published
    with outside.reporter.step(f"ask {len(targets)} targets about {mark.named}"):
        asked = accept(ask_each(targets, lambda target: _steps(mark, target, outside)))
    if not any(steps for _, steps in asked):  # a typing error in the version looks so
        msg = f"none of {', '.join(target.address for target in targets)} has {mark.named}"
        raise InputError(msg, hint="--to names a target, an index down to its channel: s3://BUCKET/whl")
    outcomes: list[TargetRetraction] = []
    for target, steps in asked:
        if not steps:
            outcomes.append(TargetRetraction(target.address, NOT_THERE))
        for step in steps:
            with outside.reporter.step(f"{'mark' if mark.reason else 'restore'} {mark.named} at {step.target}"):
                outcomes.append(_done(step, mark, outcomes))
    return tuple(outcomes)


def _steps(mark: Mark, target: Target, outside: Outside) -> Iterator[RetractionStep]:
    if isinstance(target, WheelIndex):
        return _steps_in_index(mark, target, outside)
    kind = kind_of(target.address)
    if kind == GITHUB:
        return _steps_on_github(mark, cast("GitHubTarget", target))
    if kind == PYPI:
        return _steps_on_pypi(mark, cast("PyPITarget", target))
    raise InputError(f"{target.address} cannot take a release back")


def _done(step: RetractionStep, mark: Mark, before: Sequence[TargetRetraction]) -> TargetRetraction:
    """Perform one step; if it fails, raise its error with the targets marked so far and the command to continue."""
    try:
        return TargetRetraction(step.target, step.act(), step.left)
    except (FatwheelError, OSError) as error:
        raise _explain_error(error, step, mark, before) from error


def _explain_error(
    error: FatwheelError | OSError, step: RetractionStep, mark: Mark, before: Sequence[TargetRetraction]
) -> FatwheelError:
    """Return a step's error, with the steps done before it."""
    what = "marked" if mark.reason else "restored"
    places = [outcome.target for outcome in before if outcome.done != NOT_THERE]
    done = f"{what} so far: {', '.join(places)}" if places else f"nothing is {what} yet"
    again = "the same command continues with the rest"
    if isinstance(error, OSError):
        return MachineError(f"{step.target}: {error.strerror or error} ({error.filename}); {done}", hint=again)
    kind = MachineError if isinstance(error, MachineError) else InputError
    hint = f"{error.hint}; {again}" if error.hint else again
    return kind(f"{step.target}: {error.message}; {done}", hint=hint)


# ---------------------------------------------------------------- an index


def _steps_in_index(mark: Mark, index: WheelIndex, outside: Outside) -> Iterator[RetractionStep]:
    """Yield a step for each channel of an index with the release: candidates in `test/`, nightlies in `nightly/`."""
    for channel in ("", *CHANNELS):
        manifest = Ledger(index.store, channel).manifest(mark.release.project)
        try:
            files, links = mark.release.find(manifest)
        except InputError:  # this channel does not have the release
            continue
        place = channel_of(index, channel, outside)
        there = [*map(marks.marks_of, files.values()), *map(marks.marks_of, links)]

        def act(place: WheelIndex = place, there: Sequence[Marks] = there) -> str:
            # Even if every file is marked: an interrupted run may have left old pages.
            if mark.reason is None:
                marks.restore(place, mark.named)
                return _describe_restored(there, mark)
            names = marks.retract(place, mark.named, mark.reason)
            is_done = all(old.retracted and old.yanked == mark.reason for old in there)  # read before the marks
            return f"{len(names)} files are yanked {'already' if is_done else 'now'}"

        yield RetractionStep(place.address, act)


def _describe_restored(there: Sequence[Marks], mark: Mark) -> str:
    """Return what restoring some files did, by their marks before it."""
    count, left = sum(old.retracted for old in there), sum(old.unretracted is not None for old in there)
    still = f"; {left} stay yanked, and `fatwheel index unyank` takes that back" if left else ""
    return f"{count} files are as they were before{still}" if count else f"{mark.named} is not retracted here{still}"


# ---------------------------------------------------------------- GitHub


def _steps_on_github(mark: Mark, target: GitHubTarget) -> Iterator[RetractionStep]:
    from ci_tools.publish.targets import recall  # noqa: PLC0415 - each target loads only the client it needs

    pages = f"fatwheel index pages {target.address} {mark.release.project} --out DIR"
    for found in recall.releases_of(target.hub, mark.release.project, mark.release.version):

        def act(number: int = found.number) -> str:  # a default, as above
            if mark.reason is None:
                is_new = recall.restore(target.hub, number)
                return "its notes, title and flags are as they were" if is_new else "it is not marked"
            is_new = recall.retract(target.hub, number, mark.reason)
            return f"its notes and title say so{'' if is_new else ' already'}, and it is not the latest"

        yield RetractionStep(f"{target.address} {found.tag}", act, f"if you serve its index, write it again: {pages}")


# ---------------------------------------------------------------- PyPI


def _steps_on_pypi(mark: Mark, target: PyPITarget) -> Iterator[RetractionStep]:
    """Yield a manual step for a maintainer if an index for uploads has the release, or cannot be asked."""
    try:
        files = target.yanks(mark.release.project, mark.release.version)
    except MachineError as error:
        why = f"it could not be asked: {error.message}"
        yield RetractionStep(target.address, lambda: why, _describe_manual_step(mark, target))
        return
    yanked = [reason for reason in files.values() if reason is not None]
    if files and len(yanked) == (0 if mark.reason is None else len(files)):
        said = f", with the reason: {yanked[0]}" if yanked and yanked[0] else ""
        state = f"it is {'yanked' if yanked else 'not yanked'} there already{said}"
        yield RetractionStep(target.address, lambda: state)
    elif files:
        done = "nothing: only its maintainers can do this, by hand"
        yield RetractionStep(target.address, lambda: done, _describe_manual_step(mark, target))


def _describe_manual_step(mark: Mark, target: PyPITarget) -> str:
    """Return a sentence on the maintainer's manual step, with the page for it."""
    page, version = target.manage_page(mark.release.project), mark.release.version
    if not page:
        verb = "yank" if mark.reason else "restore"
        return f"ask the people who run that index to {verb} {mark.named}, if it can"
    if mark.reason is None:
        return f"log in at {page}, open the Options of {version}, and choose Un-yank"
    return f"log in at {page}, open the Options of {version}, choose Yank, and give this reason: {mark.reason}"
