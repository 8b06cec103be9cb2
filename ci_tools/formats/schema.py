"""Explains violations of a JSON Schema to the person who wrote the file.

The schema's `description` of a value becomes the end of the sentence: "expected …".
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from ci_tools.errors import Problem, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_tools.formats.yaml_file import Document, Keys

__all__ = ["Flaw", "flaws"]

KINDS = {dict: "a mapping", list: "a list", type(None): "an empty value"}
MOST_SHOWN = 60  # characters of a value that a message repeats


class Flaw(NamedTuple):
    """A value that violates the schema or is missing, and the problem to report."""

    keys: Keys
    problem: Problem


def _pattern(_: object, pattern: str, value: object, __: object) -> Iterator[ValidationError]:
    """Match as JSON Schema does: `$` is the very end of a text, while Python's also matches before a last line feed."""
    if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


SchemaValidator = extend(Draft202012Validator, {"pattern": _pattern})  # type: ignore[no-untyped-call]


def flaws(document: Document, schema: Mapping[str, Any]) -> list[Flaw]:
    """Return every violation of the schema in the document, each once."""
    errors = SchemaValidator(schema).iter_errors(document.value)
    return list(dict.fromkeys(flaw for error in errors for flaw in _explain(document, error)))


def _explain(document: Document, error: ValidationError) -> Iterator[Flaw]:
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
        yield Flaw(keys, Problem(document.where(keys, key=True), _sentence(error)))
    else:
        yield Flaw(keys, Problem(document.where(keys), _sentence(error)))


def _unknown_keys(document: Document, error: ValidationError, keys: Keys) -> Iterator[Flaw]:
    known = _schema(error).get("properties", {})
    for name in _mapping_of(error).keys() - known.keys():
        what = f'unknown key "{name}", {nearest(name, known)}'
        yield Flaw((*keys, name), Problem(document.where((*keys, name), key=True), what))


def _missing_keys(document: Document, error: ValidationError, keys: Keys) -> Iterator[Flaw]:
    for name in _schema(error)["required"]:
        if name not in _mapping_of(error):
            meaning = _schema(error)["properties"][name]["description"]
            yield Flaw((*keys, name), Problem(document.where(keys), f'the key "{name}" is missing: {meaning}'))


def _alternatives(document: Document, error: ValidationError, keys: Keys) -> Iterator[Flaw]:
    """Explain by the first alternative whose type fits; if none fits, report the expected value."""
    branches: dict[int, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(int(inner.relative_schema_path[0]), []).append(inner)
    fitting = (inners for inners in branches.values() if not any(_is_other_type(inner, error) for inner in inners))
    chosen = next(fitting, None)
    if chosen is None:
        yield Flaw(keys, Problem(document.where(keys), _sentence(error)))
    for inner in chosen or ():
        yield from _explain(document, inner)


def _is_other_type(inner: ValidationError, error: ValidationError) -> bool:
    return inner.validator == "type" and inner.absolute_path == error.absolute_path


def _twice(document: Document, error: ValidationError, keys: Keys) -> Iterator[Flaw]:
    items: Any = error.instance
    for index, item in enumerate(items):
        if item in items[:index]:
            yield Flaw((*keys, index), Problem(document.where((*keys, index)), f"{_format_value(item)} is here twice"))


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
        return text if len(text) <= MOST_SHOWN else f'{text[:MOST_SHOWN]}…"'
    return KINDS.get(type(value)) or str(value).lower()
