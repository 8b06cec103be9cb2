"""Evaluates GitHub's expressions as far as contexts are known before a run: what depends on the rest is `Unknown`.

https://docs.github.com/en/actions/reference/workflows-and-actions/expressions
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ci_tools.doctor.documents import LITERAL, expressions_of, split_expressions, whole_expression
from ci_tools.doctor.expressions.values import (
    FUNCTIONS,
    NUMBER,
    UNKNOWN,
    Open,
    Unknown,
    choose,
    compare,
    contains,
    is_known,
    take_all,
    take_part,
    to_number,
    to_text,
    truth_of,
)

TOKEN = re.compile(
    rf"\s*(?:(?P<number>{NUMBER})(?![\w.+-])|'(?P<text>(?:[^']|'')*)'"  # not the start of `1.2.3` or of a name
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_-]*)|(?P<sign>&&|\|\||[=!<>]=|[][()!<>.,*]))"
)
STATUS = re.compile(r"\b(?:always|cancelled|failure|success)\s*\(", re.IGNORECASE)
DEEPEST = 50  # levels, as in GitHub's runner (ExpressionConstants.MaxDepth)
__all__ = ("UNKNOWN", "Open", "Unknown", "evaluate", "evaluate_condition", "fill", "is_expression", "join", "truth_of")
WORDS = {"true": True, "false": False, "null": None, "NaN": math.nan, "Infinity": math.inf}


class BrokenExpression(ValueError):
    """The text is not an expression of GitHub's."""


def evaluate_condition(
    text: str, contexts: Mapping[str, Any], *, is_well: bool | None = True, has_failed: bool | None = None
) -> bool | None:
    """Return whether the `if:` of a job or a step holds, where everything before it was well; None if only a run knows.

    A text around `${{ }}` makes it a text, which is true. Without a status function, `success()` is asked too. A job
    that was not well has failed, unless `has_failed` is False: then it was skipped.
    """
    if not text.strip():  # an empty `if:` is left out
        return is_well
    whole = whole_expression(text) if text.endswith("}}") else None  # a line feed behind it makes it a text
    is_text = whole is None and expressions_of(text)
    expression = text if whole is None else whole
    value = True if is_text else truth_of(evaluate(expression, contexts, is_well=is_well, has_failed=has_failed))
    # A status function decides what comes after a job that was not well.
    return value if STATUS.search(LITERAL.sub("''", text)) is not None else join((is_well, value))  # not one in a text


def join(several: Sequence[bool | None]) -> bool | None:
    """Return whether all of several conditions hold; None if only a run knows."""
    return False if False in several else None if None in several else True


def evaluate(
    expression: str, contexts: Mapping[str, Any], *, is_well: bool | None = True, has_failed: bool | None = None
) -> Any:  # noqa: ANN401
    """Return the value of an expression; Unknown for one that is not GitHub's, since another check reports it."""
    is_lost = None if is_well is None else not is_well
    states = (is_well, is_lost if has_failed is None else has_failed)
    try:
        return _read(expression, Open({key.lower(): value for key, value in contexts.items()}), states)
    except (BrokenExpression, RecursionError):  # calls within calls, which have no unary between them
        return UNKNOWN


def is_expression(text: str) -> bool:
    """Whether a text is an expression of GitHub's."""
    try:
        _read(text, Open(), (None, None))
    except (BrokenExpression, RecursionError):
        return False
    return True


def _read(expression: str, contexts: Open, states: tuple[bool | None, bool | None]) -> Any:  # noqa: ANN401
    parser = _Parser(_split(expression), contexts, states)
    value = parser.either(0)
    if parser.rest:  # words are left: it is not one expression
        raise BrokenExpression
    return value


def fill(text: str, contexts: Mapping[str, Any]) -> str | None:
    """Return a text with its expressions replaced by their values; None if one is known only in a run."""
    parts = enumerate(split_expressions(text))
    values = [evaluate(part, contexts) if number % 2 else part for number, part in parts]
    return None if any(isinstance(value, Unknown) for value in values) else "".join(map(to_text, values))


