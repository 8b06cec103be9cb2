"""Explains violations of a JSON Schema to the person who wrote the file.

The schema's `description` of a value becomes the end of the sentence: "expected …".
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ci_tools.errors import Problem, nearest

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

    from ci_tools.formats.yaml_file import Document, Keys

KINDS = {dict: "a mapping", list: "a list", type(None): "an empty value"}
MAX_SHOWN = 60  # characters of a value that a message repeats


if TYPE_CHECKING:
    Check: TypeAlias = Callable[[Any, Any, Mapping[str, Any], Mapping[str, Any]], bool]


class SchemaFlaw(NamedTuple):
    """A value that violates the schema or is missing, and the problem to report."""

    keys: Keys
    problem: Problem


@functools.cache
def validator_class() -> type[Validator]:
    """Return jsonschema's validator of the draft 2020-12, with the patterns of JSON Schema."""
    # Importing jsonschema takes as long as planning a small project: only a file with a mistake pays for it.
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415
    from jsonschema.validators import extend  # noqa: PLC0415

    def match(_: object, pattern: str, value: object, __: object) -> Iterator[ValidationError]:
        if isinstance(value, str) and not _has_pattern(value, pattern):
            yield ValidationError(f"{value!r} does not match {pattern!r}")

    made: type[Validator] = extend(Draft202012Validator, {"pattern": match})  # type: ignore[no-untyped-call]
    return made


def _has_pattern(value: str, pattern: str) -> bool:
    """Match as JSON Schema does: `$` is the very end of a text, while Python's also matches before a last line feed."""
    return _in_python(pattern).search(value) is not None


