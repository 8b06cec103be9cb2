"""JSON to frozen values and back: a strict converter, whose errors name each wrong key.

Fatwheel's own files carry a digest of their content, so that a byte damaged on the disk is detected. The digest is not
a signature: anyone who can write the file can also write a digest.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from ci_tools.errors import Problem, RejectedInput, nearest
from ci_tools.model.names import Name
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.model.versions import Minor, Python

if TYPE_CHECKING:
    import cattrs

SEAL = "seal"  # the key of the digest

Value = TypeVar("Value")

KINDS = {  # the words of messages for the types of JSON
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def parse(data: bytes | str) -> Any:  # noqa: ANN401 - JSON
    """Return the values of a JSON text; raise ValueError if it is not JSON, is not UTF-8, or is nested too deeply."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def structure_bytes(data: bytes | str, kind: type[Value], where: str, *, hint: str = "") -> Value:
    """Return the value that a JSON text holds, and no other key; raise RejectedInput with every wrong key.

    `where` names the text in messages.
    """
    try:
        value = parse(data)
    except ValueError as error:
        raise RejectedInput([Problem(where, f"this is not JSON: {error}")], hint=hint) from error
    return structure(value, kind, where, exact=True, hint=hint)


def structure(
    value: object, kind: type[Value], where: str, *, exact: bool = False, kept: tuple[type, ...] = (), hint: str = ""
) -> Value:
    """Return JSON values as a frozen value; raise RejectedInput with every wrong key.

    `where` is FILE or `FILE: KEY.KEY`, the place of the value. If `exact`, keys that no field has are wrong, too.
    Values of the types in `kept` are frozen already.
    """
    import cattrs  # noqa: PLC0415 - a plan, which only writes JSON, does not wait for it

    file, _, keys = where.partition(": ")
    try:
        return _converter(exact=exact, kept=kept).structure(value, kind)
    except cattrs.BaseValidationError as error:
        found = cattrs.transform_error(error, path=keys or kind.__name__.lower(), format_exception=_describe_error)
        # cattrs ends a message with its place: "… @ plan.jobs[0].wheel"
        parts = (message.rpartition(" @ ") for message in found)
        raise RejectedInput([Problem(f"{file}: {place}", what) for what, _, place in parts], hint=hint) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # raised outside the fields of any value
        message = f"{keys or 'this'} is not a {kind.__name__.lower()}: {error}"
        raise RejectedInput([Problem(file, message)], hint=hint) from error


@functools.cache
def _converter(*, exact: bool, kept: tuple[type, ...]) -> cattrs.Converter:
    """Return the strict converter: a number is not a text, and a text is neither a number nor a list."""
    import cattrs  # noqa: PLC0415 - see `structure`
    from cattrs.cols import is_namedtuple, namedtuple_dict_structure_factory  # noqa: PLC0415
    from cattrs.gen import make_dict_structure_fn  # noqa: PLC0415

    made = cattrs.Converter(forbid_extra_keys=exact)
    made.register_structure_hook_factory(_is_tuple, _make_tuple_hook(made))
    made.register_structure_hook_factory(is_dataclass, _require_object(make_dict_structure_fn, made))

    def make_namedtuple_hook(kind: Any, own: cattrs.Converter) -> Any:  # noqa: ANN401 - see `_require_object`
        # cattrs asks the converter whether other keys are wrong for dataclasses, and not for NamedTuples.
        return namedtuple_dict_structure_factory(kind, own, "from_converter", exact)

    made.register_structure_hook_factory(is_namedtuple, _require_object(make_namedtuple_hook, made))
    for plain in (str, int, bool):
        made.register_structure_hook(plain, require_type)
    made.register_structure_hook(float, lambda value, _: float(require_type(value, float, int)))
    for name in (AcceleratorKind, *Name.__subclasses__()):
        made.register_structure_hook(name, _read_name)
    made.register_structure_hook(Minor, lambda value, _: Minor.parse_torch(require_type(value, str)))
    made.register_structure_hook(Python, lambda value, _: Python.parse(require_type(value, str)))
    for own in kept:
        made.register_structure_hook(own, lambda value, _: value)
    return made


