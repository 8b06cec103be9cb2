"""Observes what a setuptools project builds for a cell: its code runs confined, on a copy, and compiles nothing.

Every question that the code asks about its machine is answered for the cell and recorded. Cells with the same answers
to all recorded questions get the same build, so one run stands for all of them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.catalog import STANDARD_LIBRARY, TORCH_NAMES
from ci_tools.errors import InputError
from ci_tools.evidence.observe import journal
from ci_tools.evidence.observe.observation import Observed, name_folders_alike, parse_answer, read_wheel
from ci_tools.evidence.observe.prepared import PYTHON, Prepared, prepare
from ci_tools.evidence.observe.stage import PROGRAMS, TOOLS, Stage, choose_place, identify_tools, readable
from ci_tools.evidence.observe.torch_questions import answer_question, is_question
from ci_tools.machine.sandbox import Limits, Verdict, run_in_sandbox, why_not
from ci_tools.machine.sandbox.groups import SERVER
from ci_tools.machine.sandbox.leftovers import clear, read_safely
from ci_tools.machine.seals import read_key, seal, unseal
from ci_tools.machine.search_path import compiler_variables
from ci_tools.machine.storage import write_atomically
from ci_tools.machine.workplace import workplace
from ci_tools.model.evidence import OWN_SUFFIX
from ci_tools.model.files import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ci_tools.evidence.source import Tree
    from ci_tools.machine.context import Outside, Step
    from ci_tools.model.platforms import Accelerator
    from ci_tools.model.versions import Python

__all__ = ["HARMLESS", "PLUGINS", "SIMULATED", "SUPPOSED", "Observer", "Subject", "View"]

LOG = logging.getLogger(__name__)

# Build requirements that the observed code can do without, or that have a fake.
SIMULATED = frozenset(
    # ruff: noqa: SIM905 - as words they fit on a page
    "cmake cython ninja numpy oldest-supported-numpy packaging pip psutil pybind11 setuptools toml tomli torch "
    "wheel".split()
)
# Requirements that add nothing to a wheel except its version, or a file with it.
HARMLESS = frozenset(
    "build click dunamai pytest-runner requests setuptools-git-versioning setuptools-scm six tqdm typing-extensions "
    "versioningit".split()
)
# Requirements with a fake that is there only where the project requires it, and the entry points by which setuptools
# finds what they add to it.
PLUGINS: Mapping[str, Mapping[str, str]] = {
    "cffi": {"distutils.setup_keywords": "cffi_modules = cffi:cffi_modules"},
    "cppy": {},
    "pkgconfig": {},
    "setuptools-rust": {
        "distutils.setup_keywords": "rust_extensions = setuptools_rust:rust_extensions",
        "setuptools.finalize_distribution_options": "setuptools_rust = setuptools_rust:read_project",
    },
    "setuptools-scm": {
        "setuptools.file_finders": "setuptools_scm = scm_files:find_files"
    },  # its version is the release's
    "versioneer": {},
}
LIMITS = Limits(seconds=60, memory=2 << 30, processes=64, written=2 << 30)
SUPPOSED = "supposed:"  # see inside/facts.py
WORD = "FATWHEEL_WORD"  # the observer removes it from its variables before the project's code runs
JOB = {"CMAKE_BUILD_PARALLEL_LEVEL": "1", "MAX_JOBS": "1", "SOURCE_DATE_EPOCH": str(EPOCH)}  # every job sets these
MOST_KEPT = 256 << 20  # bytes
ENDED_EARLY = {
    Verdict.TIMED_OUT: f"setup.py computes or waits for over {LIMITS.seconds} seconds",
    Verdict.OUT_OF_MEMORY: f"setup.py took over {LIMITS.memory >> 30} GiB of memory",
    Verdict.TOO_MANY_PROCESSES: f"setup.py started over {LIMITS.processes} processes",
    Verdict.TOO_MUCH_WRITTEN: f"setup.py wrote over {LIMITS.written >> 30} GiB",
}


class View(NamedTuple):
    """All facts that one build is given and may depend on."""

    os: str
    machine: str
    python: Python
    torch: str = ""  # 2.10.0+cu130
    accelerator: Accelerator | None = None
    capability: str = ""  # of the GPU, if any
    env: tuple[tuple[str, str], ...] = ()
    nccl: str = ""  # the version that torch brings, where it is known
    oneapi: str = ""  # the version of icpx that the torch of an XPU build is for, where it is known
    torch_names: str = ""  # whose names in the table it has, see torch_questions; empty: nobody knows them
    gpu: bool = False
    chance: bool = False  # whether this is the second run: at a later time, with more processors
    supposed: tuple[str, ...] = ()  # questions about the builder whose answer is yes; to all others it is no
    version: str = ""  # that the project's own tool says, where it was asked

    def fact(self, name: str) -> object:
        """Return the answer to a question that a build asked."""
        variables = {**_homes(self, "a toolkit"), **dict(self.env)}
        if name.startswith("env:"):
            return variables.get(name.removeprefix("env:"))
        if name.startswith(SUPPOSED):
            return name.removeprefix(SUPPOSED) in self.supposed
        if is_question(name):
            return answer_question(self.torch_names, name)
        answers: dict[str, object] = {
            "env": variables,
            "python": self.python.version,
            "free_threaded": self.python.free_threaded,
            **dict.fromkeys(("cuda", "hipify"), self.accelerator),
            **dict.fromkeys(("cmake", "get_tag", "git")),  # no questions: that they were run is noted among them
        }
        return answers[name] if name in answers else getattr(self, name)


class Subject(NamedTuple):
    """The observed project."""

    tree: Tree
    folder: str  # of the project, below the tree's root
    backend: str
    backend_path: tuple[str, ...]
    provided: tuple[tuple[str, tuple[str, ...] | None], ...]  # requirements without a fake, and their modules if known
    plugins: tuple[str, ...] = ()  # those of PLUGINS that it requires
    capped: bool = False  # whether the project asks for an older setuptools than the newest


class Observer:
    """Observes the builds of one project, each only once."""

    def __init__(self, subject: Subject, outside: Outside) -> None:
        self.subject = subject
        self.outside = outside
        self.seen: list[tuple[View, Observed]] = []
        self.runs = 0
        self.shown = ExitStack()  # the step that the user sees once something runs
        self.counted = 0, 0  # cells known, and cells in total
        self.step: Step | None = None
        self.stage: Stage | None = None
        self.prepared: Prepared | None = None
        self.sealing = read_key(outside.environ)
        self.said = False
        self.stopped: Observed | None = None  # a build that did not end by itself: no other is started

    def close(self) -> None:
        """End the step that the user sees, if there is one."""
        if self.step:
            self.step.result(f"{self.runs} build{'' if self.runs == 1 else 's'}")
        self.shown.close()

    def count(self, known: int, total: int) -> None:
        """Show how many cells are known."""
        self.counted = known, total
        if self.step:
            self.step.count(known, total, "cells")

    def observe(self, view: View) -> Observed:
        """Return the observation of a view's build; runs the build only if no earlier run answers for it.

        A build that gets the answers of an earlier one, up to that one's first doubt, meets the same doubt. One is
        enough: what comes after it decides nothing.
        """
        if self.stopped:
            return self.stopped
        for earlier, observed in self.seen:
            if all(view.fact(name) == earlier.fact(name) for name in observed.before):
                return observed
        observed = self._the_same_again(view, self._load_or_run(view))
        self.seen.append((view, observed))
        self.stopped = observed if observed.stopped else None
        return observed

    def _the_same_again(self, view: View, observed: Observed) -> Observed:
        """Return the observation, with a doubt if the build asks for the time or chance and a second run differs."""
        if "chance" not in observed.asked or observed.doubts or observed.failure:
            return observed
        again = self._load_or_run(view._replace(chance=True))
        first, second = (one._replace(asked={}, before=(), imports={}) for one in (observed, again))
        if first.without_jobs == second.without_jobs:
            return observed
        doubt = "depends on the time, on chance, or on the processors or memory of its machine"
        return observed._replace(doubts={doubt: observed.asked["chance"]})

    def _load_or_run(self, view: View) -> Observed:
        """Return the observation that an earlier plan stored, or run the build and store its observation."""
        name = self._key(view)
        path = self.outside.cache.resolve() / "observations" / f"{name}.json"
        kept = read_safely(path, MOST_KEPT)
        entry = unseal(name, kept, self.sealing) if kept is not None else None
        is_current = (
            entry is not None
            and self._states(entry["states"]) == entry["states"]
            and entry["version"] in (None, view.version)
        )
        LOG.debug("cache %s: %s", "hit" if is_current else "miss", path)
        if entry is not None and is_current:
            return parse_answer(entry["answer"], view.python)
        self._say_once(f"{path} was not written by this user" if kept is not None and entry is None else "")
        answer = self._run(view)
        if "stopped" not in answer:  # not stored: next time the machine may have more resources free
            with write_atomically(path) as file:
                version = view.version if "version" in answer["asked"] else None
                entry = {"answer": answer, "states": self._states(answer["reads"]), "version": version}
                file.write(seal(name, entry, self.sealing))
        return parse_answer(answer, view.python)

    def _states(self, names: Iterable[str]) -> dict[str, str]:
        """Return the states of files that an observed build has read or looked at."""
        return {name: self.subject.tree.state(name) for name in sorted(names)}

    def _say_once(self, what: str) -> None:
        """Report once why a build is observed again: a cache that another user filled has many such files."""
        if what and not self.said:
            self.said = True
            self.outside.reporter.say(f"{what}, so setup.py is observed again")

    def _key(self, view: View) -> str:
        subject = self.subject
        # Asking for the files' states reads them, before anything is copied.
        view = view._replace(version="")  # few builds ask for it, and it changes with each commit
        source = (subject.tree.listing, bool(subject.tree.checkout), subject[1:])
        inputs = (*source, identify_tools(), view, self.outside.trusts_source and why_not())
        return hashlib.sha256(repr(inputs).encode()).hexdigest()

    # -- one run

    def _run(self, view: View) -> dict[str, Any]:
        if not self.outside.trusts_source and (reason := why_not()):
            msg = f"setup.py must run to show what it builds, and this machine cannot confine it: {reason}"
            hint = "--trust-source runs it without confinement: use it only for a source that you trust"
            raise InputError(msg, hint=hint, page="explanation/evidence.md#what-confinement-guarantees")
        if self.step is None:
            self.step = self.shown.enter_context(self.outside.reporter.step("observe what setup.py builds"))
            self.count(*self.counted)
        self.runs += 1
        LOG.debug(
            "observe on %s %s with Python %s and torch %s", view.os, view.machine, view.python, view.torch or "none"
        )
        if self.stage is None:
            place = choose_place(self.subject.tree, LIMITS.written, self.outside)
            folder = self.shown.enter_context(workplace(place, clear))
            self.stage = Stage(folder.resolve() / "stage", self.subject.tree.prefix)
        if self.prepared is None:
            plugins = {name: PLUGINS[name] for name in self.subject.plugins}
            self.prepared = self.shown.enter_context(prepare(plugins))
        stores = self.subject.tree.list_stores(self.outside.cache)
        self.stage.set(self.subject.tree, view.accelerator, view.oneapi, lends=stores is not None)
        return self._ran(self.stage, self.prepared, view, stores or ())

    def _ran(self, stage: Stage, prepared: Prepared, view: View, stores: Iterable[Path]) -> dict[str, Any]:
        stage.request.write_text(json.dumps(self._request(stage, prepared, view)), encoding="utf-8")
        log = stage.folder.parent / "log"
        places = {"HOME": str(stage.home), "TMPDIR": str(stage.scratch)}
        word = secrets.token_hex()
        env = {"PATH": str(stage.tools), "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", **places}
        ended = run_in_sandbox(
            [*PYTHON, stage.request],
            folder=stage.folder,
            readable=[stage.request, prepared.modules, *stores, *readable()],
            env={**env, WORD: word},
            log=log,
            limits=LIMITS,
            trusted=bool(why_not()),
            journal=stage.journal,
            server=prepared.server,
        )
        if ended.verdict in ENDED_EARLY:
            return {"stopped": ENDED_EARLY[ended.verdict]}
        answer = journal.read(ended.journal, word)
        if answer is None:
            return {"stopped": f"setup.py ended Python before the build was done (exit status {ended.status})"}
        return {**name_folders_alike(answer, stage, prepared), "wheel": read_wheel(stage, prepared)}

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
            "standard_library": str(STANDARD_LIBRARY),
            "torch_names": str(TORCH_NAMES),
            "facts": self._known(stage, prepared, view),
            "env": {
                "PATH": os.pathsep.join([*path, str(stage.tools)]),
                "HOME": str(stage.home),
                "TMPDIR": str(stage.scratch),
                "LANG": "C.UTF-8",
                "SETUPTOOLS_EXT_SUFFIX": OWN_SUFFIX,
                "FATWHEEL_TORCH_INCLUDE": str(stage.headers),
                **JOB,
                **_homes(view, home),
                **dict(view.env),
            },
        }

    @property
    def _prefix(self) -> str:
        """The project's folder below the source, such as `python/`, or ""."""
        return "" if self.subject.folder in {"", "."} else f"{self.subject.folder}/"

    def _known(self, stage: Stage, prepared: Prepared, view: View) -> dict[str, Any]:
        """Return what the observed build knows of its cell, and of the places that it may read."""
        places = (stage.checkout, stage.accelerator, stage.wheels, stage.scratch)
        return {
            **_facts(view),
            "accelerator_home": str(stage.accelerator) if view.accelerator else "",
            "capped": self.subject.capped,
            "tools": sorted(TOOLS),
            "programs": sorted(PROGRAMS),
            "tools_folder": str(stage.tools),
            "python_program": str(stage.tools / "python"),
            "home": str(stage.home),
            "modules": str(prepared.modules),
            "fork_server": str(SERVER),
            "around": str(stage.folder.parent),
            "checkout": f"{stage.checkout}/",
            "tracked": _list_tracked(self.subject.tree, self._prefix),
            "simulated": sorted({*SIMULATED, *HARMLESS, *self.subject.plugins}),
            "suffix": OWN_SUFFIX,
            "plugins": [name.replace("-", "_") for name in self.subject.plugins],
            "folders": list(map(str, places)),
        }


