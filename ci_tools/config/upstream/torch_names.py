"""Reads torch's own Python files and stubs in its wheel: the names that its modules have, by small range requests.

The files are the same in the wheels for each system, accelerator and Python, but for `torch/version.py` and the ends of
lines: so one wheel speaks for its release. Nothing of it is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.config.upstream.module_names import CONDITIONAL, VALUE, ModuleNames, list_declared, read_names
from ci_tools.errors import InputError
from ci_tools.machine.http.policy import NoParts, TooLarge
from ci_tools.machine.remote_wheel import RemoteWheel, remote_wheel
from ci_tools.observe.inside.torch_names.table import ABSENT, BETWEEN, TorchTable
from ci_tools.observe.views import load_table

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage

    from ci_tools.machine.package_index import Listing
    from ci_tools.observe.inside.torch_names.table import Rows

# ruff: noqa: SIM905 - as words they fit on a page
# The modules that build scripts ask: what torch is, what its builder has, and how extensions are built.
NAMES = "names"  # the key of a release in the catalog with the names of its modules
MODULES = Path(__file__).with_name("torch_modules.txt").read_text(encoding="utf-8").split()
STUB = "torch._C"  # compiled code; its stub lists functions that not every build has, and lacks others
FLAGS, OF_TORCH = ("_bool",), ("dtype", "layout", "memory_format", "qscheme")  # annotations in it of what each has
MAX_READ = 1 << 25  # bytes of one wheel
OPEN = "*"  # the name that stands for others, of a module that may have more than its text says
CONSTANT = ("torch.backends", "torch.utils")  # elsewhere a build, or what it finds, may change a value
# Types that compiled code puts into the module of a device.
TENSORS = tuple(f"{kind}Tensor" for kind in "BFloat16 Bool Byte Char Double Float Half Int Long Short".split())
MEMBER = re.compile(r"(torch(?:/\w+)*?)(?:/__init__)?\.pyi?")


def read_torch_names(wheel: RemoteWheel) -> Rows:
    """Return the rows of a torch: of its modules, and under "" of which modules it has; raise InputError without them.

    Raises OSError if the server stops to answer.
    """
    places = dict(_list_members(wheel.names))
    if not {"torch", "torch.utils.cpp_extension"} <= places.keys():
        raise InputError("it has no torch/__init__.py and no torch/utils/cpp_extension.py")
    found = _read_modules(wheel, places)
    rows = {module: dict(_complete(module, found, places)) for module in MODULES if module in found}
    # No build script imports what is deep within a private module.
    listed = (module for module in sorted(places) if module.rpartition(".")[0] in MODULES or "._" not in module)
    rows[""] = dict.fromkeys(listed, VALUE)
    return rows


def read_new_names(
    file: DistributionPackage, listing: Listing, say: Callable[[str], None]
) -> dict[str, dict[str, str]]:
    """Return the key of a catalog's row with the names of a torch that has this wheel; say why it has none."""
    try:
        with remote_wheel(listing.client.s, file.url, MAX_READ) as wheel:
            rows = read_torch_names(wheel)
    except (InputError, NoParts, TooLarge) as error:
        say(f"the names of torch in {file.filename} are not known: {error}")
        return {}
    return {NAMES: compare_rows(rows, load_table())}


def compare_rows(rows: Rows, table: TorchTable) -> dict[str, str]:
    """Return how a torch's names differ from those of the newest in a table, as a project's catalog has it.

    The key `base` names that one, `torch.xpu:is_available` has a row, and a row is "" where the new torch has no such
    name.
    """
    base = table.releases[-1]
    named = {(module, name) for each in (rows, table.names) for module in each for name in each[module]}
    found = {(module, name): rows.get(module, {}).get(name, ABSENT) for module, name in sorted(named)}
    differing = {one: row for one, row in found.items() if row != table.said(base, *one)}
    return {"base": base, **{f"{module}{BETWEEN}{name}": row for (module, name), row in differing.items()}}


