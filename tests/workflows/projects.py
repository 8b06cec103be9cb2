"""Small projects of callers, and the workflows by which they call ours."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tests.workflows import harness, records, repositories
from tests.workflows.harness import Event, Run, World
from tests.workflows.repositories import Repository

WORKFLOWS = "fatwheel/fatwheel/.github/workflows"
DOWNLOAD = "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1"
CHECKOUT = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1"
SETUP_PYTHON = "actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97 # v7.0.0"
PYPI = "pypa/gh-action-pypi-publish@dc37677b2e1c63e2034f94d8a5b11f265b73ba33 # v1.14.2"
SIGNING = {"contents": "read", "id-token": "write", "attestations": "write"}
PUBLISHING = {"actions": "read", "attestations": "read", "contents": "write", "id-token": "write"}

CONFIG = """\
package: tiny
python: ["3.12"]
platforms:
  linux-cpu:
publish:
  pypi: wheels
"""
PURE = {
    "fatwheel.yml": CONFIG,
    "pyproject.toml": """\
[build-system]
requires = ["flit_core>=3.9"]
build-backend = "flit_core.buildapi"

[project]
name = "tiny"
version = "1.0"
description = "Tiny."
license = "MIT"
requires-python = ">=3.10"
""",
    "tiny/__init__.py": "ANSWER = 42\n",
}
# A C extension on Linux, and elsewhere the same in Python: the core, and beside it an optional platform of a team's.
NATIVE = {
    "fatwheel.yml": """\
package: tiny
python: ["3.12"]
platforms:
  linux-cpu:
    owner: "@me/speed"
    native: ["csrc/*.c"]
    env: { TINY_FAST: "1" }
  windows:
validate:
  imports: [tiny]
publish:
  pypi: wheels
""",
    "pyproject.toml": """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
""",
    "setup.py": """\
import os

from setuptools import Extension, setup

fast = [Extension("tiny.fast", ["csrc/fast.c"])] if os.environ.get("TINY_FAST") else []
setup(
    name="tiny", version="1.0", license="MIT", python_requires=">=3.10", packages=["tiny"], ext_modules=fast
)
""",
    "MANIFEST.in": "graft csrc\n",
    "tiny/__init__.py": """\
try:
    from tiny.fast import answer
except ImportError:
    def answer():
        return 42
""",
    "csrc/fast.c": """\
#include <Python.h>

static PyObject *answer(PyObject *self, PyObject *none) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, 0}, {0}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", 0, -1, methods};
PyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&module); }
""",
}


class Job(NamedTuple):
    """A job of a caller's workflow: the keys of its YAML."""

    name: str
    text: str


def call(name: str, workflow: str = "wheels.yml", *, needs: str = "", **given: str | bool) -> Job:
    """Return a job that calls a workflow of ours."""
    publishes = workflow != "wheels.yml"
    grants = {**(PUBLISHING if publishes else {}), **(SIGNING if workflow != "publish.yml" else {})}
    grants["contents"] = "write" if publishes else "read"
    keys = {"name": name.title(), "needs": needs, "permissions": grants, "uses": f"{WORKFLOWS}/{workflow}@PIN"}
    keys |= {"with": {key.replace("_", "-"): value for key, value in given.items()}}
    return Job(name, json.dumps({key: value for key, value in keys.items() if value}))


def steps(name: str, *texts: str, needs: str = "", more: str = "") -> Job:
    """Return a job of steps, each as YAML."""
    body = textwrap.indent("".join(f"- {textwrap.indent(text.strip(), '  ')[2:]}\n" for text in texts), "  ")
    keys = f"name: {name.title()}\nruns-on: ubuntu-24.04\n{f'needs: {needs}' if needs else ''}\n{more}\nsteps:\n{body}"
    return Job(name, "\n" + textwrap.indent(keys, "    "))


def say(name: str, needs: str) -> Job:
    """Return a job that prints what the job before it hands on."""
    return steps(name, f'run: echo "$OUTPUTS"\nenv:\n  OUTPUTS: ${{{{ toJSON(needs.{needs}.outputs) }}}}', needs=needs)