@functools.cache
def _in_python(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\$$", r"\\Z", pattern))


def flaws(document: Document, schema: Mapping[str, Any]) -> list[SchemaFlaw]:
    """Return every violation of the schema in the document, each once."""
    if conforms(document.value, schema, schema):
        return []
    errors = validator_class()(schema).iter_errors(document.value)
    return list(dict.fromkeys(flaw for error in errors for flaw in _explain(document, error)))


# ---------------------------------------------------------------- a value without a mistake

TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
SAID_ELSEWHERE = frozenset({"$schema", "$defs", "title", "description"})  # they constrain no value


def conforms(value: object, part: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Whether a value surely conforms to a part of a schema; False also for keywords that are not known here.

    It is much quicker than jsonschema, which decides where this says False, and explains.
    """
    return all(
        keyword in SAID_ELSEWHERE or (keyword in CHECKS and CHECKS[keyword](value, wanted, part, schema))
        for keyword, wanted in part.items()
    )


def _is_of_type(value: object, wanted: str | list[str], *_: object) -> bool:
    names = [wanted] if isinstance(wanted, str) else wanted
    return any(isinstance(value, TYPES[name]) and (name != "integer" or not isinstance(value, bool)) for name in names)


def _is_unique(value: object, wanted: object, *_: object) -> bool:
    """Whether the items of a list surely differ; mappings are not compared here."""
    if not isinstance(value, list) or not wanted:
        return True
    return len({item for item in value if isinstance(item, str)}) == len(value)


def _has_known_items(value: object, _: object, part: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Check `properties` and `additionalProperties`, which depend on each other."""
    if not isinstance(value, dict):
        return True
    known, others = part.get("properties", {}), part.get("additionalProperties", True)
    return all(
        conforms(item, known[key], schema)
        if key in known
        else (others if isinstance(others, bool) else conforms(item, others, schema))
        for key, item in value.items()
    )


def _is_at_least(size: Callable[[Any], int], kind: type) -> Check:
    return lambda value, least, *_: not isinstance(value, kind) or size(value) >= least


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


CHECKS: Mapping[str, Check] = {
    "$ref": lambda value, name, _, schema: conforms(value, schema["$defs"][name.removeprefix("#/$defs/")], schema),
    "type": _is_of_type,
    "enum": lambda value, wanted, *_: any(type(value) is type(one) and value == one for one in wanted),
    "pattern": lambda value, pattern, *_: not isinstance(value, str) or _has_pattern(value, pattern),
    "minLength": _is_at_least(len, str),
    "minItems": _is_at_least(len, list),
    "minProperties": _is_at_least(len, dict),
    "minimum": lambda value, least, *_: not _is_number(value) or value >= least,
    "maximum": lambda value, most, *_: not _is_number(value) or value <= most,
    "required": lambda value, names, *_: not isinstance(value, dict) or all(name in value for name in names),
    "properties": _has_known_items,
    "additionalProperties": lambda value, _, part, schema: (
        "properties" in part or _has_known_items(value, _, part, schema)  # each level is checked once
    ),
    "propertyNames": lambda value, part, _, schema: (
        not isinstance(value, dict) or all(conforms(name, part, schema) for name in value)
    ),
    "items": lambda value, part, _, schema: (
        not isinstance(value, list) or all(conforms(item, part, schema) for item in value)
    ),
    "uniqueItems": _is_unique,
    # Another branch might fit as well where a check is too strict: one must fit and all others be of another type.
    "oneOf": lambda value, parts, _, schema: _fits_one(value, parts, schema),
}


def _fits_one(value: object, parts: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> bool:
    """Whether one alternative surely fits and no other; jsonschema says of the others that they do not."""
    fitting = [part for part in parts if conforms(value, part, schema)]
    others = (part for part in parts if part not in fitting)
    return len(fitting) == 1 and all(_surely_differs(value, part, schema) for part in others)


def _surely_differs(value: object, part: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Whether a value is of another type, lacks a key, or has one that the part does not know."""
    while "$ref" in part:
        part = {
            **schema["$defs"][part["$ref"].removeprefix("#/$defs/")],
            **{k: v for k, v in part.items() if k != "$ref"},
        }
    if "type" in part and not _is_of_type(value, part["type"]):
        return True
    if not isinstance(value, dict):
        return False
    unknown = part.get("additionalProperties") is False and value.keys() - part.get("properties", {}).keys()
    return bool(unknown) or any(name not in value for name in part.get("required", ()))


# ---------------------------------------------------------------- the mistakes


def _explain(document: Document, error: ValidationError) -> Iterator[SchemaFlaw]:
    keys: Keys = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        yield from _unknown_keys(document, error, keys)
    elif error.validator == "required":
        yield from _missing_keys(document, error, keys)
    elif error.validator == "oneOf":
        yield from _alternatives(document, error, keys)
    elif error.validator == "uniqueItems":
        yield from _twice(document, error, keys)
    elif error.validator == "pattern" and error.parent and error.parent.validator == "propertyNames":
        keys = (*keys, str(error.instance))
        yield SchemaFlaw(keys, Problem(document.where(keys, key=True), _sentence(error)))
    else:
        yield SchemaFlaw(keys, Problem(document.where(keys), _sentence(error)))


def _unknown_keys(document: Document, error: ValidationError, keys: Keys) -> Iterator[SchemaFlaw]:
    known = _schema(error).get("properties", {})
    for name in _mapping_of(error).keys() - known.keys():
        what = f'unknown key "{name}", {nearest(name, known)}'
        yield SchemaFlaw((*keys, name), Problem(document.where((*keys, name), key=True), what))


def _missing_keys(document: Document, error: ValidationError, keys: Keys) -> Iterator[SchemaFlaw]:
    for name in _schema(error)["required"]:
        if name not in _mapping_of(error):
            meaning = _schema(error)["properties"][name]["description"]
            yield SchemaFlaw((*keys, name), Problem(document.where(keys), f'the key "{name}" is missing: {meaning}'))


def _alternatives(document: Document, error: ValidationError, keys: Keys) -> Iterator[SchemaFlaw]:
    """Explain by the first alternative whose type fits; if none fits, report the expected value."""
    branches: dict[int, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(int(inner.relative_schema_path[0]), []).append(inner)
    fitting = (inners for inners in branches.values() if not any(_is_other_type(inner, error) for inner in inners))
    chosen = next(fitting, None)
    if chosen is None:
        yield SchemaFlaw(keys, Problem(document.where(keys), _sentence(error)))
    for inner in chosen or ():
        yield from _explain(document, inner)


def _is_other_type(inner: ValidationError, error: ValidationError) -> bool:
    return inner.validator == "type" and inner.absolute_path == error.absolute_path


def _twice(document: Document, error: ValidationError, keys: Keys) -> Iterator[SchemaFlaw]:
    items: Any = error.instance
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        if first.setdefault(json.dumps(item, sort_keys=True, default=str), index) != index:
            yield SchemaFlaw(
                (*keys, index), Problem(document.where((*keys, index)), f"{_format_value(item)} is here twice")
            )


def _sentence(error: ValidationError) -> str:
    found: Any = error.instance
    if error.validator == "enum":
        allowed = [str(value).lower() if isinstance(value, bool) else value for value in _schema(error)["enum"]]
        expected = "expected it without quotes" if found in allowed else nearest(str(found), allowed)
        return f"{_format_value(found)} is not allowed, {expected}"
    if error.validator in {"minItems", "minProperties"}:
        return f"this is empty, expected {_expectation(error)}"
    return f"{_format_value(found)} is not allowed, expected {_expectation(error)}"


def _expectation(error: ValidationError) -> str:
    return str(_schema(error).get("description", error.message))


def _schema(error: ValidationError) -> Mapping[str, Any]:
    """Return the part of the schema that was violated; in our schemas it is always a mapping."""
    return error.schema  # type: ignore[return-value]


def _mapping_of(error: ValidationError) -> Mapping[str, Any]:
    """Return the violating value, which the schema has already shown to be a mapping."""
    return error.instance  # type: ignore[return-value]


def _format_value(value: object) -> str:
    """Return a value for a message: on one line, and shortened if it is long."""
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= MAX_SHOWN else f'{text[:MAX_SHOWN]}…"'
    return KINDS.get(type(value)) or str(value).lower()
