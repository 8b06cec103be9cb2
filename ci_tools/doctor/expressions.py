"""Evaluates GitHub's expressions as far as contexts are known before a run: what depends on the rest is `Unknown`.

https://docs.github.com/en/actions/reference/workflows-and-actions/expressions
"""

from __future__ import annotations

import json
import math
import operator
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.doctor.documents import expressions_of, split_expressions, whole_expression

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?(?:0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?))(?![\w.])|'(?P<text>(?:[^']|'')*)'"
    r"|(?P<name>[A-Za-z_][\w-]*)|(?P<sign>&&|\|\||[=!<>]=|[][()!<>.,*]))"
)
STATUS = re.compile(r"\b(?:always|cancelled|failure|success)\s*\(", re.IGNORECASE)
DEEPEST = 50
WORDS = {"true": True, "false": False, "null": None}


class Unknown(NamedTuple):
    """A value that only a run knows; `truth` is set where every possible value is true, or every one false."""

    truth: bool | None = None

    def __getitem__(self, _: Any) -> Unknown:  # type: ignore[override]  # noqa: ANN401
        """Return that a part of it is as unknown."""
        return UNKNOWN


UNKNOWN = Unknown()


class Open(dict[str, Any]):
    """A context of which only some names are known: any other is `Unknown`."""

    def __missing__(self, _: str) -> Unknown:
        """Return that a name is unknown."""
        return UNKNOWN


class BrokenExpression(ValueError):
    """The text is not an expression of GitHub's."""


def truth_of(value: object) -> bool | None:
    """Return whether a value counts as true in a condition; None if only a run knows."""
    if isinstance(value, Unknown):
        return value.truth
    if _is_number(value):
        return value != 0 and not math.isnan(value)  # type: ignore[arg-type]
    return value is not None and value is not False and value != ""


def evaluate_condition(text: str, contexts: Mapping[str, Any], *, is_well: bool | None = True) -> bool | None:
    """Return whether the `if:` of a job or a step holds, where everything before it was well; None if only a run knows.

    A text around `${{ }}` makes it a text, which is true. Without a status function, `success()` is asked too.
    """
    if not text.strip():
        return is_well
    whole = whole_expression(text) if text.endswith("}}") else None  # a line feed behind it makes it a text
    if whole is None and expressions_of(text):
        return True
    expression = text if whole is None else whole
    value = truth_of(evaluate(expression, contexts, is_well=is_well))
    return value if STATUS.search(expression) else _both(is_well, value)


def _both(left: bool | None, right: bool | None) -> bool | None:  # noqa: FBT001 - two of a kind
    return False if left is False or right is False else None if left is None or right is None else True


def evaluate(expression: str, contexts: Mapping[str, Any], *, is_well: bool | None = True) -> Any:  # noqa: ANN401
    """Return the value of an expression; Unknown for one that is not GitHub's, since another check reports it."""
    try:
        parser = _Parser(_split(expression), Open({key.lower(): value for key, value in contexts.items()}), is_well)
        value = parser.either(0)
    except (BrokenExpression, RecursionError):
        return UNKNOWN
    return UNKNOWN if parser.rest else value