def _split(expression: str) -> list[tuple[str, str]]:
    tokens, at, text = [], 0, expression.rstrip()
    while at < len(text):
        found = TOKEN.match(text, at)
        if not found or found.lastgroup is None:
            raise BrokenExpression
        tokens.append((found.lastgroup, found[found.lastgroup]))
        at = found.end()
    return tokens


class _Parser:
    """Evaluates tokens while it reads them, from the weakest operator to the strongest."""

    def __init__(
        self, tokens: Sequence[tuple[str, str]], contexts: Open, states: tuple[bool | None, bool | None]
    ) -> None:
        self.rest = list(reversed(tokens))  # the next one is the last, for pop()
        self.contexts = contexts
        self.states = states  # whether all before was well, and whether any of it failed

    def take(self, *signs: str) -> str:
        """Return the next token and pass it, if it is one of some signs."""  # a text may hold a sign
        return self.rest.pop()[1] if self.rest and self.rest[-1][0] == "sign" and self.rest[-1][1] in signs else ""

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise BrokenExpression

    def either(self, depth: int) -> Any:  # noqa: ANN401
        value = self.both(depth)
        while self.take("||"):
            value = choose(value, self.both(depth), when=False)
        return value

    def both(self, depth: int) -> Any:  # noqa: ANN401
        value = self.equal(depth)
        while self.take("&&"):
            value = choose(value, self.equal(depth), when=True)
        return value

    def equal(self, depth: int) -> Any:  # noqa: ANN401
        value = self.order(depth)
        while sign := self.take("==", "!="):
            value = compare(sign, value, self.order(depth))
        return value

    def order(self, depth: int) -> Any:  # noqa: ANN401
        value = self.unary(depth)
        while sign := self.take("<", "<=", ">", ">="):
            value = compare(sign, value, self.unary(depth))
        return value

    def unary(self, depth: int) -> Any:  # noqa: ANN401
        if depth > DEEPEST or not self.rest:  # GitHub refuses the file
            raise BrokenExpression
        if self.take("!"):
            truth = truth_of(self.unary(depth + 1))
            return UNKNOWN if truth is None else not truth
        is_literal = self.rest[-1][0] in {"number", "text"} or self.rest[-1][1] in WORDS
        value = self.primary(depth + 1)
        return value if is_literal else self.postfix(value, depth + 1)

    def primary(self, depth: int) -> Any:  # noqa: ANN401
        if self.take("("):
            value = self.either(depth)
            self.expect(")")
            return value
        kind, text = self.rest.pop()
        if kind == "number":
            return to_number(text)
        if kind == "text":
            return text.replace("''", "'")  # as in SQL, a quote is written twice
        if kind != "name":
            raise BrokenExpression
        if self.take("("):
            return self.call(text.lower(), depth)
        return WORDS[text] if text in WORDS else self.contexts[text.lower()]

    def call(self, name: str, depth: int) -> Any:  # noqa: ANN401
        values = []
        while not self.take(")"):
            values.append(self.either(depth))
            if not self.take(",") and (not self.rest or self.rest[-1][1] != ")"):
                raise BrokenExpression
        if name in STATES:
            state = STATES[name](*self.states)  # they take no arguments, and GitHub refuses any
            return UNKNOWN if state is None else state
        if name == "contains" and len(values) == 2:  # noqa: PLR2004 - it may be known though its parts are not
            return contains(*values)
        if name not in FUNCTIONS or not all(map(is_known, values)):
            return UNKNOWN
        try:
            return FUNCTIONS[name](*values)
        except (TypeError, ValueError, IndexError):
            return UNKNOWN

    def postfix(self, value: Any, depth: int) -> Any:  # noqa: ANN401
        while True:
            if self.take("."):
                if self.take("*"):
                    value = take_all(value)
                    continue
                if not self.rest or self.rest[-1][0] != "name":
                    raise BrokenExpression
                value = take_part(value, self.rest.pop()[1])
            elif self.take("["):
                value = take_all(value) if self.take("*") else take_part(value, self.either(depth))
                self.expect("]")
            else:
                return value


STATES: dict[str, Callable[[bool | None, bool | None], bool | None]] = {
    "always": lambda *_: True,
    "success": lambda is_well, _: is_well,
    "failure": lambda _, has_failed: has_failed,
    "cancelled": lambda _, has_failed: None if has_failed is None else False,
}
