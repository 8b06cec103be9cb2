"""The examples in the documents are workflows that run, and call what is there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from ci_tools.doctor.documents import needed_to_publish
from tests.workflows import rules

ROOT = Path(__file__).parents[3]
OURS = rules.project(ROOT)
CALL_IN_A_DOCUMENT = re.compile(r"[\w.-]+/fatwheel/(\.github/workflows/[\w-]+\.yml)@")


def calls_in_documents() -> list[pytest.param]:  # type: ignore[valid-type]
    """Return every job of a document that calls a workflow of ours: the file, the job, and what the example grants."""
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    blocks = [
        (path, text)
        for path in documents
        for text in re.findall(r"```ya?ml\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
    ]
    examples = [(path, yaml.safe_load(text)) for path, text in blocks if CALL_IN_A_DOCUMENT.search(text)]
    return [
        pytest.param(match[1], job.get("permissions", example.get("permissions", {})), job, id=f"{path.stem}-{name}")
        for path, example in examples
        for name, job in example["jobs"].items()
        if (match := CALL_IN_A_DOCUMENT.match(job.get("uses", "")))
    ]


@pytest.mark.parametrize(("name", "granted", "job"), calls_in_documents())
def test_the_examples_in_the_documents_call_what_is_there(
    name: str, granted: Mapping[str, str], job: Mapping[str, dict[str, str]]
) -> None:
    asked = rules.asked(OURS[name], OURS)
    if name.endswith("publish.yml"):  # just what it needs, as far as the job says where it goes
        asked = needed_to_publish(job.get("with", {}), str(job.get("with", {}).get("to", "")).split())
        beside = {} if "to" in job.get("with", {}) else {"contents": "write", "id-token": "write"}
        assert granted.keys() <= asked.keys() | beside.keys()
    inputs = OURS[name].declared("inputs", "workflow_call")
    secrets = job.get("secrets", {})
    assert {
        scope: level for scope, level in asked.items() if rules.RANKS[granted.get(scope, "none")] < rules.RANKS[level]
    } == {}
    assert job.get("with", {}).keys() - inputs.keys() == set()
    assert secrets == "inherit" or secrets.keys() <= OURS[name].declared("secrets", "workflow_call").keys()


# What holds of an example too; what a reader writes of his own (names, timeouts) is left to him.
OF_AN_EXAMPLE = (
    rules.uses_are_pinned,
    rules.workflows_are_given_what_they_take,
    rules.inputs_are_declared,
    rules.needs_are_declared,
    rules.actions_are_given_what_they_take,
    rules.labels_have_a_runner,
    rules.runs_that_wait_are_kept,
    rules.conditions_behind_others_are_said,
    rules.actions_have_the_rights_they_need,
)


# What our own files use of each other, and of others at which commit.
PINS = {text for file in OURS.values() for _, text in rules.uses(file)} | {f"$/{name}" for name in OURS}
WHEELS = """\
on: push
jobs:
  wheels:
    uses: OWNER/fatwheel/.github/workflows/wheels.yml@SHA # vX.Y.Z
"""


def examples_in_documents() -> list[pytest.param]:  # type: ignore[valid-type]
    """Return every workflow that a document shows; a block that begins with `jobs:` adds a job to those before it."""
    found: list[pytest.param] = []  # type: ignore[valid-type]
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        whole = WHEELS
        for block in re.findall(r"```yml\n(.*?)```", path.read_text("utf-8"), re.DOTALL):
            head, _, job = block.partition("jobs:\n")
            if not head:
                whole = f"{WHEELS if job.splitlines()[0] in whole.splitlines() else whole}{job}"
            elif CALL_IN_A_DOCUMENT.search(block):
                whole = block
            else:
                continue
            found.append(pytest.param(whole, id=f"{path.stem}-{len(found)}"))
    return found


@pytest.mark.parametrize("text", examples_in_documents())
def test_an_example_in_the_documents_is_a_workflow_that_runs(text: str, tmp_path: Path) -> None:
    ours = re.sub(r"[\w.-]+/fatwheel/(\S+)@\S+ # vX\.Y\.Z", r"$/\1", text)
    path = tmp_path / "example.yml"
    path.write_text(ours, encoding="utf-8")
    example = rules.File.from_path(path, "example.yml")
    assert rules.findings(example, OURS, *OF_AN_EXAMPLE) == []
    assert {action for _, action in rules.uses(example)} - PINS == set()