def fill(text: str, contexts: Mapping[str, Any]) -> str | None:
    """Return a text with its expressions replaced by their values; None if one is known only in a run."""
    parts = enumerate(split_expressions(text))
    values = [evaluate(part, contexts) if number % 2 else part for number, part in parts]
    return None if any(isinstance(value, Unknown) for value in values) else "".join(map(_text, values))


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

    def __init__(self, tokens: Sequence[tuple[str, str]], contexts: Open, is_well: bool | None) -> None:  # noqa: FBT001
        self.rest = list(reversed(tokens))
        self.contexts = contexts
        self.is_well = is_well

    def take(self, *signs: str) -> str:
        """Return the next token and pass it, if it is one of some signs."""
        return self.rest.pop()[1] if self.rest and self.rest[-1][0] == "sign" and self.rest[-1][1] in signs else ""

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise BrokenExpression

    def either(self, depth: int) -> Any:  # noqa: ANN401
        value = self.both(depth)
        while self.take("||"):
            value = _choose(value, self.both(depth), when=False)
        return value

    def both(self, depth: int) -> Any:  # noqa: ANN401
        value = self.equal(depth)
        while self.take("&&"):
            value = _choose(value, self.equal(depth), when=True)
        return value

    def equal(self, depth: int) -> Any:  # noqa: ANN401
        value = self.unary(depth)
        while sign := self.take("==", "!=", "<", "<=", ">", ">="):
            value = _compare(sign, value, self.unary(depth))
        return value

    def unary(self, depth: int) -> Any:  # noqa: ANN401
        if depth > DEEPEST or not self.rest:
            raise BrokenExpression
        if self.take("!"):
            truth = truth_of(self.unary(depth + 1))
            return UNKNOWN if truth is None else not truth
        return self.postfix(self.primary(depth + 1), depth + 1)

    def primary(self, depth: int) -> Any:  # noqa: ANN401
        if self.take("("):
            value = self.either(depth)
            self.expect(")")
            return value
        kind, text = self.rest.pop()
        if kind == "number":
            return float(int(text, 16)) if "x" in text else float(text)
        if kind == "text":
            return text.replace("''", "'")
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
            return STATES[name](self.is_well)
        if name not in FUNCTIONS or any(isinstance(value, Unknown) for value in values):
            return UNKNOWN
        try:
            return FUNCTIONS[name](*values)
        except (TypeError, ValueError, IndexError):
            return UNKNOWN

    def postfix(self, value: Any, depth: int) -> Any:  # noqa: ANN401
        while True:
            if self.take("."):
                if self.take("*"):
                    value = UNKNOWN
                    continue
                if not self.rest or self.rest[-1][0] != "name":
                    raise BrokenExpression
                value = _part(value, self.rest.pop()[1])
            elif self.take("["):
                value = UNKNOWN if self.take("*") else _part(value, self.either(depth))
                self.expect("]")
            else:
                return value


def _part(value: Any, name: Any) -> Any:  # noqa: ANN401
    """Return a part of a value; null if it has none, as GitHub does. Names are compared without case."""
    if isinstance(value, Unknown) or isinstance(name, Unknown):
        return UNKNOWN
    if isinstance(value, dict):
        known = {key.lower(): key for key in value}
        key = known.get(_text(name).lower())
        return value[key] if key is not None else UNKNOWN if isinstance(value, Open) else None
    if isinstance(value, list) and _is_number(name) and 0 <= name < len(value):
        return value[int(name)]
    return None


def _choose(left: Any, right: Any, *, when: bool) -> Any:  # noqa: ANN401
    """Return the value of `left && right` (when true) or `left || right`."""
    truth = truth_of(left)
    if truth is not None:
        return right if truth is when else left
    return Unknown(not when) if truth_of(right) is not when and truth_of(right) is not None else UNKNOWN


def _compare(sign: str, left: Any, right: Any) -> Any:  # noqa: ANN401
    """Compare as GitHub does: texts without case, values of different types as numbers."""
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return UNKNOWN
    if isinstance(left, str) and isinstance(right, str):
        left, right = left.lower(), right.lower()
    elif type(left) is not type(right) or left is None:
        left, right = _number(left), _number(right)
    try:
        return bool(OPERATORS[sign](left, right))
    except TypeError:
        return False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: object) -> float:
    if value is None or isinstance(value, bool):
        return float(bool(value))
    try:
        return float(value or 0) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        return math.nan


def _text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "", True: "true", False: "false"}[value]
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "Object" if isinstance(value, dict) else "Array" if isinstance(value, list) else str(value)


def _contains(where: Any, what: Any) -> bool:  # noqa: ANN401
    if isinstance(where, list):
        return any(_compare("==", item, what) is True for item in where)
    return _text(what).lower() in _text(where).lower()


def _format(template: Any, *values: Any) -> str:  # noqa: ANN401
    def fill_one(found: re.Match[str]) -> str:
        return found[0][0] if len(found[0]) == 2 and not found[1] else _text(values[int(found[1])])  # noqa: PLR2004

    return re.sub(r"\{\{|\}\}|\{(\d+)\}", fill_one, _text(template))


def _join(values: Any, separator: Any = ",") -> str:  # noqa: ANN401
    return _text(separator).join(map(_text, values)) if isinstance(values, list) else _text(values)


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "contains": _contains,
    "startswith": lambda text, start: _text(text).lower().startswith(_text(start).lower()),
    "endswith": lambda text, end: _text(text).lower().endswith(_text(end).lower()),
    "format": _format,
    "join": _join,
    "fromjson": lambda text: json.loads(_text(text)),
    "tojson": lambda value: json.dumps(value, indent=2),
}
STATES: dict[str, Callable[[bool | None], Any]] = {
    "always": lambda _: True,
    "success": lambda is_well: UNKNOWN if is_well is None else is_well,
    "failure": lambda is_well: UNKNOWN if is_well is None else not is_well,
    "cancelled": lambda is_well: UNKNOWN if is_well is None else False,
}
