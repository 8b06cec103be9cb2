"""Checks a document by a JSON Schema, and explains each violation to the person who wrote the file.

The schema's `description` of a value becomes the end of the sentence: "expected …". Of the draft 2020-12, the keywords
are known that our schemas have; jsonschema, whose import takes as long as planning a small project, is for the tests.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ci_tools.errors import Problem, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_tools.formats.yaml_file import Document, Keys

    Part: TypeAlias = Mapping[str, Any]

KINDS = {dict: "a mapping", list: "a list", type(None): "an empty value"}
MAX_SHOWN = 60  # characters of a value that a message repeats


class SchemaFlaw(NamedTuple):
    """A value that violates the schema or is missing, and the problem to report."""

    keys: Keys
    problem: Problem


class _Violation(NamedTuple):
    """A value that a keyword of a part of the schema refuses."""

    keyword: str
    keys: Keys
    value: Any
    part: Part
    alternatives: tuple[tuple[_Violation, ...], ...] = ()  # of `oneOf`, if none fits: the violations of each


def flaws(document: Document, schema: Part) -> list[SchemaFlaw]:
    """Return every violation of the schema in the document, each once."""
    found = _violations(document.value, schema, schema, ())
    return list(dict.fromkeys(flaw for violation in found for flaw in _explain(document, violation)))


# ---------------------------------------------------------------- the values that a keyword refuses


def _violations(value: Any, part: Part, schema: Part, keys: Keys) -> Iterator[_Violation]:  # noqa: ANN401 - YAML
    for keyword, wanted in part.items():
        if keyword in CHECKS and not CHECKS[keyword](value, wanted):
            yield _Violation(keyword, keys, value, part)
        elif keyword == "oneOf":
            each = tuple(tuple(_violations(value, one, schema, keys)) for one in wanted)
            if each.count(()) != 1:
                yield _Violation(keyword, keys, value, part, () if () in each else each)
        elif keyword == "$ref":
            yield from _violations(value, schema["$defs"][wanted.removeprefix("#/$defs/")], schema, keys)
        elif keyword == "items" and isinstance(value, list):
            for index, item in enumerate(value):
                yield from _violations(item, wanted, schema, (*keys, index))
        elif isinstance(value, dict):
            yield from _violations_in_mapping(value, keyword, part, schema, keys)


def _violations_in_mapping(
    value: dict[str, Any], keyword: str, part: Part, schema: Part, keys: Keys
) -> Iterator[_Violation]:
    wanted, known = part[keyword], part.get("properties", {})
    others = [name for name in value if name not in known]
    if keyword == "propertyNames":
        for name in value:
            yield from (one._replace(keyword=keyword) for one in _violations(name, wanted, schema, (*keys, name)))
    elif keyword == "additionalProperties" and isinstance(wanted, Mapping):
        for name in others:
            yield from _violations(value[name], wanted, schema, (*keys, name))
    elif keyword == "additionalProperties" and not wanted and others:
        yield _Violation(keyword, keys, others, part)
    elif keyword == "properties":
        for name in (name for name in value if name in known):
            yield from _violations(value[name], known[name], schema, (*keys, name))
    elif keyword == "required" and (missing := [name for name in wanted if name not in value]):
        yield _Violation(keyword, keys, missing, part)


@functools.cache
def _in_python(pattern: str) -> re.Pattern[str]:
    """Return a pattern of JSON Schema, whose `$` is the very end; Python's also matches before a last line feed."""
    return re.compile(re.sub(r"\$$", r"\\Z", pattern))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
CHECKS: Mapping[str, Callable[[Any, Any], bool]] = {
    "type": lambda value, wanted: any(TYPES[name](value) for name in ([wanted] if isinstance(wanted, str) else wanted)),
    "enum": lambda value, wanted: any(type(value) is type(one) and value == one for one in wanted),
    "pattern": lambda value, wanted: not isinstance(value, str) or _in_python(wanted).search(value) is not None,
    "minLength": lambda value, wanted: not isinstance(value, str) or len(value) >= wanted,
    "minItems": lambda value, wanted: not isinstance(value, list) or len(value) >= wanted,
    "minProperties": lambda value, wanted: not isinstance(value, dict) or len(value) >= wanted,
    "minimum": lambda value, wanted: not _is_number(value) or value >= wanted,
    "exclusiveMinimum": lambda value, wanted: not _is_number(value) or value > wanted,
    "maximum": lambda value, wanted: not _is_number(value) or value <= wanted,
    "uniqueItems": lambda value, wanted: not (wanted and isinstance(value, list)) or not _list_repeated(value),
}


def _list_repeated(items: list[Any]) -> list[int]:
    """Return the places of the items that are in a list before."""
    first: dict[str, int] = {}
    texts = [json.dumps(item, sort_keys=True, default=str) for item in items]
    return [index for index, text in enumerate(texts) if first.setdefault(text, index) != index]


# ---------------------------------------------------------------- the mistakes


def _explain(document: Document, found: _Violation) -> Iterator[SchemaFlaw]:
    keyword, keys, value, part, _ = found
    if keyword == "additionalProperties":
        for name in value:
            what = f'unknown key "{name}", {nearest(name, part.get("properties", {}))}'
            yield SchemaFlaw((*keys, name), Problem(document.where((*keys, name), key=True), what))
    elif keyword == "required":
        for name in value:
            what = f'the key "{name}" is missing: {part["properties"][name]["description"]}'
            yield SchemaFlaw((*keys, name), Problem(document.where(keys), what))
    elif keyword == "uniqueItems":
        for index in _list_repeated(value):
            what = f"{_format_value(value[index])} is here twice"
            yield SchemaFlaw((*keys, index), Problem(document.where((*keys, index)), what))
    elif keyword == "oneOf" and (fitting := _find_fitting(found)):
        for inner in fitting:
            yield from _explain(document, inner)
    else:
        yield SchemaFlaw(keys, Problem(document.where(keys, key=keyword == "propertyNames"), _sentence(found)))


def _find_fitting(found: _Violation) -> tuple[_Violation, ...]:
    """Return the violations of the first alternative whose type fits; () if none fits, or several do."""
    fitting = (
        each for each in found.alternatives if not any((one.keyword, one.keys) == ("type", found.keys) for one in each)
    )
    return next(fitting, ())


def _sentence(found: _Violation) -> str:
    value, expected = found.value, found.part.get("description", f"another value ({found.keyword})")
    if found.keyword == "enum":
        allowed = [str(one).lower() if isinstance(one, bool) else one for one in found.part["enum"]]
        near = "expected it without quotes" if value in allowed else nearest(str(value), allowed)
        return f"{_format_value(value)} is not allowed, {near}"
    if found.keyword in {"minItems", "minProperties"}:
        return f"this is empty, expected {expected}"
    return f"{_format_value(value)} is not allowed, expected {expected}"


def _format_value(value: object) -> str:
    """Return a value for a message: on one line, and shortened if it is long."""
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= MAX_SHOWN else f'{text[:MAX_SHOWN]}…"'
    return KINDS.get(type(value)) or str(value).lower()
