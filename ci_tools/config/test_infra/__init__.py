"""Translates a caller of pytorch/test-infra's reusable workflows into the settings of a `fatwheel.yml`.

Every input and secret gets a row with a reason: carried over, not needed, or left to a person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.config.test_infra.callers import Caller, read
from ci_tools.config.test_infra.carrier import CARRIERS, carry_over
from ci_tools.config.test_infra.inputs import (
    SYSTEMS,
    InputFate,
    KnownInput,
    Move,
    ReportLine,
    SettingWish,
    load_fates,
    newest,
)
from ci_tools.errors import Problem, RejectedInput, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ci_tools.catalog import Catalog

__all__ = ["CARRIERS", "InputFate", "KnownInput", "Move", "ReportLine", "SettingWish", "load_fates", "move", "newest"]


def move(workflows: Sequence[Path], folder: Path, catalog: Catalog) -> Move:
    """Translate workflow files, and the scripts in `folder` that they name, into settings of a config.

    Raises InputError if a file does not call test-infra, or passes it an input that it does not have.
    """
    found = [caller for path in workflows for caller in read(path, str(path))]
    problems = [problem for caller in found for problem in _unknown(caller)]
    if problems:
        raise RejectedInput(problems)
    carried = [each for caller in found for each in carry_over(caller, folder, catalog)]
    if len({_ref(caller) for caller in found}) > 1:  # a config has one source
        carried = [_torn(each) for each in carried if not (isinstance(each, SettingWish) and each.key == "ref")]
    repositories = (caller.inputs["repository"] for caller in found if "repository" in caller.inputs)
    moved = Move(
        wishes=tuple(each for each in carried if isinstance(each, SettingWish)),
        rows=tuple(dict.fromkeys(each for each in carried if isinstance(each, ReportLine))),  # jobs share inputs
        triggers=tuple(caller.on for caller in found),
        repository=next((one.value for one in repositories if one.is_known), ""),
    )
    return moved._replace(rows=tuple(_limited(row, moved) for row in moved.rows))


def _limited(row: ReportLine, moved: Move) -> ReportLine:
    """Return the row of a script that only some platforms have as NEEDS_YOU: a command of the config is for all."""
    wished = {(wish.key, wish.value) for wish in moved.wishes if wish.where == row.where}
    keys = ("before", "after", "command")
    scripts = (wish for key in keys for wish in moved.of(key) if (key, wish.value) in wished)
    wish = next(scripts, None)
    if wish is None or row.fate is not InputFate.CARRIED or moved.is_everywhere(wish):
        return row
    place = "validate.commands" if wish.key == "command" else f"build.{wish.key}"
    only = f"it is only for {', '.join(wish.platforms)}, and {place} is for every platform"
    return row._replace(fate=InputFate.NEEDS_YOU, what=f"{only}: let it end at once elsewhere, and write it there")


def _ref(caller: Caller) -> str:
    """Return the ref that a job builds: by default, test-infra takes the branch nightly."""
    given = caller.inputs.get("ref")
    return given.value if given else "nightly"


def _torn(each: ReportLine | SettingWish) -> ReportLine | SettingWish:
    """Return the row of a ref as NEEDS_YOU, because the files build different refs; others unchanged."""
    if not isinstance(each, ReportLine) or each.name != "ref":
        return each
    return each._replace(
        fate=InputFate.NEEDS_YOU, what="the files build several refs: choose one, or the commit of the run"
    )


def _unknown(caller: Caller) -> Iterator[Problem]:
    """Yield the inputs that test-infra does not have, and the values that it would reject."""
    inputs = load_fates()["inputs"]
    for name, given in (*caller.matrix.items(), *caller.inputs.items()):
        if name not in inputs:
            yield Problem(given.where, f'test-infra has no input "{name}", {nearest(name, inputs)}')
    system = caller.matrix.get("os")
    if system and system.is_known and system.value not in SYSTEMS:
        yield Problem(system.where, f'test-infra has no os "{system.value}", {nearest(system.value, SYSTEMS)}')
