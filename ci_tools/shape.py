"""What a violation of a JSON Schema means to the person who wrote the file.

The schema's own `description` of a value is the sentence's end: "expected …".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

from ci_tools.errors import Problem, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema.exceptions import ValidationError

    from ci_tools.yamlfile import Document, Keys

__all__ = ["problems"]

KINDS = {dict: "a mapping", list: "a list", type(None): "nothing"}


def problems(document: Document, schema: Mapping[str, Any]) -> list[Problem]:
    """Return every place where the document has another shape than the schema asks for, each once."""
    errors = Draft202012Validator(schema).iter_errors(document.value)
    return list(dict.fromkeys(problem for error in errors for problem in _explain(document, error)))


def _explain(document: Document, error: ValidationError) -> Iterator[Problem]:
    keys: Keys = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        yield from _unknown_keys(document, error, keys)
    elif error.validator == "required":
        yield from _missing_keys(document, error, keys)
    elif error.validator == "oneOf":
        yield from _alternatives(document, error, keys)
    elif error.validator == "pattern" and error.parent and error.parent.validator == "propertyNames":
        yield Problem(document.where(keys), f"{_shown(error.instance)} is not {_expected(error)}")
    else:
        yield Problem(document.where(keys), _sentence(error))


def _unknown_keys(document: Document, error: ValidationError, keys: Keys) -> Iterator[Problem]:
    known = _schema(error).get("properties", {})
    for name in _found(error).keys() - known.keys():
        yield Problem(document.where((*keys, name), key=True), f'unknown key "{name}", {nearest(name, known)}')


def _missing_keys(document: Document, error: ValidationError, keys: Keys) -> Iterator[Problem]:
    for name in _schema(error)["required"]:
        if name not in _found(error):
            meaning = _schema(error)["properties"][name].get("description", "it is required")
            yield Problem(document.where(keys), f'the key "{name}" is missing: {meaning}')


def _alternatives(document: Document, error: ValidationError, keys: Keys) -> Iterator[Problem]:
    """Explain by the first alternative whose type fits, or say what was expected where none does."""
    branches: dict[int, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(int(inner.relative_schema_path[0]), []).append(inner)
    fitting = (inners for inners in branches.values() if not any(_is_other_type(inner, error) for inner in inners))
    chosen = next(fitting, None)
    if chosen is None:
        yield Problem(document.where(keys), _sentence(error))
    for inner in chosen or ():
        yield from _explain(document, inner)


def _is_other_type(inner: ValidationError, error: ValidationError) -> bool:
    return inner.validator == "type" and inner.absolute_path == error.absolute_path


def _sentence(error: ValidationError) -> str:
    found: Any = error.instance
    if error.validator == "enum":
        allowed = [str(value).lower() if isinstance(value, bool) else value for value in _schema(error)["enum"]]
        return f"{_shown(found)} is not allowed, {nearest(str(found), allowed)}"
    if error.validator == "uniqueItems":
        twice = next(item for index, item in enumerate(found) if item in found[:index])
        return f"{_shown(twice)} is here twice"
    if error.validator in {"minItems", "minProperties"}:
        return f"this is empty, expected {_expected(error)}"
    return f"{_shown(found)} is not allowed, expected {_expected(error)}"


def _expected(error: ValidationError) -> str:
    return str(_schema(error).get("description", error.message))


def _schema(error: ValidationError) -> Mapping[str, Any]:
    """Return the part of the schema that was violated; ours is a mapping everywhere."""
    return error.schema  # type: ignore[return-value]


def _found(error: ValidationError) -> Mapping[str, Any]:
    """Return the violating value where the schema has shown that it is a mapping."""
    return error.instance  # type: ignore[return-value]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return KINDS.get(type(value)) or f'"{value}"'
