"""What the results of jobs say of recipes and platforms."""

from __future__ import annotations

from datetime import datetime, timezone
from xml.etree import ElementTree as ET

import pytest

from ci_tools.doctor.runs import RepositoryRun, RunJob, RunOutcome
from ci_tools.publish.retention.judgement import Stored
from ci_tools.publish.retention.tags import Naming, Retention
from ci_tools.recipes.health import KnownConfig, Line, Result, Summary, list_lines, summarize, write_badge, write_page

GOOD, BAD, RUNNING, NONE = RunOutcome.GOOD, RunOutcome.BAD, RunOutcome.RUNNING, RunOutcome.NONE
RECIPE = KnownConfig(
    Naming("demo", "{package}-v{version}-py{python}-cu{cuda}", "Demo", Retention()), {"linux-cuda": "@o/gpu"}
)
CONFIG = KnownConfig(
    Naming("own", "v{version}", "Own", Retention()), {"linux-cuda": "@o/cuda", "linux-cpu": "", "windows": ""}
)


def run(
    day: int, *jobs: tuple[str, RunOutcome], outcome: RunOutcome = GOOD, workflow: str = "recipes.yml"
) -> RepositoryRun:
    when = datetime(2026, 11, day, tzinfo=timezone.utc)
    found = tuple(RunJob(name, result, f"https://github.com/{day}/{name}") for name, result in jobs)
    return RepositoryRun(workflow, day, when, outcome, f"https://github.com/{day}", found)


def lines(*runs: RepositoryRun, package: str = "own") -> dict[tuple[str, str], Line]:
    found = list_lines(sorted(runs, key=lambda one: one.when, reverse=True), [CONFIG, RECIPE], (), package)
    return {(line.name, line.part): line for line in found}


@pytest.mark.parametrize(
    ("job", "part"),
    [
        pytest.param("Build demo-v1.0-py314t-cu130", ("demo", "Python 3.14t, CUDA 13.0"), id="recipe"),
        pytest.param("Recipes / Build demo-v1.1-py314t-cu130-r2", ("demo", "Python 3.14t, CUDA 13.0"), id="called"),
        pytest.param("Build linux-cuda-cu130-cp313", ("own", "linux-cuda"), id="platform"),
        pytest.param("GPU / Wheels / Validate linux-cuda-aarch64-cu130", ("own", "linux-cuda-aarch64"), id="longest"),
        pytest.param("Validate windows (2)", ("own", "windows"), id="with-a-number"),
        pytest.param("Build pure", ("own", "pure"), id="for-several-platforms"),
    ],
)
def test_the_name_of_a_job_says_what_it_built(job: str, part: tuple[str, str]) -> None:
    assert [*lines(run(1, (job, GOOD)))] == [part, ("recipes.yml", "")]


@pytest.mark.parametrize("job", ["Plan", "Publish", "Build ${{ matrix.name }}", "Rebuild x", "Build", ""])
def test_other_jobs_count_for_their_workflow_alone(job: str) -> None:
    assert [*lines(run(1, (job, BAD)))] == [("recipes.yml", "")]


def test_one_failing_job_of_a_platform_makes_its_run_a_failure() -> None:
    line = lines(run(1, ("Build windows", GOOD), ("Validate windows", BAD), ("Build linux-cpu", GOOD)))[
        "own", "windows"
    ]
    assert [one.outcome for one in line.results] == [BAD]
    assert line.results[0].page.endswith("Validate windows")


def test_a_line_has_its_past_and_what_is_not_known_yet_says_nothing() -> None:
    past = [GOOD, BAD, NONE, RUNNING]
    line = lines(*(run(day, ("Build windows", result)) for day, result in enumerate(past, 1)))["own", "windows"]
    assert (line.outcome, line.succeeded, line.tried) == (BAD, 1, 2)
    assert line.last_success == datetime(2026, 11, 1, tzinfo=timezone.utc)
    assert [one.outcome for one in line.results] == [RUNNING, NONE, BAD, GOOD]