def _list_tracked(tree: Tree, folder: str) -> list[str]:
    """Return the files of a project's folder, relative to it, that git has in the copy of a checkout."""
    return [name.removeprefix(folder) for name in tree.files if name.startswith(folder)] if tree.checkout else []


def _facts(view: View) -> dict[str, Any]:
    kind = (
        {"kind": str(view.accelerator.kind), "version": str(view.accelerator.version or "")}
        if view.accelerator
        else None
    )
    return {
        "os": view.os,
        "machine": view.machine,
        "python": str(view.python.version),
        "free_threaded": view.python.free_threaded,
        "torch": view.torch,
        "accelerator": kind or {"kind": "", "version": None},
        "nccl": view.nccl,
        "oneapi": view.oneapi,
        "torch_names": view.torch_names,
        "gpu": view.gpu,
        "capability": view.capability,
        "chance": view.chance,
        "supposed": view.supposed,
        "version": view.version,
    }


def _homes(view: View, home: str) -> dict[str, str]:
    """Return the variables that a job sets for its accelerator: its home folder, and its compilers' settings."""
    names = {"cuda": "CUDA_HOME", "rocm": "ROCM_HOME", "xpu": "CMPLR_ROOT"}
    return {names[str(view.accelerator.kind)]: home, **compiler_variables(view.accelerator)} if view.accelerator else {}
