"""The page of a plan, and of a release: what GitHub makes of it, whatever the names and reasons in it hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ci_tools.addresses import redact
from ci_tools.cli.pages import plan_page, release_page
from ci_tools.errors import InputError
from ci_tools.formats import markdown
from ci_tools.index.units import CORE, Withheld
from ci_tools.model.files import Finding, Level, Outcome, Receipt, Trial, Validated
from ci_tools.model.plan import SDIST, Plan, Skipped
from ci_tools.plan import plan_file
from ci_tools.plan.compare.changes import Side
from ci_tools.plan.compare.comparison import Comparison, compare, empty_comparison
from ci_tools.publish import folder as folders
from ci_tools.publish.folder import Finished
from tests.builders.sources import SCIKIT_BUILD as PROJECT
from tests.builders.sources import demo, plan_of

CONFIG = """\
package: demo
python: ["3.11", "3.12", "3.14t"]
torch: ["2.10", "2.14"]
platforms:
  linux-cuda:
    owner: "@team/cuda"
    native: ["*.cu"]
    cuda: ["12.9", "13.0"]
    archs: ["9.0"]
  windows:
    enabled: false
"""
Outcomes = tuple[Outcome, ...]


class Shown(HTMLParser):
    """What a page shows: its elements in order, its tables as lines of cells, its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ended: list[str] = []
        self.addresses: list[str | None] = []
        self.tables: list[list[list[str]]] = []
        self.text = self.prose = ""
        self.in_cell = False
        self.feed(MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(page))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in {"href", "src"} or name.startswith("on")]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            self.tables[-1][-1].append("")
            self.in_cell = True
        elif tag == "br":
            self.handle_data("\n")

    def handle_endtag(self, tag: str) -> None:
        self.ended.append(tag)
        self.in_cell = self.in_cell and tag not in {"td", "th"}

    def handle_data(self, data: str) -> None:
        self.text += data
        if all(self.tags.count(tag) == self.ended.count(tag) for tag in ("code", "pre")):
            self.prose += data  # in which GitHub looks for names
        if self.in_cell:
            self.tables[-1][-1][-1] += data

    @property
    def shape(self) -> list[tuple[int, ...]]:
        """How many cells each line of each table has."""
        return [tuple(map(len, table)) for table in self.tables]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    files = {"fatwheel.yml": CONFIG, "pyproject.toml": PROJECT, "CMakeLists.txt": "project(demo)\n", "k.cu": ""}
    return plan_of(demo(tmp_path_factory.mktemp("source") / "demo", files))


def finished(plan: Plan, outcomes: Outcomes = (Outcome.PASSED,), *findings: Finding, detail: str = "") -> Finished:
    """Return a release whose every file was audited, and tried at every place with the same outcomes."""
    made = {plan.sdist: SDIST, **{job.wheel: job.name for job in plan.jobs}}
    trials = tuple(Trial(f"trial {number}", outcome, detail) for number, outcome in enumerate(outcomes))
    receipts = {}
    for file, job in made.items():
        places = tuple(Validated(site.name, "key", trials) for site in plan.sites if site.job == job)
        receipts[file] = receipt(file, job, places, tuple(one for one in findings if one.wheel == file))
    return Finished(plan, receipts)


def receipt(file: str, job: str, places: tuple[Validated, ...], findings: tuple[Finding, ...] = ()) -> Receipt:
    return Receipt(
        file=file,
        sha256="0123456789ab" + "c" * 52,
        size=1_234_567,
        project="demo",
        version="1.0",
        job=job,
        source="",
        key="",
        seconds=1.0,
        findings=findings,
        audited=True,
        validated=places,
    )


# ---------------------------------------------------------------- what a page says


def test_a_plan_starts_with_how_many_wheels_serve_how_many_combinations(plan: Plan) -> None:
    assert plan_page(plan).splitlines()[0] == "## demo 1.0: 2 wheels serve 9 of 18 combinations"


def test_wheels_with_the_same_reasons_share_a_line_and_what_gets_none_is_behind_one(plan: Plan) -> None:
    shown = Shown(plan_page(plan))
    wheels, skipped = shown.tables
    assert [line[:2] for line in wheels[1:]] == [["linux-cuda-cu129\nlinux-cuda-cu130\nfor @team/cuda", "9"]]
    assert "one for every Python: no Python symbol declared (pyproject.toml:8: wheel.py-api" in wheels[1][2]
    assert ["switched off by `enabled: false` (fatwheel.yml:10)"] in [line[:1] for line in skipped]
    assert shown.tags.count("details") == shown.ended.count("details") == 1


