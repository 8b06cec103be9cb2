"""docs/reference/plan.md: every key of plan.json."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder
from ci_tools.model.request import STABLE
from ci_tools.plan import make, plan_file
from docs.pages import REPOSITORY
from docs.pages.markdown import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_tools.plan.make import Planned


PLAN = """\
# plan.json

What `fatwheel plan --format json` prints and `fatwheel plan --out plan.json` writes: one JSON object. The same request,
source and catalog give the same text on every machine. Every cell is in exactly one of `covered` and `skipped`."""

CELL = {
    "platform": "its platform",
    "accelerator": "the label of its accelerator, `cu130`; empty where the platform has none",
    "torch": "its torch, empty where the request names none",
    "python": "its Python",
}
PLAN_KEYS: Mapping[str, Mapping[str, str]] = {
    "The plan": {
        "schema": "the version of this format",
        "request": (
            "the config, checked and with its defaults filled in; `run` is what this run asked in its place, and "
            "`catalog` has the project's own rows"
        ),
        "pins": "what the plan was made from",
        "project": "what the source says of the project",
        "edition": "which release of the version it is",
        "cells": "how many cells were asked for",
        "jobs": "the wheels to build",
        "sdist": "the file name of the sdist; null where a run adds wheels to a release",
        "covered": "each cell that a job serves",
        "skipped": "each cell that gets no wheel",
        "warnings": "facts that could not be known, one sentence each",
        "validate": "each place where a file is tried, and what must work there",
        "publish": "for each target, the files that go there",
    },
    "pins": {
        "source_sha256": "one hash of every file of the source",
        "commit": "the source's git commit; null where there is none",
        "catalog_sha256": "one hash of the catalog, with the rows that the project adds",
        "fatwheel": "the version of Fatwheel",
        "config_commit": "the commit of the config's repository if the source is fetched; null otherwise",
    },
    "project": {
        "name": "its name",
        "version": "its version",
        "requires_python": "the Pythons it admits",
        "backend": "its build backend (PEP 517)",
        "where": "the file and line where `requires_python` was read",
        "told": "the answer of the project's own tool about the version, which builds get; empty if a file states it",
        "told_tag": "the template of a tag that gives it to them, where no variable does",
        "hides_git": "whether builds see no repository, as the version has a label where they do",
    },
    "edition": {
        "channel": "`stable`, `test` or `nightly`; null for a commit without the tag of its version",
        "candidate": "the N of a tag that ends in `-rcN`, or null",
        "date": "of a nightly, `20261121`; or null",
    },
    "jobs": {
        "name": "what `fatwheel build --job` takes: the axes that stay, or `pure`",
        "kind": "`pure` or `native`",
        "platform": "the platform, null for the pure wheel",
        "python": "the oldest Python it serves",
        "python_stays": "whether its wheel is for that very Python",
        "torch": "the torch whose headers it is built with, or null",
        "exact_torch": "the whole version of that torch where a name of the release has it, or null",
        "accelerator": "`kind`, `version`, `label` and `archs`, or null",
        "runner": "the label of the runner that builds it, or a list of labels",
        "container": "the image it is built in, or null",
        "owner": "who looks after the native code, or null",
        "required": "whether nothing of the release appears without it",
        "wheel": "the expected file name",
        "local": "the local version that it is given",
        "public": "the file name of its twin without a local version, for PyPI; or null",
        "wheel_platform": "its platform tag",
        "libraries": "the libraries it is to hold, each with its device images; null: not known",
        "members": "what is to be in it besides dist-info; null: not known",
        "spared": "libraries that its package does without on a torch older than this, each with that torch",
        "requires_torch": "what its requirement of torch is narrowed to; empty: as the project says",
        "toolchain": "where the compiler comes from: `system`, `pypi`, `redist` or `auto`",
        "env": "the environment variables of the build, with the switches that its kernels need",
        "build_requires": "what its build imports and the project does not name as a requirement",
        "drops": "the names of requirements that neither its build nor its wheel gets (`build: drop`)",
        "care": "what its runner gets: `free_disk`, `swap_gib`, and `job_memory_gib` for each compiler, or null",
        "minutes": "how long its build may take",
        "batch": "the jobs of the same name here are built in turn by one runner; empty: it has a runner to itself",
        "shards": "how many runners compile it together, before one links it; 1: a single one builds it",
        "covers": "the cells it serves",
        "folder": "the folder of an index for its wheel; empty: every folder lists it",
        "also": "the other folders that list it",
    },
    "covered": {
        "cell": "the cell, such as `linux-cuda / cu130 / torch2.10 / cp312`",
        **CELL,
        "job": "the job whose wheel serves it",
        "reason": "why that wheel does, with the places in the source that show it",
    },
    "skipped": {"cell": "the cell", **CELL, "reason": "why it gets no wheel"},
    "validate": {
        "name": "what `fatwheel validate --site` takes",
        "job": "the job that makes what is tried there, or `sdist`",
        "files": "what is tried; of the sdist's, itself and the wheel that it is to give",
        "platforms": "the platforms whose users it stands for",
        "python": "the Python that it is installed into",
        "runner": "the label of the runner, or a list of labels",
        "gpu": "whether that runner has a GPU",
        "torch": "the exact torch to install first, or null",
        "torch_index": "the index that torch comes from; null: pip's own",
        "requires": "what is installed beside what is tried",
        "imports": "the modules that must import; null: those that the wheel's own files name",
        "commands": "the commands that must succeed, each with `run` and `needs_gpu`",
        "timeout_seconds": "seconds for each command",
        "gpu_trial": "whether a release waits until its CUDA wheels were tried on a GPU: optional or required",
    },
    "publish": {"target": "the target", "files": "the file names"},
}
MORE_CELLS = 2  # how many of a job's cells the example shows


def describe() -> Iterator[str]:
    """Describe every key of the plan, and show a job of the reference package's."""
    plan = plan_file.to_json(plan_reference_package().plan)
    yield PLAN
    for title, meanings in PLAN_KEYS.items():
        refuse_difference(title, meanings, plan if title == "The plan" else plan[title])
        yield from ("", f"## {title}")
        yield from table(("key", "meaning"), ((f"`{key}`", meaning) for key, meaning in meanings.items()))
    yield from (
        "",
        "## An example",
        "",
        "One job of [the reference package](../../package/fatwheel.yml):",
        "",
        "```json",
    )
    yield json.dumps(shorten(plan["jobs"][-1]), indent=1, ensure_ascii=False)
    yield "```"


def plan_reference_package() -> Planned:
    """Plan the package that this repository releases, as a stable version."""
    outside = Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    return make.make_plan(REPOSITORY / "package" / "fatwheel.yml", outside, edition=STABLE)


def refuse_difference(title: str, meanings: Mapping[str, str], found: Any) -> None:  # noqa: ANN401 - JSON
    """Refuse a description that is not of the keys a plan, or evidence, has."""
    keys = found[0] if isinstance(found, list) else found
    if list(keys) != list(meanings):
        raise ValueError(f"{title} is described with {', '.join(meanings)}, expected {', '.join(keys)}")


def shorten(value: dict[str, Any], key: str = "covers") -> dict[str, Any]:
    """Return an object with the first cells of one key only, and how many more there are."""
    first, more = value[key][:MORE_CELLS], len(value[key]) - MORE_CELLS
    return {**value, key: [*first, f"… and {more} more"]}
