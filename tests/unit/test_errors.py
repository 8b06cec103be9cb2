from __future__ import annotations

import time

import pytest

from ci_tools.errors import InputError, Problem, RejectedInput, nearest

PLATFORMS = ("linux-cpu", "linux-cuda", "linux-rocm", "linux-xpu", "macos-arm64", "windows", "windows-cuda")
TORCHES = ("2.6", "2.10", "2.15")
SETTINGS = ("platforms", "publish", "python", "torch", "validate")


@pytest.mark.parametrize(
    ("name", "names", "said"),
    [
        pytest.param("linux", PLATFORMS, "expected one of linux-cpu, linux-cuda, linux-rocm, linux-xpu", id="a-family"),
        pytest.param("linux-cud", PLATFORMS, 'did you mean "linux-cuda"?', id="a-letter-less"),
        pytest.param("macos", PLATFORMS, 'did you mean "macos-arm64"?', id="the-only-one-of-a-family"),
        pytest.param("freebsd", PLATFORMS, f"known: {', '.join(PLATFORMS)}", id="another-system"),
        pytest.param("2.16", TORCHES, "known: 2.6, 2.10, 2.15", id="a-version-is-not-spelled-wrong"),
        pytest.param("3.0.1", TORCHES, "known: 2.6, 2.10, 2.15", id="a-patch-release"),
        pytest.param("pyhton", SETTINGS, 'did you mean "python"?', id="two-letters-the-other-way"),
        pytest.param("go", (), "known: none", id="no-name"),
        pytest.param("", SETTINGS, f"known: {', '.join(SETTINGS)}", id="nothing"),
    ],
)
def test_the_nearest_name_is_one_that_may_have_been_meant(name: str, names: tuple[str, ...], said: str) -> None:
    assert nearest(name, names) == said


def test_the_page_that_helps_is_the_last_line() -> None:
    error = InputError("nothing is listed", hint="list it", page="how-to/adopt-an-index.md")
    error.standing = "the same command goes on"
    assert str(error).splitlines() == [
        "nothing is listed",
        "  hint: list it",
        "  the same command goes on",
        "  See Fatwheel's docs/how-to/adopt-an-index.md",
    ]


def test_problems_have_a_page_too() -> None:
    error = RejectedInput([Problem("a.yml:1:2", "it is wrong")], page="reference/config.md")
    assert str(error) == "a.yml:1:2: it is wrong\n  See Fatwheel's docs/reference/config.md"


@pytest.mark.parametrize("name", ["linux-cuda", "ab" * 5000, "x" * 100])
def test_the_nearest_of_many_names_is_found_soon(name: str) -> None:
    names = [f"linux-cud{number}{'ab' * (number % 50)}" for number in range(20_000)]
    started = time.process_time()
    said = nearest(name, [*names, "a" * 5000])
    assert said.startswith("did you mean") == (name == "linux-cuda")
    assert time.process_time() - started < 2.0