def test_many_wheels_are_named_by_the_first_and_the_last(plan: Plan) -> None:
    jobs = tuple(replace(plan.jobs[0], name=f"job-{number}", covers=()) for number in range(20))
    assert Shown(plan_page(replace(plan, jobs=jobs, covered=()))).tables[0][1][0].splitlines() == [
        "20 wheels", "job-0", "job-1", "… 17 more …", "job-19", "for @team/cuda",
    ]  # fmt: skip


def test_a_release_shows_each_file_with_its_size_and_hash(plan: Plan) -> None:
    shown = Shown(release_page(finished(plan)))
    assert [line[1:] for line in shown.tables[0][1:]] == [["1.2\xa0MB", "0123456789ab", "✅ good"]] * 3
    assert f"{'0123456789ab' + 'c' * 52}  demo-1.0.tar.gz\n" in shown.text


@pytest.mark.parametrize(
    ("outcomes", "mark"),
    [
        pytest.param((Outcome.PASSED, Outcome.PASSED), "✅", id="all passed"),
        pytest.param((Outcome.PASSED, Outcome.NOT_EXERCISED), "🟡", id="some were not exercised"),
        pytest.param((Outcome.PASSED, Outcome.FAILED), "❌", id="one failed"),
        pytest.param((Outcome.NOT_EXERCISED,), "⚪", id="none was exercised"),
        pytest.param((), "⚪", id="there was nothing to try"),
    ],
)
def test_each_wheel_has_a_mark_for_each_machine(plan: Plan, outcomes: Outcomes, mark: str) -> None:
    tried = Shown(release_page(finished(plan, outcomes))).tables[1]
    assert tried[0] == ["Wheel", "ubuntu-24.04"]
    assert [line[1] for line in tried[1:]] == [f"{mark}\xa03.11"] + [f"{mark}\xa03.11,\xa03.12,\xa03.14t"] * 2


def test_where_nothing_was_recorded_nothing_was_run_and_that_is_said(plan: Plan) -> None:
    release = finished(plan)
    silent = {name: replace(one, validated=()) for name, one in release.receipts.items()}
    shown = Shown(release_page(release._replace(receipts=silent)))
    assert shown.tables[1][2][1] == "⬜\xa03.11,\xa03.12,\xa03.14t"
    assert "no machine has reported on it" in shown.tables[2][1][3]


def test_what_was_not_tried_is_told_with_the_reason(plan: Plan) -> None:
    outcomes = (Outcome.PASSED, Outcome.NOT_EXERCISED)
    shown = Shown(release_page(finished(plan, outcomes, detail="this machine has no GPU")))
    line = ["linux-cuda-cu129\nlinux-cuda-cu130", "trial 1", "ubuntu-24.04, Python 3.11, 3.12, 3.14t"]
    assert [*line, "this machine has no GPU"] in shown.tables[2]
    assert "Not everything could be tried." in shown.text


def test_a_trial_on_a_machine_that_the_plan_does_not_name_is_shown_too(plan: Plan) -> None:
    place = Validated("linux-x86_64, Python 3.13", "key", (Trial("import demo", Outcome.PASSED),))
    wheel = plan.jobs[0]
    shown = Shown(release_page(Finished(plan, {wheel.wheel: receipt(wheel.wheel, wheel.name, (place,))})))
    assert (shown.tables[1][0][2], shown.tables[1][2][2]) == ("linux-x86_64", "✅\xa03.13")


def test_a_wheel_that_is_missing_or_of_other_bytes_is_no_wheel(plan: Plan) -> None:
    first, second = plan.jobs
    shown = Shown(release_page(Finished(plan, {}, frozenset({first.wheel}), (Withheld(CORE, "missing"),))))
    assert [line[3] for line in shown.tables[0][1:]] == [
        "⬜ not built",
        "⛔ no receipt of its present bytes",
        "⬜ not built",
    ]
    assert f"there is no wheel of {second.name}" in shown.text
    assert "Not ready to publish" in shown.text


