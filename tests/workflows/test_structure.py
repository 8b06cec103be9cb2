"""How the doctor reads workflows, held against GitHub's own parser: events, jobs, needs, conditions and matrices."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ci_tools.doctor.documents import WorkflowDocument, condition_of, is_computed
from ci_tools.doctor.expressions import evaluate, evaluate_condition, truth_of
from ci_tools.doctor.rehearsal.events import Asked
from ci_tools.doctor.rehearsal.rehearse import rehearse, to_json
from ci_tools.doctor.report import Unseen
from ci_tools.doctor.workflow_set import FOLDER, read_set
from tests.workflows.test_expressions import CONTEXTS
from tests.workflows.test_rehearsal import CALLED, CALLERS, text_of

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
EXAMPLES = re.compile(r"^```yml[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOLDED = re.compile(r"if: >-\n((?: {6,}\S.*\n)+)")
# Ways to write a condition, and values that YAML 1.1 and 1.2 read otherwise.
ODD = """\
on: [push, pull_request]
jobs:
  a: { if: false, RUN }
  b: { if: "${{ github.event_name }} == 'x'", RUN }
  c: { if: "${{ false }} ", RUN }
  d: { if: "github.ref == 'it''s' || failure()", RUN }
  e: { if: "'always()' == github.ref", RUN }
  f: { if: ALWAYS(), needs: a, RUN }
  g:
    needs: [a, b]
    if: "${{ github.event_name == 'x' }}\\n"
    strategy: { fail-fast: no, matrix: { python: [3.10, "3.10", 1e1, 0x1F, yes, true, ~], os: [on, 0o7, 012] } }
    runs-on: ubuntu-latest
    steps: [{ run: "true", if: "steps.x.outcome == 'failure'" }, { run: "true", if: "${{ !cancelled() }}" }]
  h: { if: "", RUN }
""".replace("RUN", "runs-on: ubuntu-latest, steps: [{ run: 'true' }]")


def read_files() -> dict[str, str]:
    """Return our workflows, the callers of the rehearsal, every workflow of a page, and the odd one.

    The parser, which is for editors, keeps the indentation and line feeds of a folded condition; runners see none.
    """
    ours = {path.name: path.read_text(encoding="utf-8") for path in (HERE.parents[1] / ".github/workflows").iterdir()}
    ours = {name: FOLDED.sub(lambda found: f"if: {' '.join(found[1].split())}\n", text) for name, text in ours.items()}
    pages = [(page, EXAMPLES.findall(page.read_text(encoding="utf-8"))) for page in sorted(DOCS.rglob("*.md"))]
    shown = {
        f"{page.stem}-{n}.yml": text
        for page, found in pages
        for n, text in enumerate(found)
        if re.search(r"^on:", text, re.MULTILINE) and "\njobs:" in text
    }
    callers = {f"caller-{n}.yml": text_of(caller) for n, caller in enumerate(CALLERS.values())}
    return {**ours, **shown, **callers, "called.yml": CALLED, "odd.yml": ODD}


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[WorkflowDocument, Any]]:
    """Return each file as we read it and as GitHub's parser does."""
    if not (HERE / "node_modules").is_dir() or not shutil.which("node"):
        pytest.skip("the parser is installed by `make lint`")
    folder = tmp_path_factory.mktemp("files")
    files = read_files()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    paths = [str(folder / name) for name in files]
    done = subprocess.run(["node", HERE / "structure.mjs", *paths], capture_output=True, text=True, check=True)
    ours = {name: WorkflowDocument.from_text(text, name) for name, text in files.items()}
    return {name: (ours[name], theirs) for name, theirs in zip(files, json.loads(done.stdout), strict=True)}


def value_of(token: Any) -> Any:  # noqa: ANN401
    """Return a value of the parser's as we read it: an expression as `None`."""
    if not isinstance(token, dict):
        return token
    if token["type"] == 3:
        return None
    if "map" in token:
        return {pair["Key"]: value_of(pair["Value"]) for pair in token["map"]}
    return [value_of(item) for item in token["seq"]]


def plain(value: Any) -> Any:  # noqa: ANN401
    """Return a value of ours without its expressions."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if is_computed(value) else value


def test_events_jobs_needs_calls_and_matrices_are_read_as_github_reads_them(
    read: dict[str, tuple[WorkflowDocument, Any]],
) -> None:
    for name, (ours, theirs) in read.items():
        jobs = [
            (job["id"], job.get("needs") or [], job.get("ref"), value_of(job.get("strategy"))) for job in theirs["jobs"]
        ]
        own = [
            (job, list(ours.needs(job)), value.get("uses"), plain(value.get("strategy")))
            for job, value in ours.jobs.items()
        ]
        assert (name, list(ours.triggers), own) == (name, theirs["events"], jobs)


@pytest.mark.parametrize("is_well", [pytest.param(True, id="all was well"), pytest.param(False, id="one failed")])
def test_conditions_hold_where_those_of_githubs_parser_do(
    read: dict[str, tuple[WorkflowDocument, Any]], *, is_well: bool
) -> None:
    for name, (ours, theirs) in read.items():
        for job in theirs["jobs"]:
            steps = zip(ours.steps_of(job["id"]), job.get("steps", []), strict=True)
            places = [(ours.jobs[job["id"]], job["condition"]), *((one.value, other["if"]) for one, other in steps)]
            for value, token in places:
                theirs_holds = truth_of(evaluate(token["expr"], CONTEXTS, is_well=is_well))
                holds = evaluate_condition(condition_of(value), CONTEXTS, is_well=is_well)
                assert (name, job["id"], token["expr"], holds) == (name, job["id"], token["expr"], theirs_holds)


def test_every_workflow_is_rehearsed_and_what_is_open_has_its_condition() -> None:
    known = read_set({f"{FOLDER}{name}": text for name, text in read_files().items()}, lambda *_: None, "me/mine")
    found = to_json(rehearse(known, lambda *_: Unseen("", ""), Asked()))
    jobs = [job for event in found["events"] for run in event["runs"] for job in run["jobs"]]
    assert len(jobs) > 200
    assert [job["job"] for job in jobs if (job["runs"] is None) != bool(job["condition"])] == []
