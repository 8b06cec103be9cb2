"""From what a user writes after `--to` to the target it names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.errors import InputError, nearest
from ci_tools.targets.store import FolderStore
from ci_tools.targets.wheelindex import WheelIndex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_tools.outside import Outside
    from ci_tools.targets import Target

__all__ = ["UPLOADERS", "index_of", "targets_of"]

UPLOADERS = ("twine", "uv")
FORMS = {
    "dir": "dir:PATH",
    "s3": "s3://BUCKET/PREFIX",
    "github": "github:OWNER/REPO",
    "pypi": "pypi[:NAME or URL]",
}


def targets_of(
    addresses: Iterable[str], outside: Outside, *, replace: bool = False, uploader: str = UPLOADERS[0]
) -> tuple[Target, ...]:
    """Return the targets that some addresses name, each once; raise InputError for one that names none.

    `replace` is of indexes of one's own; `uploader` is the program that uploads to PyPI and its like.
    """
    return tuple(_target(address, outside, replace, uploader) for address in dict.fromkeys(addresses))


def _target(address: str, outside: Outside, replace: bool, uploader: str) -> Target:  # noqa: FBT001 - see targets_of
    kind, _, rest = address.partition(":")
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
    kind, _, rest = address.partition(":")
    if kind == "dir" and rest:
        return WheelIndex(FolderStore(_folder(rest), outside.reporter), order=0, replace=replace)
    if kind == "s3":
        from ci_tools.targets.bucket import BucketStore, place_of  # noqa: PLC0415 - see above

        return WheelIndex(BucketStore(place_of(address)), order=1, replace=replace)
    raise _unknown(address, "dir", "s3")


def _unknown(address: str, *kinds: str) -> InputError:
    forms = [FORMS[kind] for kind in kinds or FORMS]
    known = f"expected {', '.join(forms[:-1])} or {forms[-1]}"
    kind = address.partition(":")[0]
    close = nearest(kind, FORMS) if kind not in FORMS else ""
    return InputError(f'"{address}" is no {"index" if kinds else "target"}, {known}', hint=close)


def _folder(path: str) -> Path:
    folder = Path(path).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        msg = f"dir:{path} is a file, expected a folder"
        raise InputError(msg)
    return folder
