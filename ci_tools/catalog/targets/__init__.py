"""The kinds of targets that a release is published to: each is the one `TargetKind` in a module of this folder.

A kind says all that is to be known of an address without opening it; `opens` names the function that opens one.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetKind:
    """One kind of target, by what its addresses begin with."""

    prefix: str  # dir, of dir:PATH
    form: str  # for people: dir:PATH
    pattern: str  # of a whole address, a regular expression
    # The module and the function that open one: of an index, `(address, outside)` gives its store; of another target,
    # `(rest, outside)` gives the target, where `rest` is what follows the prefix.
    opens: str
    check: str = ""  # the function, also as MODULE:NAME, that raises InputError for a wrong address
    order: int = 2  # of activation: the lowest comes first
    is_local: bool = False  # whether it is on this machine: it takes a commit without a tag, and a part of a release
    is_index: bool = False  # whether it is an index of our own: it has mirrors and settings, and takes wheel variants
    has_query: bool = False  # whether an address may have a query that is no setting of an index
    takes_uploader: bool = False  # whether `uploader`, a program, is given too
    has_login: bool = False  # whether a job logs in to it, by `aws-role` or by keys
    takes_aliases: bool = False  # whether it takes wheels under second names
    rights: tuple[tuple[str, str], ...] = ()  # permissions that a workflow grants: ("contents", "write")

    def open(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - a target or a store, see `opens`
        """Return the target or the store, loading the client that only it needs."""
        return load(self.opens)(*given, **named)


KINDS: dict[str, TargetKind] = {}  # by prefix


def discover() -> None:
    """Add the target kind of each module in the folders of this package."""
    found = [importlib.import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__)]
    kinds = [value for module in found for value in vars(module).values() if isinstance(value, TargetKind)]
    KINDS.update({kind.prefix: kind for kind in sorted(kinds, key=lambda kind: kind.order)})


def kind_of(address: str) -> TargetKind | None:
    """Return the kind of an address; None if it is of no target."""
    return KINDS.get(address.partition(":")[0])


def is_local(address: str) -> bool:
    """Whether a target is on this machine."""
    kind = kind_of(address)
    return kind is not None and kind.is_local


def split_places(address: str) -> tuple[str, ...]:
    """Return the places of a target: one, or an index and its mirrors, which hold the same: `s3://a/whl|s3://b/whl`."""
    indexes = "|".join(kind.prefix for kind in KINDS.values() if kind.is_index)
    return tuple(re.split(rf"\|(?=(?:{indexes}):)", address))


def load(name: str) -> Any:  # noqa: ANN401 - any function
    """Return the function that MODULE:NAME names."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


discover()