def _read_name(value: object, kind: type[AcceleratorKind | Name]) -> AcceleratorKind | Name:
    names = AcceleratorKind.known if issubclass(kind, AcceleratorKind) else {str(name): name for name in kind}
    text = require_type(value, str)
    if text not in names:
        raise ValueError(f'"{text}" is unknown, {nearest(text, names)}')
    return names[text]


def _is_tuple(kind: Any) -> bool:  # noqa: ANN401 - any type
    return get_origin(kind) is tuple


def _make_tuple_hook(own: cattrs.Converter) -> Callable[[Any], Callable[[Any, Any], Any]]:
    """Return the maker of hooks for tuples: cattrs itself would take a text as a list of characters."""

    def make_hook(kind: Any) -> Callable[[Any, Any], Any]:  # noqa: ANN401 - any type
        kinds = get_args(kind)
        if kinds[-1] is Ellipsis:
            return lambda value, _: tuple(own.structure(require_type(value, list), list[kinds[0]]))  # type: ignore[valid-type]
        return lambda value, _: tuple(
            own.structure(item, one) for item, one in zip(_require_length(value, len(kinds)), kinds, strict=True)
        )

    return make_hook


def _require_object(make_plain: Any, own: cattrs.Converter) -> Callable[[Any], Callable[[Any, Any], Any]]:  # noqa: ANN401
    """Return the maker of hooks that refuse all but an object, before they ask it for each of its fields."""

    def make_hook(kind: Any) -> Callable[[Any, Any], Any]:  # noqa: ANN401 - any type
        plain = make_plain(kind, own)
        return lambda value, _: plain(require_type(value, dict), kind)

    return make_hook


def _require_length(value: Any, count: int) -> Any:  # noqa: ANN401 - JSON
    if len(require_type(value, list)) != count:
        raise ValueError(f"expected {count} values, found {len(value)}")
    return value


def require_type(value: Any, *kinds: type) -> Any:  # noqa: ANN401 - JSON
    """Return a value of exactly one of these types; raise ValueError for any other: True is not a number."""
    if type(value) not in kinds:
        msg = f"expected {KINDS[kinds[0]]}, found {KINDS.get(type(value), 'null')}"
        raise ValueError(msg)  # the converter collects these errors
    return value


def _describe_error(error: BaseException, _: type | None) -> str:
    """Return in words what is wrong with one value."""
    import cattrs  # noqa: PLC0415 - see `structure`

    if isinstance(error, KeyError):
        return "this key is missing"
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        return f"unknown keys: {', '.join(sorted(error.extra_fields))}"
    return "expected an object" if isinstance(error, AttributeError) else str(error)  # a mapping has items


def unstructure(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return frozen values as JSON values: an object for each dataclass and NamedTuple, a list for each tuple."""
    if isinstance(value, (AcceleratorKind, Minor, Name, Python)):
        return str(value)
    if is_dataclass(value):
        return {field.name: unstructure(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        items = [unstructure(item) for item in value]
        return dict(zip(names, items, strict=True)) if names else items
    if isinstance(value, Mapping):
        return {str(key): unstructure(item) for key, item in value.items()}
    return value


# ---------------------------------------------------------------- files with a digest


def sealed(table: dict[str, Any]) -> bytes:
    """Return an object as JSON, with the digest of its content."""
    return json.dumps({**table, SEAL: digest(_spelled(table))}, indent=1).encode()


def unsealed(data: bytes) -> dict[str, Any]:
    """Return the object that `sealed` wrote; raise ValueError if its content has changed."""
    table = parse(data)
    if not isinstance(table, dict) or table.pop(SEAL, None) != digest(_spelled(table)):
        raise ValueError("its content has changed since it was written")
    return table


def digest(data: bytes) -> str:
    """Return the sha256 of the bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def _spelled(table: dict[str, Any]) -> bytes:
    return json.dumps(table, indent=1).encode()
