"""Finds what a C or C++ text defines for the preprocessor, in every case or only in a branch."""

from __future__ import annotations

import re

DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b([^\n]*)", re.MULTILINE)


def is_defined(text: str, definition: re.Pattern[str]) -> bool:
    """Whether a C or C++ text defines a macro in every case: outside any `#if`, or only inside its own `#ifndef`."""
    return any(is_unconditional(text, match) for match in definition.finditer(text))


def is_unconditional(text: str, match: re.Match[str]) -> bool:
    """Whether a definition in a text is outside any `#if`, or only inside its own `#ifndef`."""
    branches: list[bool] = []
    for directive in DIRECTIVE.finditer(text, 0, match.start()):
        if directive[1].startswith("if"):
            branches.append(directive[1] == "ifndef" and _guards(text, directive, match[0]))
        elif branches and directive[1] == "endif":
            branches.pop()
        elif branches:
            branches[-1] = False  # #else or #elif: only one of them is taken
    return all(branches)


def _guards(text: str, directive: re.Match[str], definition: str) -> bool:
    """Whether an `#ifndef` tests the macro that is defined inside it, or is the include guard of the header."""
    name = directive[2].strip()
    following = text[directive.end() :].lstrip()
    return name in definition.split() or re.match(rf"#[ \t]*define[ \t]+{re.escape(name)}\b", following) is not None
