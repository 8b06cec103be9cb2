from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from ci_tools.formats.path_patterns import is_pattern, matcher_of

NAMES = st.sampled_from(["a", "b", "ab", "a.cu", "b.cu", ".x", "kernels"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
PLAIN = st.sampled_from(["a", "*", "**", "*.cu", "?.cu", "a*", "kernels", ".x", "a**", "*?*"])
SETS = ("[ab].cu", "[!b].cu", "[^]b]*", "[b-a]", "[a", "[]", "[!]", "*[-b]", r"\*", r"\a", "a\\", "a\\ ")
STARS = ("***", "*a*.*", "*k*r*l*", "*e*s", "?*b")
OTHERS = st.sampled_from(["!a", "!*", "!b", "a ", ".", "..", "", "#a", "a b", *SETS, *STARS])
TEXTS = st.lists(PLAIN | OTHERS, min_size=1, max_size=4).map("/".join)
PATTERNS = st.tuples(st.sampled_from(["", "/"]), TEXTS, st.sampled_from(["", "/"])).map("".join)


@given(st.lists(PATTERNS, max_size=3), st.lists(PATHS, min_size=1, max_size=8))
@example(["**"], ["a", "a/b"])
@example(["a/**"], ["a", "a/b", "b/a/b"])
@example(["**/a"], ["a", "b/a", "b/a/c", "ab"])
@example(["a/**/b"], ["a/b", "a/b/c", "a/x/y/b", "ab"])
@example(["a/"], ["a", "b/a", "b/a/c"])
@example(["**/**"], ["a", "a/b"])
@example(["**/"], ["a", "a/b"])
@example(["*"], ["a/b"])
@example(["a", "!b"], ["a/b", "b/a", "b"])
@example(["!b", "a/**/b/"], ["a/x/b/c", "a/b/b", "b"])
@example([], ["a"])
def test_patterns_match_what_pathspec_matches_with_them(patterns: list[str], paths: list[str]) -> None:
    try:
        expected = GitIgnoreSpec.from_lines(patterns)
    except (ValueError, re.error):
        assert not all(map(is_pattern, patterns)), patterns
        return
    matches = matcher_of(patterns)
    assert {path: matches(path) for path in paths} == {path: expected.match_file(path) for path in paths}, patterns


@pytest.mark.parametrize("text", ["kernels/**/*.cu", "/demo/", "!a", "[ab].cu", "a b"])
def test_a_pattern_that_can_match_a_file_is_one(text: str) -> None:
    assert is_pattern(text)


@pytest.mark.parametrize("text", ["", "/", " ", "#a", "!", pytest.param("a" * 99_999, id="longer-than-a-path")])
def test_a_text_that_matches_no_file_is_no_pattern(text: str) -> None:
    assert not is_pattern(text)


GREEDY = ("*a" * 60 + "b", "**/a/" * 60 + "b", "**/*a*a/" * 60 + "b", "[ab]*" * 60 + "c", "!" + "*?" * 60 + "b")


@pytest.mark.parametrize("pattern", GREEDY)
def test_time_follows_the_length_of_a_path(pattern: str) -> None:
    started, matches = time.process_time(), matcher_of([pattern, "!x"])
    assert not any(matches(letter * 2000) for letter in ("a", "a/", "aaa/"))
    assert time.process_time() - started < 1.5  # backtracking takes hours
