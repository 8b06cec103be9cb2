from __future__ import annotations

import pytest

from ci_tools.errors import InputError, Problem, Rejected, RejectedInput
from ci_tools.github.commands import MOST, annotation, annotations_of, resume, stop, summarize


@pytest.mark.parametrize(
    ("error", "line"),
    [
        pytest.param(InputError("no such thing"), "::error title=Fatwheel::no such thing", id="a-sentence"),
        pytest.param(Rejected("bad", hint="look"), "::error title=Fatwheel::bad%0A  hint: look", id="with-a-hint"),
        pytest.param(
            RejectedInput([Problem("fatwheel.yml:3:5", 'there is no "x"')]),
            '::error title=Fatwheel,file=fatwheel.yml,line=3,col=5::there is no "x"',
            id="at-a-column",
        ),
        pytest.param(
            RejectedInput([Problem("a/setup.py:7", "odd")]),
            "::error title=Fatwheel,file=a/setup.py,line=7::odd",
            id="at-a-line",
        ),
        pytest.param(RejectedInput([Problem("dist", "odd")]), "::error title=Fatwheel::dist: odd", id="at-no-line"),
        pytest.param(RejectedInput([Problem("", "odd")]), "::error title=Fatwheel::odd", id="nowhere"),
        pytest.param(
            InputError("100%\r\n::add-mask::x"), "::error title=Fatwheel::100%25%0D%0A::add-mask::x", id="hostile-text"
        ),
        pytest.param(
            InputError("\x1b]0;title\x07\u202etxt.exe\tand a tab"),
            "::error title=Fatwheel::\\x1b]0;title\\x07\\u202etxt.exe\tand a tab",
            id="a-terminal-s-escapes",
        ),
        pytest.param(
            RejectedInput([Problem("a,b%.py:7", "odd")]),
            "::error title=Fatwheel,file=a%2Cb%25.py,line=7::odd",
            id="hostile-file",
        ),
    ],
)
def test_an_error_is_one_line_that_github_reads_as_one_command(error: InputError, line: str) -> None:
    assert list(annotations_of(error)) == [line]


def test_every_problem_has_a_line_of_its_own_up_to_what_github_shows() -> None:
    error = RejectedInput([Problem(f"fatwheel.yml:{number}", "odd") for number in range(1, 30)])
    assert len(list(annotations_of(error))) == MOST


def test_a_long_text_loses_its_middle() -> None:
    line = annotation("error", f"the build failed{'x' * 100_000}\nno such file", "Fatwheel")
    assert len(line) < 5000
    assert line.startswith("::error title=Fatwheel::the build failed")
    assert line.endswith("%0Ano such file")


def test_what_is_printed_between_is_no_command() -> None:
    assert (stop("token"), resume("token")) == ("::stop-commands::token", "::token::")


def test_the_page_of_a_job_has_an_error_s_sentence_its_words_and_what_helps() -> None:
    page = summarize(Rejected("bad: a*b*\n::error::x\n</pre>", hint="look"))
    assert page == (
        "❌ **bad&#58; a&#42;b&#42;**\n\n<pre>\n&#58;&#58;error&#58;&#58;x\n&lt;/pre&gt;\n</pre>\n\nlook\n\n"
    )