def test_a_line_that_never_ended_has_the_state_of_its_newest_run() -> None:
    line = lines(run(1, ("Build windows", NONE)), run(2, ("Build windows", RUNNING)))["own", "windows"]
    assert (line.outcome, line.tried, line.last_success) == (RUNNING, 0, None)


def test_each_line_names_its_owner() -> None:
    jobs = ("Build demo-v1.0-py313-cu130", "Build linux-cuda-cu130", "Build linux-cpu", "Build pure")
    assert [line.owner for line in lines(run(1, *((job, GOOD) for job in jobs))).values()] == [
        "@o/gpu", "", "@o/cuda", "", ""]  # fmt: skip


def test_without_a_config_the_workflow_stands_for_its_package() -> None:
    assert ("recipes.yml", "windows") in lines(run(1, ("Build windows", GOOD)), package="")


def test_a_series_names_its_newest_stable_release() -> None:
    tags = ["demo-v1.0-py313-cu130", "demo-v1.2-py313-cu130", "demo-v1.3-py314-cu130", "demo-v2.0-py313-cu130-rc1"]
    releases = [Stored(1, tag, is_draft=False, is_ours=True, mark="", assets=(), page=f"p/{tag}") for tag in tags]
    line = list_lines([run(1, ("Build demo-v1.0-py313-cu130", GOOD))], [RECIPE], releases)[0]
    assert (line.published, line.page) == ("demo-v1.2-py313-cu130", "p/demo-v1.2-py313-cu130")


def test_the_summary_counts_what_was_built_and_else_the_workflows() -> None:
    builds = run(1, ("Build windows", GOOD), ("Build linux-cpu", BAD), ("Build pure", RUNNING), outcome=BAD)
    assert summarize([*lines(builds).values()]) == (1, 2)
    assert summarize([*lines(run(1, ("Plan", BAD), outcome=BAD)).values()]) == (0, 1)
    assert summarize([]) == (0, 0)


NOW = datetime(2026, 11, 21, 4, 17, tzinfo=timezone.utc)
HOSTILE = "</th><script>alert(1)</script>\"' $page @octo"


def line(*outcomes: RunOutcome, name: str = "demo", page: str = "https://github.com/octo/demo") -> Line:
    return Line(name, "Python 3.13", "@o/gpu", tuple(Result(one, NOW, page) for one in outcomes), "demo-v1.0", page)


def test_each_line_is_a_row_with_its_past_the_oldest_first() -> None:
    page = write_page("octo/demo", [line(RunOutcome.BAD, RunOutcome.GOOD)], NOW).decode()
    row = page.partition("<tbody>")[2].partition("</tbody>")[0]
    assert row.index("2026-11-21: succeeded") < row.index("2026-11-21: failed")
    assert "<strong>failed</strong>" in row
    assert "1 of 2<ol>" in row
    assert "0 of 1 build. Read at" in page


def test_the_text_of_others_has_no_effect() -> None:
    page = write_page(HOSTILE, [line(RunOutcome.GOOD, name=HOSTILE, page=f"javascript:{HOSTILE}")], NOW).decode()
    assert "<script" not in page
    assert "javascript:" not in page
    assert page.count("$page @octo") == 3


@pytest.mark.parametrize(
    ("summary", "text", "colour"),
    [
        pytest.param(Summary(3, 3), "wheels: 3 of 3 build", "#23762b", id="good"),
        pytest.param(Summary(2, 3), "wheels: 2 of 3 build", "#b3261e", id="bad"),
        pytest.param(Summary(0, 0), "wheels: no run yet", "#5f5f5f", id="unknown"),
    ],
)
def test_the_badge_says_it_in_words_and_colour(summary: Summary, text: str, colour: str) -> None:
    image = ET.fromstring(write_badge(summary))  # noqa: S314 - our own
    assert image.findtext("{*}title") == image.get("aria-label") == text
    assert colour in write_badge(summary)