def plan_all(name: str, ours: Repository, calls: Mapping[str, Mapping[str, str]]) -> Job:
    """Return a job that does the step of wheels.yml that plans, with the inputs of each of some calls, by their names.

    One checkout serves them all. A call of its own for each takes a job with all the steps before this one.
    """
    file = ours.files[".github/workflows/wheels.yml"]
    (plan,) = (step.value for step in file.steps if step.value["name"] == "Plan")
    defaults = {name: value["default"] for name, (_, value) in file.declared("inputs").items()}
    setup = "uses: fatwheel/fatwheel/.github/actions/setup@PIN"
    each = (_plan(call, plan, {**defaults, **given}) for call, given in calls.items())
    return steps(name, f"uses: {CHECKOUT}\nwith:\n  fetch-depth: 0\n  persist-credentials: false", setup, *each)


def _plan(name: str, plan: Mapping[str, Any], inputs: Mapping[str, object]) -> str:
    """Return the step that plans as it is where its workflow has these inputs; it runs whatever failed before it."""

    def value_of(match: re.Match[str]) -> str:
        value = inputs[match[1]]
        return str(value).lower() if isinstance(value, bool) else str(value)

    env = {key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", value_of, str(value)) for key, value in plan["env"].items()}
    return json.dumps({"name": name, "if": "${{ !cancelled() }}", "shell": "bash", "run": plan["run"], "env": env})


def pypi(needs: str) -> Job:
    """Return the job that publishes to PyPI in the caller's own file."""
    take = f"uses: {DOWNLOAD}\nwith:\n  name: fatwheel-pypi\n  path: dist"
    gate = f"if: ${{{{ needs.{needs}.outputs.pypi == 'true' }}}}\npermissions:\n  id-token: write"
    return steps("pypi", take, f"uses: {PYPI}", needs=needs, more=gate)


def workflow(on: str, *jobs: Job) -> str:
    """Return a workflow file of the caller's; `on` is what starts it, as YAML."""
    body = "".join(f"  {name}: {text}\n" for name, text in jobs)
    return f"name: Main\non:\n  {on}:\npermissions: {{}}\njobs:\n{body}"


def caller(
    folder: Path, ours: Repository, on: str, *jobs: Job, files: Mapping[str, str] = PURE, tag: str = ""
) -> Repository:
    """Make a caller's repository, whose workflow main.yml has some jobs and names ours by its commit."""
    text = workflow(on, *jobs).replace("PIN", ours.pin)
    return repositories.make_repository(
        folder, name="me/mine", files={".github/workflows/main.yml": text, **files}, tag=tag
    )


def ran(
    home: Path,
    ours: Repository,
    *jobs: Job,
    event: Event | None = None,
    files: Mapping[str, str] = PURE,
    world: World | None = None,
    tag: str = "",
) -> Run:
    """Run a caller's workflow on an event, by default a push."""
    event = event or Event.push()
    mine = caller(home / "caller", ours, event.name, *jobs, files=files, tag=tag)
    return harness.run("main.yml", event, home / "run", mine, ours, world=world)


def below(run: Run, name: str) -> Run:
    """Return the part of a run that one job of the caller's called, by the name of that job."""
    return replace(run, jobs=tuple(job for job in run.jobs if job.path.startswith(f"{name}/")))


def worked(run: Run, name: str) -> records.Job:
    """Return the one job of a name that had steps to run; one that calls a workflow has none of its own."""
    (found,) = (job for job in run.jobs if job.name == name and job.steps)
    return found


def held(run: Run, artifact: str) -> set[str]:
    """Return the files that an artifact holds, those in folders by their paths."""
    folder = run.artifacts / artifact
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def told(run: Run, job: str = "Tell") -> dict[str, str]:
    """Return the outputs that a job printed which `say` made; it prints nothing where a job before it failed."""
    printed = run.job(job).log
    assert printed, run.log
    return dict(json.loads(printed))
