"""`fatwheel report`: where the time of a build went, from the traces that it left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci_tools.build.times.chart import WORDS, write_chart
from ci_tools.build.times.trace import SUFFIX, dump, find_jobs
from tests.builders.times import job, unit
from tests.integration.conftest import CommandLine

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def builds(tmp_path: Path) -> Path:
    """A folder with three builds; the longest unit of the last is shorter."""
    for name, took in (("dist", 30), ("before", 30), ("after", 10)):
        logs = tmp_path / name / "logs"
        logs.mkdir(parents=True)
        (logs / f"linux-cpu{SUFFIX}").write_bytes(
            dump([job("linux-cpu", unit("csrc/a.cu", 1, took), unit("b.cu", 1, 2))])
        )
    return tmp_path


def test_the_commands_of_the_page_show_what_builds_took(fatwheel: CommandLine, builds: Path) -> None:
    one = fatwheel("report", "dist", cwd=builds)
    assert one.status == 0, one.stderr
    assert " csrc/a.cu   30.0 s" in one.stdout
    two = fatwheel("report", "before", "after", cwd=builds)
    assert [line.split() for line in two.stdout.splitlines() if "csrc/a.cu" in line] == [
        ["csrc/a.cu", "30.0", "s,", "1.0", "GiB", "10.0", "s,", "1.0", "GiB"]
    ]


def test_traces_are_joined_and_sums_are_json(fatwheel: CommandLine, builds: Path) -> None:
    ran = fatwheel("report", "before", "after", "--format", "json", "--trace", "both.json", cwd=builds)
    assert [(one["build"], one["units"], one["longest"]) for one in json.loads(ran.stdout)] == [
        ("before", 2, 30.0), ("after", 2, 10.0),
    ]  # fmt: skip
    assert [one.name for one in find_jobs(builds / "both.json")] == ["before: linux-cpu", "after: linux-cpu"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(["nowhere"], "nowhere cannot be read: No such file", id="no-folder"),
        pytest.param(["dist", "before", "after"], "3 builds are named, expected one, or two to compare", id="three"),
    ],
)
def test_what_cannot_be_reported_is_said(given: list[str], said: str, fatwheel: CommandLine, builds: Path) -> None:
    ran = fatwheel("report", *given, cwd=builds)
    assert (ran.status, said in ran.stderr) == (2, True), ran.stderr


@pytest.mark.long
def test_the_chart_is_drawn_without_scripts(fatwheel: CommandLine, builds: Path, browser: Browser) -> None:
    fatwheel("report", "before", "after", "--html", "times.html", cwd=builds)
    page = browser.new_page(viewport={"width": 700, "height": 600}, java_script_enabled=False)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto((builds / "times.html").as_uri())
    bars = page.locator("g.compiled rect")
    widths = [box["width"] for at in range(bars.count()) if (box := bars.nth(at).bounding_box())]
    assert widths[0] == pytest.approx(3 * widths[2], rel=0.05)  # 30 and 10 seconds
    assert page.locator("g.compiled text").first.bounding_box()
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    assert complaints == []


@pytest.mark.long
def test_on_a_narrow_screen_wide_things_are_moved_and_each_colour_means_one(tmp_path: Path, browser: Browser) -> None:
    units = [unit(f"csrc/attention/forward_{at}.cu", at, 1, how) for at, how in enumerate(WORDS)]
    (tmp_path / "times.html").write_bytes(write_chart([job("linux-cpu", *units, swapped=1)]))
    page = browser.new_page(viewport={"width": 390, "height": 800}, java_script_enabled=False)
    page.goto((tmp_path / "times.html").as_uri())
    widths = [box["width"] for what in ("svg", "tbody th") if (box := page.locator(what).first.bounding_box())]
    assert (widths[0] >= 700, widths[1] >= 150) == (True, True)  # 390 pixels would show neither names nor times
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    colours = page.locator("li").evaluate_all("all => all.map(one => getComputedStyle(one, '::before').background)")
    assert len({*colours}) == len(colours) == len(WORDS) + 2  # and those of the memory
