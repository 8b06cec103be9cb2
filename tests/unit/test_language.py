"""Phrases to avoid are found wherever people read, and in nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.sources import committed, write
from tests.language import phrases

# For each row of the table, a sentence that it is about.
PLANTED = (
    "what is known of the source",
    "it is for Linux alone",
    "the folder, or nothing",
    "a link is no file",
    "a library of ours",
    "it serves whoever asks",
    "every file, be it small",
    "what there is of a unit",
    "the plan lies in a folder",
    "it is read once more",
    "the plan that was foretold",
    "the answer was heard",
    "the owner is told",
    "it removes all else",
    "it stays for ever",
    "the very same file",
    "it is written anew",
    "not built for want of a compiler",
    "it notes what came of each",
    "it is held against its receipt",
    "the tag is none that Python has",
    "the reason is said",
    "Take the plan",
    "Set Python up",
)
CLEAN = "Return the wheels of a plan, newest first; raise InputError if there is none."
IN_PYTHON = {
    "docstring": '"""{}."""\n',
    "docstring of a function": 'def build():\n    """{}."""\n',
    "comment": "x = 1  # {}\n",
    "message": 'raise ValueError("{}")\n',
    "formatted message": 'x = 1\nraise ValueError(f"{} {{x}}")\n',
}
IN_YAML = {
    "step": 'jobs: {{plan: {{steps: [{{name: "{}"}}]}}}}\n',
    "description": 'on: {{workflow_call: {{inputs: {{plan: {{description: "{}"}}}}}}}}\n',
}
IN_MARKDOWN = {
    "paragraph": "# Plans\n\nIt is so.\n\n{}.\n",
    "item": "- {}.\n",
    "cell": "| a | b |\n|---|---|\n| c | {} |\n",
    "wrapped": "A word.\n{}.\n",
}
CODE = {
    "docs/page.md": "```console\n$ echo it is for Linux alone\n```\n\nRun `echo it is for Linux alone`.\n",
    "ci_tools/module.py": '"""Print `it is for Linux alone`."""\n\nalone_is = no = "alone"\n',
    ".github/workflows/wheels.yml": "jobs: {plan: {steps: [{name: Plan, run: echo it is for Linux alone}]}}\n",
    "CHANGELOG.md": "- it is for Linux alone\n",
    "tests/test_module.py": '"""It is for Linux alone."""\n',
}


def find(root: Path, files: dict[str, str]) -> list[phrases.Finding]:
    """Return the phrases in the files of a new repository."""
    committed(write(root, files))
    return list(phrases.find_phrases(root))


def placed(sentence: str, row: phrases.Phrase) -> dict[str, str]:
    """Return files with a sentence in every kind of place that a row of the table is about."""
    files = {f"ci_tools/{name}.py": form.format(sentence) for name, form in IN_PYTHON.items()}
    files |= {f".github/workflows/{name}.yml": form.format(sentence) for name, form in IN_YAML.items()}
    files |= {f"docs/{name}.md": form.format(sentence) for name, form in IN_MARKDOWN.items()}
    of = {"python": "ci_tools/", "steps": ".github/workflows/step", "docs": "docs/"}
    kept = tuple(of[place] for place in row.places) or ("",)
    return {name: text for name, text in files.items() if name.startswith(kept)}


def test_each_row_has_a_sentence() -> None:
    rows = phrases.read_phrases()
    assert len(rows) == len(PLANTED)
    assert [row.pattern.search(sentence) is not None for row, sentence in zip(rows, PLANTED, strict=True)] == [
        True for _ in rows
    ]


@pytest.mark.parametrize(("number", "sentence"), list(enumerate(PLANTED)), ids=PLANTED)
def test_a_phrase_is_found_in_every_place(tmp_path: Path, number: int, sentence: str) -> None:
    row = phrases.read_phrases()[number]
    files = placed(sentence, row)
    found = {finding.where.partition(":")[0] for finding in find(tmp_path, files) if finding.instead == row.instead}
    assert found == set(files)


def test_code_and_other_files_are_not_looked_at(tmp_path: Path) -> None:
    assert find(tmp_path, CODE) == []


def test_plain_sentences_give_nothing(tmp_path: Path) -> None:
    steps = {".github/workflows/clean.yml": "jobs: {plan: {steps: [{name: Download plan}]}}\n"}
    python = {f"ci_tools/{name}.py": form.format(CLEAN) for name, form in IN_PYTHON.items()}
    assert find(tmp_path, python | steps | {"docs/page.md": f"# Plans\n\n{CLEAN}\n"}) == []


def test_a_finding_names_its_line(tmp_path: Path) -> None:
    text = "# Plans\n\nIt is alone.\n\nThe wheel\nis for Linux once\nmore.\n"
    found = find(tmp_path, {"docs/page.md": text})
    assert [finding.where for finding in found] == ["docs/page.md:3", "docs/page.md:6"]


@pytest.mark.parametrize("idiom", ["leave it to stand-alone tools", "all or nothing", "the file is left alone"])
def test_idioms_are_no_findings(tmp_path: Path, idiom: str) -> None:
    assert find(tmp_path, {"docs/page.md": f"{idiom}\n"}) == []
