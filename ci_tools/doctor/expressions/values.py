"""The values of GitHub's expressions: how they are compared and written, and the functions of them.

A value that only a run knows is `Unknown`. https://docs.github.com/en/actions/reference/workflows-and-actions/expressions
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

NUMBER = r"[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|Infinity)|0[xX][0-9a-fA-F]+|0[oO][0-7]+"
DOTLESS = "\N{LATIN SMALL LETTER DOTLESS I}"


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


class Filtered(list[Any]):
    """What `.*` makes of a list or a mapping: a name after it is taken of each item that has it."""


def truth_of(value: object) -> bool | None:
    """Return whether a value counts as true in a condition; None if only a run knows."""
    if isinstance(value, Unknown):
        return value.truth
    if _is_number(value):
        return value != 0 and not math.isnan(value)  # type: ignore[arg-type]
    return value is not None and value is not False and value != ""


def take_part(value: Any, name: Any) -> Any:  # noqa: ANN401
    """Return a part of a value; null if it has none, as GitHub does. Names are compared without case."""
    if isinstance(value, Unknown) or isinstance(name, Unknown):
        return UNKNOWN
    if isinstance(value, Filtered):
        found = [take_part(item, name) for item in value if isinstance(item, Unknown) or _has(item, name)]
        return UNKNOWN if any(isinstance(item, Unknown) for item in value) else Filtered(found)
    if isinstance(value, dict) and not isinstance(name, dict | list):  # GitHub takes no list for a key
        known = {key.lower(): key for key in value}
        key = known.get(to_text(name).lower())
        return value[key] if key is not None else UNKNOWN if isinstance(value, Open) else None
    return value[int(to_number(name))] if _has(value, name) else None


def _has(value: Any, name: Any) -> bool:  # noqa: ANN401
    """Whether a value has a part: a mapping may have it if only some of its names are known."""
    if isinstance(value, list):
        return 0 <= to_number(name) < len(value)  # GitHub rounds the index 1.5 down, and -1 has no item
    names = {key.lower() for key in value} if isinstance(value, dict) and not isinstance(name, dict | list) else ()
    return isinstance(value, Open) or to_text(name).lower() in names


def take_all(value: Any) -> Any:  # noqa: ANN401
    """Return what `.*` makes of a value: the items of a list, or the values of a mapping."""
    if isinstance(value, Unknown | Open):
        return UNKNOWN
    if isinstance(value, Filtered):
        parts = [take_all(item) for item in value]
        return UNKNOWN if UNKNOWN in parts else Filtered(item for part in parts for item in part)
    return Filtered(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())


def is_known(value: Any) -> bool:  # noqa: ANN401
    """Whether no part of a value is unknown."""
    if isinstance(value, dict):
        return not isinstance(value, Open) and all(map(is_known, value.values()))
    return all(map(is_known, value)) if isinstance(value, list) else not isinstance(value, Unknown)


def choose(left: Any, right: Any, *, when: bool) -> Any:  # noqa: ANN401
    """Return the value of `left && right` (when true) or `left || right`."""
    truth = truth_of(left)  # the operators return a value, as in JavaScript
    if truth is not None:
        return right if truth is when else left
    return Unknown(not when) if truth_of(right) is not when and truth_of(right) is not None else UNKNOWN


def compare(sign: str, left: Any, right: Any) -> Any:  # noqa: ANN401
    """Compare as GitHub does: texts without case, values of different types as numbers, others by identity."""
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return UNKNOWN
    if isinstance(left, dict | list) or isinstance(right, dict | list):
        return (left is right) is not (sign == "!=") and sign not in {"<", ">"}
    if isinstance(left, str) and isinstance(right, str):
        left, right = _upper(left), _upper(right)
    elif type(left) is not type(right) or left is None:  # two nulls compare as 0 and 0
        left, right = to_number(left), to_number(right)
    return bool(OPERATORS[sign](left, right))


def _upper(text: str) -> str:
    """Return a text as GitHub compares it: the Turkish i without a dot stays."""
    return DOTLESS.join(part.upper() for part in text.split(DOTLESS))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def to_number(value: object) -> float:
    """Return a value as the number that it counts as in a comparison."""
    if not isinstance(value, str):
        return math.nan if isinstance(value, dict | list) else float(value or 0)  # type: ignore[arg-type]
    text = value.strip()
    if not text or not re.fullmatch(NUMBER, text):
        return math.nan if text else 0.0  # an empty text counts as 0
    return float(int(text, 0)) if text[1:2] in {"x", "X", "o", "O"} else float(text)  # base 0: the prefix says which


def to_text(value: object) -> str:
    """Return a value as GitHub writes it into a text."""
    if value is None or isinstance(value, bool):
        return {None: "", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return _number_text(float(value))
    return "Object" if isinstance(value, dict) else "Array" if isinstance(value, list) else str(value)


def _number_text(value: float) -> str:
    """Return a number as GitHub writes it, with at most 15 places after the point."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    short = round(value, 15)
    if short and not 1e-6 <= abs(short) < 1e21:  # noqa: PLR2004 - from where on exponents are written
        return re.sub(r"e([-+])0?", r"e\1", repr(short)).replace(".0e", "e")  # Python writes 1e-07, JavaScript 1e-7
    return f"{Decimal(repr(short or 0)):f}".removesuffix(".0")


