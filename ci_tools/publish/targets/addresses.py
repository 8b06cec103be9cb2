"""Parses the addresses that a user gives to `--to` into targets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.catalog.targets import KINDS, TargetKind, kind_of, load, split_places
from ci_tools.errors import InputError, MachineError, nearest
from ci_tools.index.manifest import Root
from ci_tools.index.objects.store import FolderStore, Store
from ci_tools.index.wheel_index import Settings, WheelIndex
from ci_tools.publish.targets import UPLOADERS, Target

if TYPE_CHECKING:
    from ci_tools.machine.context import Outside

SETTINGS = ("nightlies", "root")  # the settings of an index, in any kind of store
UNWRITABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # characters that cannot be printed and typed again


def targets_of(
    addresses: Iterable[str], outside: Outside, *, replace: bool = False, uploader: str = UPLOADERS[0]
) -> tuple[Target, ...]:
    """Return the targets that some addresses name; two spellings of one target give it once.

    Raises InputError for an address that names no target.

    `replace` applies to the user's own indexes only; `uploader` is the program that uploads to PyPI and similar
    indexes.
    """
    targets = (one for address in addresses for one in _targets(address, outside, replace, uploader))
    return tuple({target.address: target for target in targets}.values())  # a dict keeps the first place


def _targets(address: str, outside: Outside, replace: bool, uploader: str) -> tuple[Target, ...]:  # noqa: FBT001
    kind = _kind(_writable(address))
    if kind.is_index:
        return indexes_of(address, outside, replace=replace)
    more = {"uploader": uploader} if kind.takes_uploader else {}
    target: Target = kind.open(address.partition(":")[2], outside, **more)
    return (target,)


def _kind(address: str) -> TargetKind:
    """Return the kind of an address; raise InputError if it is not the address of a target."""
    kind = kind_of(address)
    if kind is None or not re.fullmatch(kind.pattern, address, re.DOTALL):
        raise _unknown(address)
    return kind


def refuse_wrong(addresses: Iterable[str], *, distant: bool) -> None:
    """Raise InputError for an address that is not a target, or with `distant` for a folder: it goes with its runner.

    Whether the name of a package index is known is not checked: the settings of another machine may have it.
    """
    for place in (place for address in addresses for place in split_places(_writable(address))):
        kind = _kind(place)
        if kind.check:
            load(kind.check)(_settings(place)[0])
        if distant and kind.is_local:
            msg = f"{place} is a folder of the runner, which is deleted with it"
            hint = f"publish to {', '.join(_list_forms(distant=True))}, or on your own machine"
            raise InputError(msg, hint=hint, page="how-to/publish-from-a-workflow.md#what-to-grant")


def indexes_of(address: str, outside: Outside, *, replace: bool = False) -> tuple[WheelIndex, ...]:
    """Return the index that an address names, and its mirrors; raise InputError for a repeated place or no index.

    A mirror has the same entry for each file as the first index, including its upload time.
    """
    first, *others = (index_of(place, outside, replace=replace) for place in split_places(address))
    for mirror in others:
        mirror.like = first  # else its upload times would differ, and PEP 700 shows them
    found = (first, *others)
    if len({index.address for index in found}) < len(found):
        raise InputError(f"{first.address} is named as its own mirror, expected another place")
    return found


def index_of(address: str, outside: Outside, *, replace: bool = False) -> WheelIndex:
    """Return the index that an address names, a folder or a bucket; raise InputError for any other address."""
    address, settings = _settings(_writable(address))
    kind = kind_of(address)
    if kind is None or not kind.is_index or not re.fullmatch(kind.pattern, address, re.DOTALL):
        raise _unknown(address, *(one.form for one in KINDS.values() if one.is_index))
    store: Store = kind.open(address, outside)
    return WheelIndex(store, order=kind.order, replace=replace, settings=settings)


def refuse_unwritable(targets: Iterable[Target]) -> None:
    """Raise MachineError for a folder that this user may not write to: else only the end of a release would show it."""
    for store in (one.store for one in targets if isinstance(one, WheelIndex)):
        if isinstance(store, FolderStore):
            there = next(one for one in (store.root, *store.root.parents) if one.exists())
            if not os.access(there, os.W_OK | os.X_OK):
                hint = "name another folder, or let this user write there"
                raise MachineError(f"{store.address} cannot be published to: {there} is read-only", hint=hint)


def open_folder(address: str, outside: Outside) -> FolderStore:
    """Return the store of a folder."""
    return FolderStore(find_folder(address), outside.reporter)


def open_bucket(address: str, outside: Outside) -> Store:
    """Return the store of a bucket."""
    from ci_tools.index.objects.bucket import BucketStore  # noqa: PLC0415 - only buckets need its client
    from ci_tools.index.objects.place import place_of  # noqa: PLC0415 - see above

    return BucketStore(place_of(address), outside.reporter)


def channel_of(index: WheelIndex, channel: str, outside: Outside) -> WheelIndex:
    """Return a channel of an index (`nightly/`, `test/`) as its own index; with "" the index itself."""
    folder = channel.rstrip("/")
    if not folder:
        return index
    store = _below(index.store, folder, outside)
    return WheelIndex(store, order=index.order, replace=index.replace, settings=index.settings)


def _below(store: Store, folder: str, outside: Outside) -> Store:
    """Return a folder of a store as its own store."""
    if isinstance(store, FolderStore):
        return FolderStore(store.root / folder, outside.reporter)
    from ci_tools.index.objects.bucket import BucketStore  # noqa: PLC0415 - see `open_bucket`

    if not isinstance(store, BucketStore):
        raise TypeError(store)
    public = f"{store.place.public}/{folder}" if store.place.public else ""
    place = store.place._replace(prefix=f"{store.place.prefix}/{folder}".lstrip("/"), public=public)
    return BucketStore(place, outside.reporter)


def _settings(address: str) -> tuple[str, Settings]:
    """Return an address without the settings of its index, and the settings; other queries belong to the address.

    A folder may have a question mark in its name: the settings begin at one that is followed by settings only.
    """
    kind = kind_of(address)
    has_query = kind is not None and kind.has_query
    place, mark, query = address.partition("?") if has_query else address.rpartition("?")  # the first one, or the last
    pairs = [pair.partition("=")[::2] for pair in query.split("&")] if mark else []
    given = {name: value for name, value in pairs if name in SETTINGS}
    others = "&".join(pair for pair in query.split("&") if pair.partition("=")[0] not in SETTINGS)
    if not given or (others and not has_query):
        return address, Settings()
    if len(given) < len([name for name, _ in pairs if name in SETTINGS]):
        raise InputError(f"{place}: a setting is given twice, expected once")
    root, nightlies = given.get("root"), given.get("nightlies", str(Settings().nightlies))
    if root is not None and root not in set(Root):
        raise InputError(f'{place}: root is "{root}", expected {", ".join(Root)}', hint=nearest(root, Root))
    if not re.fullmatch(r"[1-9]\d{0,4}", nightlies):
        raise InputError(f'{place}: nightlies is "{nightlies}", expected how many versions stay, such as 60')
    settings = Settings(root=Root(root) if root else None, nightlies=int(nightlies))
    return f"{place}?{others}" if others else place, settings


def _unknown(address: str, *indexes: str) -> InputError:
    forms = indexes or _list_forms()
    known = f"expected {', '.join(forms[:-1])} or {forms[-1]}"
    prefix, mark, _ = address.partition(":")
    close = nearest(prefix, (form.partition(":")[0].partition("[")[0] for form in forms)) if prefix not in KINDS else ""
    shown = "…" if "@" in address else address  # the part before an @ may be a password
    if address and not mark and shown == address:
        close = f'the folder is "dir:{address}"'
    return InputError(f'"{shown}" is not {"an index" if indexes else "a target"}, {known}', hint=close)


def _list_forms(*, distant: bool = False) -> tuple[str, ...]:
    return tuple(kind.form for kind in KINDS.values() if not (distant and kind.is_local))


def _writable(address: str) -> str:
    """Return an address; raise InputError for a character that cannot be typed again."""
    found = UNWRITABLE.search(address)
    if found:
        msg = f"a target's address holds the character U+{ord(found[0]):04X}, expected {' or '.join(_list_forms())}"
        raise InputError(msg)
    return address


def find_folder(address: str) -> Path:
    """Return the absolute name of a folder, the same for every spelling; raise InputError for a file."""
    try:
        folder = Path(address.partition(":")[2]).expanduser().resolve()
        with suppress(FileNotFoundError):
            folder.stat()  # since Python 3.13, only this sees a cycle of links
    except (OSError, RuntimeError) as error:  # an unknown user, or a cycle of links
        msg = f"{address} is not a folder: {getattr(error, 'strerror', None) or error}"
        raise InputError(msg, hint="expected a path such as dir:/srv/wheels") from error
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{address} is a file, expected a folder")
    return folder