@pytest.mark.parametrize(
    ("withheld", "sentence"),
    [
        pytest.param((), "✅ Ready to publish: 3 files, each built, audited and good.", id="whole"),
        pytest.param(("linux-rocm",), "🟡 Ready to publish without linux-rocm.", id="without an optional platform"),
        pytest.param((CORE, "linux-rocm"), "⛔ Not ready to publish:", id="without the core"),
    ],
)
def test_the_state_says_whether_it_can_be_published(plan: Plan, withheld: tuple[str, ...], sentence: str) -> None:
    release = finished(plan)._replace(withheld=tuple(Withheld(name, "a reason") for name in withheld))
    shown = Shown(release_page(release))
    assert sentence in shown.text
    assert [line[0] for table in shown.tables for line in table if line[-1] == "a reason"] == list(withheld)


@pytest.mark.parametrize(
    ("platform", "heading", "state"),
    [
        pytest.param("linux-cuda", "2 wheels serve 9 of 12 combinations", "Not ready to publish", id="native"),
        pytest.param("windows", "0 wheels serve 0 of 6 combinations", "There is nothing to build.", id="nothing"),
    ],
)
def test_a_page_of_one_platform_knows_nothing_of_the_rest(
    plan: Plan, platform: str, heading: str, state: str, tmp_path: Path
) -> None:
    (tmp_path / "plan.json").write_text(plan_file.dumps(plan))
    found = folders.read(tmp_path, platform)
    page = plan_page(found.plan) if not found.plan.jobs else release_page(found)
    assert (heading in page, state in page, plan.sdist in page) == (True, True, False)


