"""From what a user writes after `--to` to the target it names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.errors import InputError, nearest
from ci_tools.targets import UPLOADERS
from ci_tools.targets.store import FolderStore
from ci_tools.targets.wheelindex import WheelIndex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_tools.outside import Outside
    from ci_tools.targets import Target

__all__ = ["channel_of", "index_of", "targets_of"]

FORMS = {
    "dir": "dir:PATH",
    "s3": "s3://BUCKET/PREFIX",
    "github": "github:OWNER/REPO",
    "pypi": "pypi[:NAME or URL]",
}
UNWRITABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # in no name that can be shown and typed again


def targets_of(
    addresses: Iterable[str], outside: Outside, *, replace: bool = False, uploader: str = UPLOADERS[0]
) -> tuple[Target, ...]:
    """Return the targets that some addresses name, each once in however many spellings.

    Raises InputError for an address that names none.

    `replace` is of indexes of one's own; `uploader` is the program that uploads to PyPI and its like.
    """
    targets = (_target(address, outside, replace, uploader) for address in addresses)
    return tuple({target.address: target for target in targets}.values())


def _target(address: str, outside: Outside, replace: bool, uploader: str) -> Target:  # noqa: FBT001 - see targets_of
    kind, _, rest = _writable(address).partition(":")
    if kind in {"dir", "s3"}:
        return index_of(address, outside, replace=replace)
    if kind == "github" and rest:
        from ci_tools.targets.github import GitHubTarget  # noqa: PLC0415 - each target loads the client it needs alone

        return GitHubTarget(rest, outside)
    if kind == "pypi":
        from ci_tools.targets.pypi import PyPITarget  # noqa: PLC0415 - see above

        return PyPITarget(rest, outside, uploader=uploader)
    raise _unknown(address)


def index_of(address: str, outside: Outside, *, replace: bool = False) -> WheelIndex:
    """Return the index that an address names: a folder, or a bucket; raise InputError for anything else."""
    kind, _, rest = _writable(address).partition(":")
    if kind == "dir" and rest:
        return WheelIndex(FolderStore(_folder(rest), outside.reporter), order=0, replace=replace)
    if kind == "s3":
        from ci_tools.targets.bucket import BucketStore, place_of  # noqa: PLC0415 - see above

        return WheelIndex(BucketStore(place_of(address)), order=1, replace=replace)
    raise _unknown(address, "dir", "s3")


def channel_of(index: WheelIndex, channel: str, outside: Outside) -> WheelIndex:
    """Return a channel of an index (`nightly/`, `test/`) as the index of its own that it is; with "" the index."""
    folder = channel.rstrip("/")
    if not folder:
        return index
    if isinstance(index.store, FolderStore):
        return index_of(f"dir:{index.store.root / folder}", outside)
    from ci_tools.targets.bucket import BucketStore  # noqa: PLC0415 - see above

    if not isinstance(index.store, BucketStore):
        raise TypeError(index.store)
    place = index.store.place
    public = f"{place.public}/{folder}" if place.public else ""
    below = place._replace(prefix=f"{place.prefix}/{folder}".lstrip("/"), public=public)
    return WheelIndex(BucketStore(below), order=index.order, replace=index.replace)


def _unknown(address: str, *kinds: str) -> InputError:
    forms = [FORMS[kind] for kind in kinds or FORMS]
    known = f"expected {', '.join(forms[:-1])} or {forms[-1]}"
    kind = address.partition(":")[0]
    close = nearest(kind, FORMS) if kind not in FORMS else ""
    shown = "…" if "@" in address else address  # what stands before an @ may be a password
    return InputError(f'"{shown}" is no {"index" if kinds else "target"}, {known}', hint=close)


def _writable(address: str) -> str:
    """Return an address; raise InputError where it holds a character that nobody could type again."""
    found = UNWRITABLE.search(address)
    if found:
        msg = f"a target's address holds the character U+{ord(found[0]):04X}, expected {' or '.join(FORMS.values())}"
        raise InputError(msg)
    return address


def _folder(path: str) -> Path:
    """Return the one name of a folder, however it was written."""
    try:
        folder = Path(path).expanduser().resolve()
    except (OSError, RuntimeError) as error:  # nobody of that name, or links that lead round
        msg = f"dir:{path} is no folder: {error}"
        raise InputError(msg, hint="expected a path such as dir:/srv/wheels") from None
    if folder.exists() and not folder.is_dir():
        msg = f"dir:{path} is a file, expected a folder"
        raise InputError(msg)
    return folder