def contains(where: Any, what: Any) -> Any:  # noqa: ANN401
    """Return whether a list has an item, or a text a part; unknown if that hangs on a part that is."""
    if isinstance(where, list) and not isinstance(what, Unknown):
        found = [compare("==", what, item) for item in where]
        return True if True in found else UNKNOWN if UNKNOWN in found else False
    if isinstance(where, Unknown) or isinstance(what, Unknown):
        return UNKNOWN
    return not _is_composed(where, what) and to_text(what).lower() in to_text(where).lower()


def _is_composed(*values: object) -> bool:
    return any(isinstance(value, dict | list) for value in values)


def _starts(text: Any, start: Any) -> bool:  # noqa: ANN401
    return not _is_composed(text, start) and _upper(to_text(text)).startswith(_upper(to_text(start)))


def _ends(text: Any, end: Any) -> bool:  # noqa: ANN401
    return not _is_composed(text, end) and _upper(to_text(text)).endswith(_upper(to_text(end)))


def _format(template: Any, *values: Any) -> str:  # noqa: ANN401
    def fill_one(found: re.Match[str]) -> str:
        if not found[1] and len(found[0]) == 1:  # a brace that is not doubled
            raise ValueError
        return to_text(values[int(found[1])]) if found[1] else found[0][0]

    return re.sub(r"\{\{|\}\}|\{([0-9]+)[^{}]*\}|[{}]", fill_one, to_text(template))


def _join(values: Any, separator: Any = ",") -> str:  # noqa: ANN401
    if not isinstance(values, list):
        return "" if isinstance(values, dict) else to_text(values)
    return ("," if _is_composed(separator) else to_text(separator)).join(map(to_text, values))


def _read_json(text: Any) -> Any:  # noqa: ANN401
    def refuse(_: str) -> None:
        raise ValueError

    return json.loads(to_text(text), parse_constant=refuse)  # NaN, which Python's reader takes


def _write_json(value: Any, margin: str = "\n") -> str:  # noqa: ANN401
    inner = f"{margin}  "
    if isinstance(value, list):
        lines = [_write_json(item, inner) for item in value]
    elif isinstance(value, dict):
        lines = [f"{json.dumps(key)}: {_write_json(item, inner)}" for key, item in value.items()]
    elif _is_number(value):
        return _number_text(value) if math.isfinite(value) else "null"
    else:
        return json.dumps(value, ensure_ascii=False)  # GitHub escapes no letters
    content = f"{inner}{f',{inner}'.join(lines)}{margin}" if lines else ""
    return f"[{content}]" if isinstance(value, list) else f"{{{content}}}"


def _case(*values: Any) -> Any:  # noqa: ANN401
    """Return the value after the first condition that is true, or the last value."""
    if len(values) < 3 or len(values) % 2 == 0:  # noqa: PLR2004 - a condition, its value and the last one
        raise ValueError
    for condition, value in zip(values[:-1:2], values[1::2], strict=True):
        if not isinstance(condition, bool):
            raise TypeError
        if condition:
            return value
    return values[-1]


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "case": _case,
    "startswith": _starts,
    "endswith": _ends,
    "format": _format,
    "join": _join,
    "fromjson": _read_json,
    "tojson": _write_json,
}