def test_a_page_of_no_platform_of_the_plan_is_none(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(plan_file.dumps(plan))
    with pytest.raises(InputError, match='the plan has no platform "linux-cudo", did you mean "linux-cuda"'):
        folders.read(tmp_path, "linux-cudo")


# ---------------------------------------------------------------- what failed, and whose it is


def test_a_failing_platform_names_its_owner_first_and_its_log_is_behind_a_line(plan: Plan) -> None:
    page = release_page(finished(plan, (Outcome.FAILED,), detail="Traceback\n::error::boom\nImportError"))
    sdist, platform = page.splitlines()[2:4]
    assert sdist == "- ❌ **sdist failed**: trial 0, sdist on ubuntu-24.04, Python 3.11"
    assert platform.startswith("- ❌ **linux-cuda failed**, owned by @team/cuda: trial 0, linux-cuda-cu129 on ubuntu")
    assert platform.endswith("; and 3 more")
    assert "Traceback\n::error::boom\nImportError\n" in Shown(page).text
    assert not re.search(r"^\s*::", page, re.MULTILINE)


def test_the_findings_are_open_where_one_is_an_error(plan: Plan) -> None:
    wheel = plan.jobs[0].wheel
    for level, start in ((Level.ERROR, "<details open>"), (Level.WARNING, "<details>")):
        finding = Finding(wheel, "fatbinary", level, "it lacks sm_90", "sm_80", "sm_90")
        page = release_page(finished(plan, (Outcome.PASSED,), finding))
        assert f"{start}<summary>Findings: " in page
        assert ["fatbinary", "it lacks sm_90", "sm_80", "sm_90", wheel] in [
            line[1:] for table in Shown(page).tables for line in table
        ]


@pytest.mark.parametrize(
    ("owner", "named"),
    [
        pytest.param("@team/rocm", True, id="a team"),
        pytest.param("@someone", True, id="a user"),
        pytest.param("@team/rocm @everyone", False, id="more than one"),
        pytest.param("@team/a/b", False, id="a path"),
        pytest.param("us", False, id="a word"),
        pytest.param("@-x", False, id="no user"),
        pytest.param("@team/x\n@everyone", False, id="two lines"),
    ],
)
def test_only_an_owner_is_named_so_that_github_tells_them(plan: Plan, owner: str, named: bool) -> None:  # noqa: FBT001
    platforms = tuple(replace(platform, owner=owner) for platform in plan.request.platforms)
    release = finished(replace(plan, request=replace(plan.request, platforms=platforms)), (Outcome.FAILED,))
    page = release_page(release)
    assert ("@" in page) == named
    assert (f"owned by {owner}:" in page) == named


def test_a_plan_tells_nobody(plan: Plan) -> None:
    assert "@" not in plan_page(plan)
    assert "<code>&#64;team&#47;cuda</code>" in plan_page(plan)


# ---------------------------------------------------------------- what strangers may write


def test_a_change_tells_how_many_combinations_gain_a_wheel_and_how_many_lose_theirs(plan: Plan) -> None:
    less = replace(
        plan,
        covered=plan.covered[2:],
        skipped=(*plan.skipped, *(Skipped(one.cell, "a reason") for one in plan.covered[:2])),
    )
    gained, lost = (
        Shown(plan_page(new, compare(Side(old), Side(new), "main"))) for old, new in ((less, plan), (plan, less))
    )
    assert "Combinations: 2 gain a wheel" in gained.text
    assert "Combinations: 2 lose theirs" in lost.text
    assert ["2", "linux-cuda", "no wheel", "a wheel", ""] in [line for table in gained.tables for line in table]
    assert ["2", "linux-cuda", "a wheel", "no wheel", "a reason"] in [line for table in lost.tables for line in table]


def test_a_revision_without_a_plan_is_said(plan: Plan) -> None:
    text = Shown(plan_page(plan, empty_comparison(Side(plan), "main", "fatwheel.yml:1:1: it is broken"))).text
    assert "No plan can be made at main, so there is nothing to compare these 2 jobs with." in text
    assert "fatwheel.yml:1:1: it is broken" in text


# ---------------------------------------------------------------- how long it may be


@pytest.mark.parametrize("most", [200, 700, 2_000, 5_000, 20_000, 100_000])
def test_a_page_is_never_longer_than_there_is_room_and_says_that_it_is_cut(plan: Plan, most: int) -> None:
    findings = (
        Finding(plan.jobs[0].wheel, "é" * 50, Level.ERROR, "x" * 5_000, "é" * 5_000, "|" * 5_000) for _ in range(99)
    )
    release = finished(plan, (Outcome.FAILED,), *findings, detail="line\n" * 10_000)
    page = release_page(release, most=most)
    shown = Shown(page)
    assert len(page.encode()) <= most
    assert page.endswith("all of it.*\n")
    for tag in ("details", "pre", "table"):
        assert shown.tags.count(tag) == shown.ended.count(tag)


def test_a_page_that_fits_is_whole(plan: Plan) -> None:
    page = plan_page(plan)
    assert plan_page(plan, most=len(page.encode()) + 200) == page
    assert "cut here" not in page


def test_a_table_that_is_cut_says_how_many_lines_are_left(plan: Plan) -> None:
    warnings = tuple(f"warning {number}" for number in range(1_000))
    page = plan_page(replace(plan, warnings=warnings), most=10_000)
    left = int(re.findall(r"And (\d+) more", page)[-1])
    assert page.count("⚠️") == 1_000 - left


def test_receipts_of_a_folder_are_read_with_what_is_withheld(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(plan_file.dumps(plan), encoding="utf-8")
    (tmp_path / plan.jobs[0].wheel).write_bytes(b"")
    found = folders.read(tmp_path)
    assert (found.plan, dict(found.receipts), found.unsure) == (plan, {}, frozenset({plan.jobs[0].wheel}))
    assert [one.name for one in found.withheld] == [CORE, "linux-cuda"]


__all__ = ["plan"]  # fixtures


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


@pytest.mark.slow
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


@pytest.mark.slow
@given(lines=st.lists(HOSTILE, min_size=1, max_size=4))
def test_any_output_shows_as_itself_and_starts_no_command(lines: list[str]) -> None:
    page = "<pre>\n" + "".join(map(markdown.output, lines)) + "</pre>\n"
    shown = Shown(page)
    assert shown.tags == ["pre"]
    assert shown.text.split("\n")[1 : len(lines) + 1] == list(map(shown_line, lines))
    assert "::" not in page


PAGES: dict[str, Callable[[Plan, str], str]] = {
    "plan": lambda plan, words: plan_page(said(plan, words)),
    "release": lambda plan, words: release_page(told(plan, words)),
    "change": lambda plan, words: plan_page(plan, changed(plan, words)),
}


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
@given(text=HOSTILE)
def test_whatever_is_said_a_page_has_the_same_elements(page: str, plan: Plan, text: str) -> None:
    usual, hostile = (Shown(PAGES[page](plan, words)) for words in ("x", text.replace("; ", ", ")))
    assert (hostile.tags, hostile.shape, hostile.addresses) == (usual.tags, usual.shape, [])
    assert set(NAME.findall(hostile.prose)) <= ({"@team/cuda"} if page == "release" else set())


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
