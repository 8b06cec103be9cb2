"""Makes signatures of the rows in the table of torch's names."""

from __future__ import annotations

import ast
import functools
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["accepts", "make_signature"]

EMPTY = inspect.Parameter.empty


@functools.cache
def make_signature(row: str) -> inspect.Signature:
    """Return the signature in a row such as `f(a, *, b=1)`."""
    args = ast.parse(f"def f{row[1:]}: pass").body[0].args  # type: ignore[attr-defined]
    return inspect.Signature([*_list_parameters(args)])


def _list_parameters(args: ast.arguments) -> Iterator[inspect.Parameter]:
    plain = [(one, inspect.Parameter.POSITIONAL_ONLY) for one in args.posonlyargs]
    plain += [(one, inspect.Parameter.POSITIONAL_OR_KEYWORD) for one in args.args]
    defaults = [EMPTY] * (len(plain) - len(args.defaults)) + [*map(ast.literal_eval, args.defaults)]
    for (one, kind), default in zip(plain, defaults, strict=True):
        yield inspect.Parameter(one.arg, kind, default=default)
    if args.vararg:
        yield inspect.Parameter(args.vararg.arg, inspect.Parameter.VAR_POSITIONAL)
    for one, value in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        default = EMPTY if value is None else ast.literal_eval(value)
        yield inspect.Parameter(one.arg, inspect.Parameter.KEYWORD_ONLY, default=default)
    if args.kwarg:
        yield inspect.Parameter(args.kwarg.arg, inspect.Parameter.VAR_KEYWORD)


def accepts(row: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return why a function with that row does not take such a call; "" if it does, or nobody knows its parameters."""
    if not row.startswith("f("):
        return ""
    try:
        make_signature(row).bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return ""