def _list_members(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each module of a wheel with its file; a stub stands only for what is compiled."""
    for name in sorted(names, reverse=True):  # .pyi before .py, which takes its place
        match = MEMBER.fullmatch(name)
        if match and (name.endswith(".py") or name.startswith("torch/_C/")):
            yield match[1].replace("/", "."), name


def _read_modules(wheel: RemoteWheel, places: Mapping[str, str]) -> dict[str, ModuleNames]:
    """Read the modules, and those whose names they import by `*`."""
    found: dict[str, ModuleNames] = {}
    waiting = [module for module in MODULES if module in places]
    while waiting:
        infos = {module: wheel.archive.getinfo(places[module]) for module in dict.fromkeys(waiting)}
        wheel.expect(infos.values())  # so that near members come in one request
        for module, info in sorted(infos.items(), key=lambda pair: pair[1].header_offset):
            found[module] = _read_text(wheel.archive.read(info), module, info.filename)
        stars = (star for module in infos for star in found[module].stars)
        waiting = [module for module in stars if module in places and module not in found]
    return found


def _read_text(content: bytes, module: str, file: str) -> ModuleNames:
    try:
        text = content.decode("utf-8")
        if module == STUB:
            rows = dict.fromkeys(list_declared(text, FLAGS), VALUE)
            return ModuleNames(rows | {f"torch.{name}": VALUE for name in list_declared(text, OF_TORCH)}, is_open=True)
        return read_names(text, module, is_package=file.endswith("/__init__.py"))
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error


def _complete(module: str, found: Mapping[str, ModuleNames], places: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the rows of a module, with what it imports from the others."""
    mine = found[module]
    rows = {name: row for star in mine.stars for name, row in _list_exported(star, found)}
    rows |= {name: row for name, row in mine.rows.items() if not name.startswith("torch.")}
    if STUB in found and module in {"torch", "torch.cuda", "torch.xpu"}:
        rows = {**_list_compiled(module, found[STUB].rows), **rows}
    for name, row in rows.items():
        if name in mine.imported and row == VALUE:
            row = _resolve(*mine.imported[name], found)  # noqa: PLW2901 - the same row, better known
        yield name, VALUE if row.startswith("=") and not module.startswith(CONSTANT) else row
    for inner in _list_loaded({"torch", module}, found):
        above, _, name = inner.rpartition(".")
        if above == module and name not in {*rows, *mine.deleted} and inner in places:
            yield name, VALUE
    if mine.is_open:
        yield OPEN, CONDITIONAL
    if mine.has_proxy:
        yield "m", VALUE  # the attribute by which torch.backends' PropModule keeps the module


def _list_loaded(modules: set[str], found: Mapping[str, ModuleNames]) -> list[str]:
    """Return the modules that are loaded once these are imported, as far as the modules that were read say."""
    loaded: dict[str, None] = {}
    waiting = sorted(modules)
    while waiting:
        one = waiting.pop()
        if one and one not in loaded:
            loaded[one] = None
            waiting += [one.rpartition(".")[0], *sorted(found[one].loads if one in found else ())]
    return list(loaded)


def _list_compiled(module: str, stub: Mapping[str, str]) -> dict[str, str]:
    """Return the rows of what compiled code puts into a module."""
    if module == "torch":
        return {name.partition(".")[2]: row for name, row in stub.items() if "." in name}
    return dict.fromkeys(TENSORS, CONDITIONAL)


def _list_exported(module: str, found: Mapping[str, ModuleNames]) -> Iterator[tuple[str, str]]:
    """Yield what `from module import *` gives."""
    rows = found[module].rows if module in found and module != STUB else {}
    listed = rows.get("__all__", "")  # a constant's row: =['a', 'b']
    for name, row in rows.items():
        if f"'{name}'" in listed if listed.startswith("=") else not name.startswith("_") and "." not in name:
            yield name, row


def _resolve(module: str, name: str, found: Mapping[str, ModuleNames]) -> str:
    """Return the row of a name where another module has it; `?` for what is not torch's, or is made of the build."""
    row = found[module].rows.get(name, VALUE) if module in found else VALUE
    return VALUE if row == CONDITIONAL or (row.startswith("=") and not module.startswith(CONSTANT)) else row
