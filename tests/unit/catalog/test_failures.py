from __future__ import annotations

import pytest

from ci_tools.catalog.failures import BUILD, INSTALL, MAX_QUOTED, TRIAL, Cause, explain, read_causes

ALL = [(table, cause) for table in (BUILD, INSTALL, TRIAL) for cause in read_causes(table)]
CAUSES = [pytest.param(table, cause, id=f"{table}-{cause.name}") for table, cause in ALL]
NINJA = "ninja: build stopped: subcommand failed.\nsubprocess.CalledProcessError: returned non-zero exit status 1.\n"
CASCADE = "\n".join(
    f"error: command '/usr/bin/{tool}' failed with exit code 1" for tool in ("gcc", "g++", "ninja", "cmake", "nvcc")
)


@pytest.mark.parametrize(("table", "cause"), CAUSES)
def test_an_example_is_explained_by_its_own_cause_and_by_no_other(table: str, cause: Cause) -> None:
    found = explain(cause.example, table)
    assert found is not None
    assert found.name == cause.name
    assert "$" not in found.says + found.hint.replace("$ORIGIN", "")
    assert found.quote.splitlines()[0] in cause.example.splitlines()


@pytest.mark.parametrize(
    ("table", "cause"),
    [pytest.param(*one, id="-".join(one[:1]) + one[1].name) for one in ALL if one[0] == BUILD and not one[1].late],
)
def test_what_comes_after_a_cause_does_not_hide_it(table: str, cause: Cause) -> None:
    found = explain(f"running build_ext\n{cause.example}\n{NINJA}{CASCADE}\n", table)
    assert found is not None
    assert (found.name, found.line >= 2) == (cause.name, True)


def test_of_two_causes_the_first_decides() -> None:
    header, link = "a.c:1:10: fatal error: x.h: No such file or directory", "/usr/bin/ld: cannot find -lx"
    names = [found.name for text in (f"{header}\n{link}", f"{link}\n{header}") if (found := explain(text))]
    assert names == ["missing-header", "missing-library"]


def test_what_is_often_harmless_counts_only_on_its_own() -> None:
    git, header = "fatal: not a git repository", "a.c:1:10: fatal error: x.h: No such file or directory"
    names = [found.name for text in (git, f"{git}\n{header}") if (found := explain(text))]
    assert names == ["no-git", "missing-header"]


REFUSED = [
    "csrc/a.cpp:7:3: error: 'struct A' has no member named 'type'",
    'csrc/a.cu(436): error: namespace "torch" has no member "Tensor"',
    'csrc/a.cu(4): error #20013-D: calling a constexpr __host__ function("f") from a __device__ function',
    "csrc\\a.cpp(12): error C3861: 'f': identifier not found",
]


@pytest.mark.parametrize("line", REFUSED)
def test_the_first_error_of_no_known_kind_is_quoted_unless_another_cause_is_known(line: str) -> None:
    found = explain(f"compiling\n{line}\nb.cpp:1:1: error: expected ';'\n{CASCADE}\n")
    assert found is not None
    assert (found.name, found.quote, found.line) == ("refused-source", line, 2)
    known = explain(f"{line}\nfatal: not a git repository\n")
    assert known is not None
    assert known.name == "no-git"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "error: command '/usr/bin/gcc' failed with exit code 1",
        NINJA,
        "-- Could NOT find OpenMP_CXX (missing: OpenMP_CXX_FLAGS)\n-- Looking for sys/types.h - not found",
        "a.c:1:1: warning: implicit declaration of function 'f' [-Wimplicit-function-declaration]",
        "checking for x.h... no\nconftest.c:9:10: fatal error: x.h: No such file or directory",
        "build/has_function.c:1:10: fatal error: numa.h: No such file or directory",
        "ptxas info    : Used 40 registers\nptxas info    : 0 bytes gmem",
        "AssertionError: the widths differ",
        "Killed by the user's wish is not a line of a shell: test_killed passed",
    ],
)
def test_what_decides_nothing_is_not_explained(text: str) -> None:
    assert explain(text) is None


def test_colours_and_typographic_quotes_change_nothing() -> None:
    plain = explain("ninja: error: 'a.c', needed by 'a.o', missing and no known rule to make it")
    dressed = explain(
        "\x1b[31mninja: error:\x1b[0m \u2018a.c\u2019, needed by \u2018a.o\u2019, missing and no known rule to make it"
    )
    assert plain is not None
    assert dressed is not None
    assert (plain.name, plain.says, plain.hint) == (dressed.name, dressed.says, dressed.hint)


def test_a_quote_is_short_and_has_its_line_in_the_whole_log() -> None:
    found = explain("x" * (1 << 20) + "\n" + "y\n" * 9 + "a.c:1:10: fatal error: x.h: No such file or directory\n")
    assert found is not None
    assert (found.line, len(found.quote.splitlines()) <= MAX_QUOTED) == (11, True)


def test_no_two_causes_of_a_table_have_the_same_words() -> None:
    for table in (BUILD, INSTALL, TRIAL):
        says = [cause.says for cause in read_causes(table)]
        assert len(says) == len({*says})


def test_at_least_thirty_kinds_of_failed_builds_are_known() -> None:
    assert len(read_causes()) >= 30
