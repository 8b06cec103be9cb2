"""Writes the wheels of a GitHub Release that have second names, which a project's own setup.py asks for.

Such a setup.py renames what it fetches to its plain version, and pip compares that with the metadata. So these copies
have the plain version inside, although their names have a local one: they are for such a setup.py only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.errors import Rejected
from ci_tools.formats.relabel import write_plain
from ci_tools.index.units import Alias
from ci_tools.install.fatwheel_backend import LABEL
from ci_tools.machine.storage import fill_once, sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from ci_tools.index.units import Item

FOLDER = ".aliases"  # of these copies, in a folder of finished files


def aliases_of(
    items: Iterable[Item], names: Mapping[str, str], folder: Path, say: Callable[[str], None]
) -> tuple[Alias, ...]:
    """Return the files of some wheels under their second names; each wheel is written once, below `folder`."""
    return tuple(alias for item in items for alias in _aliases(item, names, folder, say))


def _aliases(item: Item, names: Mapping[str, str], folder: Path, say: Callable[[str], None]) -> Iterator[Alias]:
    own = sorted(name for name, wheel in names.items() if wheel == item.name)
    if not own:
        return
    local = item.name.split("-")[1].partition("+")[2]

    def fill(empty: Path) -> None:
        if sha256_of(item.path) != item.sha256:
            msg = f"{item.path} changed while it was published"
            raise Rejected(msg)
        write_plain(item.path, empty / item.name, {LABEL: local.encode()})

    path = fill_once(folder / item.sha256[:16], fill, say) / item.name
    sha256, size = sha256_of(path), path.stat().st_size
    yield from (Alias(name, path, sha256, size) for name in own)
