"""Runs a project's own code confined, on a copy of its source, and keeps what each run showed.

A result is kept with the states of the files that the code read, and run again where one of them has changed. One that
ended by a limit is not kept, and no other run of it is started: the next plan's machine may have more resources free.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.errors import InputError
from ci_tools.machine.context import Outside, Step
from ci_tools.machine.seals import read_key, seal, unseal
from ci_tools.machine.storage import write_atomically
from ci_tools.machine.workplace import workplace
from ci_tools.observe.cells import Spent
from ci_tools.observe.stage import choose_place
from ci_tools.sandbox import Confined, Limits, Verdict, run_in_sandbox, why_not
from ci_tools.sandbox.leftovers import clear, read_safely

if TYPE_CHECKING:
    from ci_tools.source.files import Tree

LOG = logging.getLogger(__name__)
MAX_KEPT = 256 << 20  # bytes of one result
ENDED_EARLY = {
    Verdict.TIMED_OUT: "{code} computes or waits for over {limits.seconds} seconds",
    Verdict.OUT_OF_MEMORY: "{code} took over {memory} GiB of memory",
    Verdict.TOO_MANY_PROCESSES: "{code} started over {limits.processes} processes",
    Verdict.TOO_MUCH_WRITTEN: "{code} wrote over {written} GiB",
}


class TrialResult(NamedTuple):
    """The result of one run, as JSON has it, and all that it depends on besides what the caller names."""

    answer: dict[str, Any]
    reads: Iterable[str] = ()  # files of the source
    version: str | None = None  # of the project, where the code asked for it
    stopped: bool = False  # whether it did not end by itself, or is not to be kept


class Laboratory:
    """Runs one experiment, which a subclass describes, for one source, again and again."""

    code: str  # that is run, such as setup.py, as messages name it
    task: str  # as the user sees it: observe what setup.py builds
    purpose = "to show what it builds"
    unit = ""  # of a run, where the user sees how many there were: build
    store: str  # the folder of the results below the user's cache

    def __init__(self, tree: Tree, outside: Outside, limits: Limits, spent: Spent | None = None) -> None:
        self.tree = tree
        self.spent = spent or Spent()
        self.outside = outside
        self.limits = limits
        self.sealing = read_key(outside.environ)
        self.open = ExitStack()  # what ends with the last run: folders, processes, the step that the user sees
        self.step: Step | None = None
        self.counted = 0, 0  # cells known, and cells in total
        self.runs = 0
        self.said = False

    def close(self) -> None:
        """Remove what the runs left, and end the step that the user sees, if there is one."""
        if self.step and self.unit:
            self.step.result(f"{self.runs} {self.unit}{'' if self.runs == 1 else 's'}")
        self.open.close()

    def count(self, known: int, total: int) -> None:
        """Show how many cells are known."""
        self.counted = known, total
        if self.step and total:
            self.step.count(known, total, "cells")

    @cached_property
    def folder(self) -> Path:
        """The folder for the stages, which only this process uses."""
        place = choose_place(self.tree, self.limits.written, self.outside)
        return self.open.enter_context(workplace(place, clear)).resolve()

    @cached_property
    def stores(self) -> Sequence[Path] | None:
        """The folders with the objects of the source's repository; None if the code may not read them."""
        return self.tree.list_stores(self.outside.cache)

    def recall(self, inputs: Iterable[object], run: Callable[[], TrialResult], version: str = "") -> TrialResult:
        """Return the result that an earlier plan kept of a run with these inputs, or run the code and keep its result.

        `version` is the project's; a result that does not depend on it serves every version.
        """
        tree = self.tree
        unconfined = self.outside.trusts_source and why_not()
        key = repr((tree.listing, bool(tree.checkout), unconfined, *inputs))  # a listing reads the files' states
        name = hashlib.sha256(key.encode()).hexdigest()
        path = self.outside.cache.resolve() / self.store / f"{name}.json"
        kept = read_safely(path, MAX_KEPT)
        entry = unseal(name, kept, self.sealing) if kept is not None else None
        is_current = (
            entry is not None
            and self._list_states(entry["states"]) == entry["states"]
            and entry["version"] in (None, version)
        )
        LOG.debug("cache %s: %s", "hit" if is_current else "miss", path)
        if entry is not None and is_current:
            return TrialResult(entry["answer"])
        self._say_once(f"{path} was not written by this user" if kept is not None and entry is None else "")
        self._refuse_unconfined()
        shown = run()
        if not shown.stopped:
            entry = {"answer": shown.answer, "states": self._list_states(shown.reads), "version": shown.version}
            with write_atomically(path) as file:
                file.write(seal(name, entry, self.sealing))
        return shown

    def run(self, command: Sequence[str | Path], *, readable: Iterable[Path], **confinement: Any) -> Confined:  # noqa: ANN401 - those of the sandbox
        """Run the experiment's command within its limits; the user sees a step from the first on.

        Of the repository it may read the copy in its folder, which has the files of `tree`, and the objects in
        `stores`, and nothing else; of this machine what is `readable`, and what the sandbox lets every command read.
        """
        if self.step is None:
            self.step = self.open.enter_context(self.outside.reporter.step(self.task))
            self.count(*self.counted)
        self.runs += 1
        allowed = (*readable, *(self.stores or ()))
        return run_in_sandbox(command, readable=allowed, limits=self.limits, trusted=bool(why_not()), **confinement)

    def explain_end(self, verdict: Verdict) -> str:
        """Return by which limit the code ended, or "" if it ended by itself."""
        memory, written = self.limits.memory >> 30, self.limits.written >> 30
        form = ENDED_EARLY.get(verdict, "")
        return form.format(code=self.code, limits=self.limits, memory=memory, written=written)

    def _list_states(self, names: Iterable[str]) -> dict[str, str]:
        """Return the states of files that the code has read or looked at."""
        return {name: self.tree.state(name) for name in sorted(names)}

    def _say_once(self, what: str) -> None:
        """Report once why the code is run again: a cache that another user filled has many such files."""
        if what and not self.said:
            self.said = True
            self.outside.reporter.say(f"{what}, so {self.code} is observed again")

    def _refuse_unconfined(self) -> None:
        """Raise InputError where this machine cannot confine the code, and the user does not trust it."""
        if not self.outside.trusts_source and (reason := why_not()):
            msg = f"{self.code} must run {self.purpose}, and this machine cannot confine it: {reason}"
            hint = "--trust-source runs it without confinement: use it only for a source that you trust"
            raise InputError(msg, hint=hint, page="explanation/evidence.md#what-confinement-guarantees")


def name_folders_alike(answer: dict[str, Any], folders: Mapping[Any, str]) -> dict[str, Any]:
    """Return an answer with this host's folders replaced by names that are the same on every host, the first first."""
    text = json.dumps(answer)
    for folder, name in folders.items():
        text = text.replace(json.dumps(str(folder))[1:-1], name)  # as it is escaped within the JSON
    alike: dict[str, Any] = json.loads(text)
    return alike
