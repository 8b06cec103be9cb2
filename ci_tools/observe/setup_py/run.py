"""Observes what a setuptools project builds for a cell: its code runs confined, on a copy, and compiles nothing.

Every question that the code asks about its machine is answered for the cell and recorded. Cells with the same answers
to all recorded questions get the same build, so one run stands for all of them.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.catalog.tables import parse
from ci_tools.formats.wheel import record_hash
from ci_tools.machine.context import Outside
from ci_tools.model.evidence import OWN_SUFFIX
from ci_tools.model.files import EPOCH
from ci_tools.observe.cells import TOO_MANY, Spent
from ci_tools.observe.laboratory import Laboratory, TrialResult, name_folders_alike
from ci_tools.observe.observation import Observed, list_folders, parse_answer, read_journal, read_wheel
from ci_tools.observe.setup_py.prepared import PYTHON, Prepared, prepare, write_driver
from ci_tools.observe.stage import KNOWN, OBSERVER_TABLES, Stage, identify_tools, readable
from ci_tools.observe.views import View, is_question, kind_of, list_facts, name_homes
from ci_tools.sandbox import Limits
from ci_tools.sandbox.groups import SERVER
from ci_tools.source.files import Tree

LOG = logging.getLogger(__name__)

FAKES = parse(Path(__file__).with_name("simulated.toml").read_bytes())
SIMULATED, HARMLESS = frozenset[str](FAKES["simulated"]), frozenset[str](FAKES["harmless"])
PLUGINS: Mapping[str, Mapping[str, str]] = FAKES["plugins"]
MODULES = {"nvidia-ml-py": "pynvml"}  # of a plugin whose module has another name
CODE = re.compile(r"\.(pyi?|pyx|pxd|pxi|toml|cfg|in|cmake)$|(^|/)(CMakeLists\.txt|[A-Z]+(\.\w+)?)$")
MIN_DATA = 200  # fewer files are copied as fast
LIMITS = Limits(seconds=60, memory=2 << 30, processes=64, written=2 << 30)
OF_VERSIONS = frozenset({"accelerator", "cuda", "free_threaded", "nccl", "oneapi", "python", "torch"})  # questions
WORD = "FATWHEEL_WORD"  # the observer removes it from its variables before the project's code runs
JOB = {"CMAKE_BUILD_PARALLEL_LEVEL": "1", "MAX_JOBS": "1", "SOURCE_DATE_EPOCH": str(EPOCH)}  # every job sets these


class ObservedProject(NamedTuple):
    """The observed project."""

    tree: Tree
    folder: str  # of the project, below the tree's root
    backend: str
    backend_path: tuple[str, ...]
    provided: tuple[tuple[str, tuple[str, ...] | None], ...]  # requirements without a fake, and their modules if known
    plugins: tuple[str, ...] = ()  # those of PLUGINS that it requires
    installed: tuple[str, ...] | None = None  # the packages of its build; None: not known
    capped: bool = False  # whether the project asks for an older setuptools than the newest


class Observer(Laboratory):
    """Observes the builds of one project, each only once."""

    code, task, unit, store = "setup.py", "observe what setup.py builds", "build", "observations"

    def __init__(self, subject: ObservedProject, outside: Outside, spent: Spent | None = None) -> None:
        super().__init__(subject.tree, outside, LIMITS, spent)
        self.subject = subject
        # The project's folder below the source, such as `python/`, or "".
        self._prefix = "" if subject.folder in {"", "."} else f"{subject.folder}/"
        self.seen: list[tuple[View, Observed]] = []
        self.repeated: set[tuple[object, ...]] = set()  # builds that ran twice, to see whether chance decides
        self.hashes: dict[tuple[object, ...], str] = {}  # of package data
        self.idle: dict[tuple[object, ...], set[str]] = {}  # of each doubt, the questions that do not decide it
        self.stopped: Observed | None = None  # a build that did not end by itself: no other is started

    def observe(self, view: View) -> Observed:
        """Return the observation of a view's build; runs the build only if no earlier run answers for it.

        A build that gets the answers of an earlier one, up to that one's first doubt, meets the same doubt. One is
        enough: what comes after it decides nothing. A doubt that two cells of one system meet, though they answer a
        question differently, is the same for all answers: to take it for that shares no wheel.
        """
        if self.stopped:
            return self.stopped
        for earlier, observed in self.seen:
            idle = self.idle.get(_name_doubt(observed), ()) if earlier.kind == view.kind else ()
            if all(name in idle or view.fact(name) == earlier.fact(name) for name in observed.before):
                return observed
        if not self.spent.spend():
            return Observed({}, doubts={TOO_MANY: ""})
        observed = self._the_same_again(view, self._recall(view))
        for earlier, other in self.seen if observed.doubts else ():
            if _name_doubt(other) == _name_doubt(observed) and kind_of(earlier) == kind_of(view):
                both = (name for name in observed.before if name in other.before)
                differing = {name for name in both if view.fact(name) != earlier.fact(name)}
                if all(name in OF_VERSIONS or is_question(name) for name in differing):
                    self.idle.setdefault(_name_doubt(observed), set()).update(differing)
        self.seen.append((view, observed))
        self.stopped = observed if observed.stopped else None
        return observed

    def _the_same_again(self, view: View, observed: Observed) -> Observed:
        """Return the observation, with a doubt if the build asks for the time or chance and a second run differs."""
        if "chance" not in observed.asked or observed.doubts or observed.failure:
            return observed
        known = view.os, view.machine, view.kind, view.python, view.torch, observed.asked["chance"]
        if known in self.repeated or not self.spent.spend():
            return observed  # the trials of a cell ask in the same line
        self.repeated.add(known)
        again = self._recall(view._replace(chance=True))
        first, second = (one._replace(asked={}, before=(), imports={}) for one in (observed, again))
        if first.without_jobs == second.without_jobs:
            return observed
        doubt = "depends on the time, on chance, or on the processors, memory or distribution of its machine"
        return observed._replace(doubts={doubt: observed.asked["chance"]})

    def _recall(self, view: View) -> Observed:
        # Few builds ask for the version, and it changes with each commit.
        inputs = (self.subject[1:], identify_tools(), view._replace(version=""))
        return parse_answer(self.recall(inputs, partial(self._run, view), view.version).answer, view.python)

    # -- one run

    @cached_property
    def stage(self) -> Stage:
        """The folder in which the builds are observed."""
        return Stage(self.folder / "stage", self.tree.prefix)

    @cached_property
    def prepared(self) -> Prepared:
        """The process that the builds are forked from."""
        return self.open.enter_context(prepare({name: PLUGINS[name] for name in self.subject.plugins}))

    def _run(self, view: View) -> TrialResult:
        """Run the build of a view; return its answer, or why it has none."""
        LOG.debug(
            "observe on %s %s with Python %s and torch %s", view.os, view.machine, view.python, view.torch or "none"
        )
        stage, prepared = self.stage, self.prepared
        stage.set(self.tree, view, lends=self.stores is not None)
        write_driver(stage, view)
        stage.request.write_text(json.dumps(self._request(stage, prepared, view), default=str), encoding="utf-8")
        places = {"HOME": str(stage.home), "TMPDIR": str(stage.scratch)}
        word = secrets.token_hex()
        env = {"PATH": str(stage.tools), "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", **places}
        ended = self.run(
            [*PYTHON, stage.request],
            folder=stage.folder,
            readable=[stage.request, prepared.modules, *readable()],
            env={**env, WORD: word},
            log=self.folder / "log",
            journal=stage.journal,
            server=prepared.server,
        )
        stopped = self.explain_end(ended.verdict)
        answer = None if stopped else read_journal(ended.journal, word)
        if answer is None:
            early = f"setup.py ended Python before the build was done (exit status {ended.status})"
            return TrialResult({"stopped": stopped or early}, stopped=True)
        left = answer.pop("left", {})
        found = {**name_folders_alike(answer, list_folders(stage, prepared)), "wheel": read_wheel(stage, prepared)}
        for member, source in left.items() if found["wheel"] else ():
            found["wheel"].setdefault("members", []).append((member, self._hash(stage, f"{self._prefix}{source}")))
            found["reads"][f"{self._prefix}{source}"] = ""
        return TrialResult(found, found["reads"], view.version if "version" in found["asked"] else None)

    def _request(self, stage: Stage, prepared: Prepared, view: View) -> dict[str, Any]:
        project = stage.source / self.subject.folder
        home = str(stage.accelerator) if view.accelerator else ""
        path = [str(stage.accelerator / "bin")] if home else []
        return {
            "path": [str(prepared.modules), str(prepared.fakes)],
            "root": str(stage.source),
            "project": str(project),
            "prefix": self._prefix,
            "backend": self.subject.backend,
            "backend_path": [str(project / part) for part in self.subject.backend_path],
            "settings": None if self.subject.backend_path else {"--build-option": ["--compression=stored"]},
            "provided": dict(self.subject.provided),
            "wheels": str(stage.wheels),
            "journal": str(stage.journal),
            **OBSERVER_TABLES,
            "facts": self._known(stage, prepared, view),
            "env": {
                "PATH": os.pathsep.join([*path, str(stage.tools)]),
                "HOME": str(stage.home),
                "TMPDIR": str(stage.scratch),
                "LANG": "C.UTF-8",
                "SETUPTOOLS_EXT_SUFFIX": OWN_SUFFIX,
                "FATWHEEL_TORCH_INCLUDE": str(stage.headers),
                **JOB,
                **name_homes(view, home),
                **dict(view.env),
            },
        }

    @cached_property
    def _data(self) -> list[str]:
        """The files, relative to the project, that a build only copies; none if they are few."""
        binaries = {*self.tree.binaries}
        names = [
            name.removeprefix(self._prefix)
            for name in self.tree.files
            if name.startswith(self._prefix) and name not in binaries and not CODE.search(name)
        ]
        return names if len(names) > MIN_DATA else []

    def _hash(self, stage: Stage, name: str) -> str:
        """Return the hash of a file as the build left it."""
        path = stage.source / name
        stat = path.stat()
        key = name, stat.st_mtime_ns, stat.st_size
        if key not in self.hashes:
            self.hashes[key] = record_hash(path.read_bytes())
        return self.hashes[key]

    def _known(self, stage: Stage, prepared: Prepared, view: View) -> dict[str, Any]:
        """Return what the observed build may know of its cell, and the places that it may read."""
        places = (stage.checkout, stage.accelerator, stage.wheels, stage.scratch)
        below = (name for name in self.tree.files if name.startswith(self._prefix))
        return {
            **list_facts(view),
            "accelerator_home": str(stage.accelerator) if view.accelerator else "",
            "capped": self.subject.capped,
            "installed": self.subject.installed,
            "gpu_folder": str(stage.driver),
            **KNOWN,
            "tools_folder": str(stage.tools),
            "python_program": str(stage.tools / "python"),
            "home": str(stage.home),
            "modules": str(prepared.modules),
            "fork_server": str(SERVER),
            "around": str(stage.folder.parent),
            "checkout": f"{stage.checkout}/",
            "tracked": [name.removeprefix(self._prefix) for name in below] if self.tree.checkout else [],
            "data": self._data,
            "simulated": sorted({*SIMULATED, *HARMLESS, *self.subject.plugins}),
            "suffix": OWN_SUFFIX,
            "plugins": [MODULES.get(name, name.replace("-", "_")) for name in self.subject.plugins],
            "folders": list(map(str, places)),
        }


def _name_doubt(observed: Observed) -> tuple[object, ...]:
    """Return what two builds that meet the same doubt have in common, with all that a plan takes from them."""
    return (*observed.doubts.items(), observed.tag, observed.platform, observed.is_pure, observed.failure)
