"""The page of a plan, and of a release: what takes longer."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_tools.addresses import redact
from ci_tools.cli.pages import plan_page, release_page
from ci_tools.formats import markdown
from ci_tools.index.units import CORE, Withheld
from ci_tools.model.files import (
    Finding,
    Level,
    Outcome,
    Trial,
    Validated,
)
from ci_tools.plan.compare.changes import Side
from ci_tools.plan.compare.comparison import Comparison, compare
from ci_tools.publish.folder import Finished
from tests.unit.cli.test_pages import Shown, plan, receipt

if TYPE_CHECKING:
    from ci_tools.model.plan import Plan

__all__ = ["plan"]  # fixtures

pytestmark = pytest.mark.slow


PIECES = (
    "|", "`", "```", "<script>alert(1)</script>", "</td></table>", "</details>", "</pre>", "</code>", "<!--", "-->",
    "\n", "\r\n", "\n\n", "\n# title\n", "::error::", "::set-output name=x::y",
    "@everyone", "@team/x", "#1", "${{ x }}",
    "![x](https://evil.invalid/x.png)", "[x](javascript:alert(1))", "www.evil.invalid", "*", "_", "~~", "&lt;", "&#64;",
    "\\", "\\|", "$x$", "- ", "> ", "1. ", "\x1b[2J", "\u202e", "; ", ": ", "é", "x", " ",
)  # fmt: skip


HOSTILE = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), min_size=1, max_size=8).map("".join).filter(bool)


NAME = re.compile(r"[@#]\w[\w/]*")


INVISIBLE = "\u200b"  # what keeps a name from being one


@given(cells=st.lists(HOSTILE, min_size=1, max_size=4))
def test_any_text_in_a_table_shows_as_itself(cells: list[str]) -> None:
    head = markdown.table_head(*("column" for _ in cells))
    texts = Shown(head + markdown.row([markdown.text(cell) for cell in cells]))
    codes = Shown(head + markdown.row([markdown.code(cell) for cell in cells]))
    expected = [re.sub(r" +", " ", shown_line(cell)).strip() for cell in cells]
    assert texts.shape == codes.shape == [(len(cells), len(cells))]
    for shown in (texts, codes):
        told = [re.sub(r"[ \xa0]+", " ", cell.replace(INVISIBLE, "")).strip() for cell in shown.tables[0][1]]
        assert told == [one.replace(INVISIBLE, "") for one in expected]
        assert (set(shown.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "code"}, shown.addresses) == (True, [])


@given(lines=st.lists(HOSTILE, min_size=1, max_size=4))
def test_any_output_shows_as_itself_and_starts_no_command(lines: list[str]) -> None:
    page = "<pre>\n" + "".join(map(markdown.output, lines)) + "</pre>\n"
    shown = Shown(page)
    assert shown.tags == ["pre"]
    assert shown.text.split("\n")[1 : len(lines) + 1] == list(map(shown_line, lines))
    assert "::" not in page


@given(text=HOSTILE)
def test_whatever_a_plan_says_its_page_has_the_same_elements(plan: Plan, text: str) -> None:
    usual, hostile = (Shown(plan_page(said(plan, words))) for words in ("x", text.replace("; ", ", ")))
    assert (hostile.tags, hostile.shape, hostile.addresses) == (usual.tags, usual.shape, [])
    assert NAME.findall(hostile.prose) == []


@given(text=HOSTILE)
def test_whatever_a_release_says_its_page_has_the_same_elements(plan: Plan, text: str) -> None:
    usual, hostile = (Shown(release_page(told(plan, words))) for words in ("x", text.replace("; ", ", ")))
    assert (hostile.tags, hostile.shape, hostile.addresses) == (usual.tags, usual.shape, [])
    assert set(NAME.findall(hostile.prose)) <= {"@team/cuda"}


@given(text=HOSTILE)
def test_whatever_a_change_says_its_page_has_the_same_elements(plan: Plan, text: str) -> None:
    usual, hostile = (Shown(plan_page(plan, changed(plan, words))) for words in ("x", text.replace("; ", ", ")))
    assert (hostile.tags, hostile.shape, hostile.addresses) == (usual.tags, usual.shape, [])
    assert set(NAME.findall(hostile.prose)) <= set()


def shown_line(words: str) -> str:
    """Return what a page shows of these words: all, but for the secret parts of addresses, in one line."""
    return markdown.one_line(redact(words))


def said(plan: Plan, words: str) -> Plan:
    """Return a plan that has these words wherever a plan has any."""
    jobs = [replace(job, owner=words, wheel=words, runner=(words,)) for job in plan.jobs]
    return replace(
        plan,
        project=plan.project._replace(name=words, version=words),
        jobs=(replace(jobs[0], name=words), *jobs[1:]),
        covered=tuple(
            one._replace(reason=words, job=words if one.job == jobs[0].name else one.job) for one in plan.covered
        ),
        skipped=tuple(one._replace(reason=words) for one in plan.skipped),
        warnings=(words,),
    )


def told(plan: Plan, words: str) -> Finished:
    """Return a release of a plan whose trials, findings and parts say these words."""
    job = plan.jobs[0]
    finding = Finding(words, words, Level.ERROR, words, words, words)
    trials = tuple(Trial(words, outcome, words) for outcome in (Outcome.FAILED, Outcome.NOT_EXERCISED))
    made = receipt(job.wheel, job.name, (Validated(f"at {words}".strip(), words, trials),), (finding,))
    return Finished(plan, {job.wheel: made}, withheld=(Withheld(words, words), Withheld(CORE, words)))


def changed(plan: Plan, words: str) -> Comparison:
    """Return how a plan differs from one that says these words."""
    before = replace(plan, jobs=plan.jobs[:1], covered=plan.covered[:1], warnings=())
    after = replace(plan, warnings=(words,))
    return replace(compare(Side(before), Side(after), words), against=words)
