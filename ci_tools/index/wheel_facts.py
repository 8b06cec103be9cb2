"""The facts by which a wheel is chosen: those of the lock in a smart sdist, and of the finder of an index."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ci_tools import catalog as catalogs
from ci_tools.catalog import CXX11, Catalog
from ci_tools.catalog.accelerators import read_label
from ci_tools.catalog.accelerators.cuda import CUDA, Cuda, cuda_of
from ci_tools.catalog.accelerators.rocm import ROCM
from ci_tools.catalog.accelerators.xpu import XPU
from ci_tools.model.request import CatalogRow
from ci_tools.model.versions import Minor

if TYPE_CHECKING:
    from ci_tools.install.lock import LockedWheel

TORCH = re.compile(r"torch(\d+\.\d+(?:\.0\.dev\d{8})?)")


class WheelMachines(NamedTuple):
    """For which machines a wheel was built; all fields are empty for a pure wheel."""

    accelerator: str  # cu130
    platform: str  # linux-cuda
    folders: tuple[str, ...]  # the folders of an index that list it, its own first: cu130torch2.10, cu129torch2.10
    lowest: str = ""  # the lowest torch that it serves, if it serves more than one


def add_facts(wheel: LockedWheel, built: WheelMachines, catalog: Catalog) -> LockedWheel:
    """Return a wheel of a lock with the CUDA, the drivers and the range of torch that it was built for."""
    found = read_label(built.accelerator)
    kind, version = (found.kind, str(found.version or "")) if found else (None, "")
    cuda = find_cuda(built.accelerator, catalog)
    served = (cuda_of(read_label(one.partition("torch")[0])) for one in built.folders)  # None for cu1210: it has no dot
    torch = _torches(built.folders[0] if built.folders else "", built.lowest if built.platform else "")
    return wheel._replace(
        cuda=version if kind == CUDA else None,
        serves=tuple(str(one or "") for one in served) if kind == CUDA else (),
        rocm=version if kind == ROCM else None,
        xpu=kind == XPU,
        other="" if kind in {None, CUDA, ROCM, XPU} else built.accelerator,
        driver_sass=cuda.sass_driver if cuda else None,
        driver_ptx=cuda.driver if cuda else None,
        torch=torch,
        cxx11abi=_cxx11abi(built.platform, torch),
    )


def find_cuda(label: str, catalog: Catalog) -> Cuda | None:
    """Return the CUDA of a label such as cu130; None if the catalog lacks it, or the label is of no CUDA."""
    version = cuda_of(read_label(label))
    return catalog.cuda.get(version) if version else None


def drivers_of(label: str, rows: tuple[CatalogRow, ...]) -> tuple[str, ...]:
    """Return the drivers for machine code and for PTX of a CUDA that only a project's rows have, such as cu130.

    Pages of an index are written again later, by those who have our catalog only.
    """
    ours, theirs = (find_cuda(label, catalogs.load(known)) for known in ((), rows))
    return (theirs.sass_driver, theirs.driver) if theirs and not ours else ()


def lowest_torch(texts: Iterable[str]) -> str:
    """Return the lowest torch that cells name, such as linux-cuda / cu130 / torch2.10 / cp312; "" if none does."""
    found = (Minor.parse_torch(named[1]) for text in texts for named in TORCH.finditer(text))
    lowest = min(found, default=None)
    return str(lowest) if lowest else ""


def _torches(folder: str, lowest: str) -> tuple[str, str | None] | None:
    """Return the lowest torch that a wheel serves and the first that it does not: for one torch it has a folder."""
    own = TORCH.search(folder)
    if own:
        return own[1], str(Minor.parse_torch(own[1]).next)
    return (lowest, None) if lowest else None


def _cxx11abi(platform: str, torch: tuple[str, str | None] | None) -> bool | None:
    """Return the C++ ABI of torch that a wheel for one torch on Linux needs; torch's stable ABI has no C++ in it."""
    is_bound = torch and torch[1] and platform.startswith("linux")
    return True if is_bound and torch and Minor.parse_torch(torch[0]) >= CXX11 else None
