"""What stands for names of the standard library that not every Python has on which Fatwheel runs.

Some have an equivalent that any Python can run. All others are stand-ins: they exist, and their use is a doubt.
"""

from __future__ import annotations

import ast
import builtins
import configparser
import datetime  # noqa: ICN001 - by its own name
import enum
import functools
import itertools
import os
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, NoReturn

from ci_tools.observe.inside.facts import FACTS

# Modules whose names only annotate: a build does not depend on them.
ANNOTATIONS = frozenset({"_collections_abc", "_typeshed", "collections.abc", "types", "typing"})
ERRORS = ("Error", "ErrorGroup", "Exception", "ExceptionGroup", "Warning")


# ---------------------------------------------------------------- equivalents


class StrEnum(str, enum.Enum):
    """`enum.StrEnum` of Python 3.11."""

    def _generate_next_value_(name: str, *_: Any) -> str:  # type: ignore[override]
        return name.lower()

    __str__ = str.__str__
    __format__ = str.__format__


def batched(iterable: Iterable[Any], n: int, *, strict: bool = False) -> Iterator[tuple[Any, ...]]:
    """`itertools.batched` of Python 3.12."""
    items = iter(iterable)
    while batch := tuple(itertools.islice(items, n)):
        if strict and len(batch) != n:
            raise ValueError("batched(): incomplete batch")
        yield batch


class chdir:
    """`contextlib.chdir` of Python 3.11."""

    def __init__(self, path: Any) -> None:
        self.path, self.before = path, [""]

    def __enter__(self) -> None:
        self.before.append(os.getcwd())
        os.chdir(self.path)

    def __exit__(self, *_: object) -> None:
        os.chdir(self.before.pop())


def _walk(path: Any, top_down: bool = True, on_error: Any = None, follow_symlinks: bool = False) -> Iterator[Any]:
    for folder, folders, files in os.walk(path, top_down, on_error, follow_symlinks):
        yield type(path)(folder), folders, files


def _read_file(parser: Any, source: Any, filename: Any = None) -> None:
    parser.read_file(source, filename)


def _literal(*kinds: type) -> type:
    """Return a class of which constants with such values are instances: `ast.Str`, which Python 3.14 removed."""

    class Literal(type):
        def __instancecheck__(cls, node: Any) -> bool:
            return isinstance(node, ast.Constant) and type(node.value) in kinds

        def __call__(cls, value: Any, **kwargs: Any) -> ast.Constant:
            return ast.Constant(value, **kwargs)

    return Literal("Literal", (), {})


# By the names under which the table has them.
EQUIVALENTS: dict[str, Any] = {
    "ast.Bytes": _literal(bytes),
    "ast.Constant.n": property(lambda node: node.value),
    "ast.Constant.s": property(lambda node: node.value),
    "ast.Ellipsis": _literal(type(...)),
    "ast.NameConstant": _literal(bool, type(None)),
    "ast.Num": _literal(int, float, complex),
    "ast.Str": _literal(str),
    "configparser.RawConfigParser.readfp": _read_file,
    "configparser.SafeConfigParser": type("SafeConfigParser", (configparser.ConfigParser,), {}),
    "contextlib.chdir": chdir,
    "datetime.UTC": datetime.timezone.utc,
    "enum.StrEnum": StrEnum,
    "itertools.batched": batched,
    "pathlib.Path.is_junction": lambda _: False,
    "pathlib.Path.walk": _walk,
    # As winbase.h has them; they change a window, which no build reads, and `programs` drops what a program gets.
    "subprocess.CREATE_NO_WINDOW": 0x08000000,
    "subprocess.STARTF_USESHOWWINDOW": 0x1,
    "subprocess.STARTUPINFO": functools.partial(SimpleNamespace, dwFlags=0),
    "subprocess.SW_HIDE": 0,
}


# ---------------------------------------------------------------- stand-ins


def make_stand_in(module: str, name: str) -> type:
    """Return an object that exists, as the cell's does; to use it is a doubt, except for a name that only annotates."""
    if module in ANNOTATIONS:
        return _Annotation(name, (), {})
    bases = (Exception,) if name.endswith(ERRORS) or (name in vars(builtins) and name.endswith("Group")) else ()
    return _StandIn(name, bases, {"__full__": f"{module}.{name}"})


class _Annotation(type):
    """A name of `typing` that takes any arguments, and decorates without an effect."""

    def __getitem__(cls, _: Any) -> Any:
        return cls

    def __call__(cls, *args: Any, **__: Any) -> Any:
        return args[0] if args and callable(args[0]) else cls

    def __or__(cls, _: Any) -> Any:
        return cls

    __ror__ = __or__


class _StandIn(type):
    """The class of stand-ins. A class, so that a project can inherit from one, or name it in `except`."""

    def __new__(cls, name: str, bases: tuple[type, ...], fields: dict[str, Any]) -> Any:
        for base in bases:
            if isinstance(base, _StandIn):
                _use(base)
        return super().__new__(cls, name, bases, fields)

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        _refuse(cls)

    def __getattr__(cls, name: str) -> NoReturn:
        _refuse(cls)

    def __instancecheck__(cls, instance: Any) -> bool:
        _use(cls)
        return False

    def __eq__(cls, other: object) -> bool:
        if cls is not other:
            _use(cls)
        return cls is other

    def __hash__(cls) -> int:
        _use(cls)
        return id(cls)

    def __iter__(cls) -> NoReturn:
        _refuse(cls)

    def __int__(cls) -> NoReturn:
        _refuse(cls)

    __index__ = __float__ = __int__
    __or__ = __ror__ = __and__ = __rand__ = __add__ = __radd__ = lambda cls, _: _refuse(cls)
    __getitem__ = __lt__ = __gt__ = __le__ = __ge__ = lambda cls, _: _refuse(cls)


def _use(kind: Any) -> None:
    FACTS.doubt(
        f"uses {type.__getattribute__(kind, '__dict__').get('__full__', kind.__name__)}, which is not simulated"
    )


def _refuse(kind: Any) -> NoReturn:
    _use(kind)
    raise NotImplementedError(f"{kind.__name__} is not simulated")
