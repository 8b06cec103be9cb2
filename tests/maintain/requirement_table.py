"""Writes what build requirements add to setuptools: `python -m tests.maintain.requirement_table jinja2 …`.

For maintainers. Of each package, and of each that it requires, the newest wheel on the package index is read by small
range requests: its entry points, the names of its files and what it requires. A package without a wheel is left out.
Packages that are in the table already are read again when they are named; without a name, all of them are.
"""

from __future__ import annotations

import configparser
import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from rich.console import Console

from ci_tools import catalog as catalogs
from ci_tools.catalog import HERE, BuildRequirement
from ci_tools.cli.reporter import TerminalReporter
from ci_tools.errors import InputError
from ci_tools.formats.wheel import read_headers
from ci_tools.machine.context import Reporter
from ci_tools.machine.package_index import Index, listing_of, users_index
from ci_tools.machine.remote_wheel import RemoteWheel, remote_wheel
from ci_tools.machine.storage import write_atomically
from ci_tools.model.versions import parse_requirement, read_version

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage


FILE = HERE / "requirements.toml"
MAX_READ = 1 << 24  # bytes of one wheel
# Groups of entry points that setuptools loads in each build; and of its commands, those that a build runs. A keyword of
# setup() counts where a project gives it, which is a doubt of its own.
LOADED = ("egg_info.writers", "setuptools.file_finders", "setuptools.finalize_distribution_options")
COMMANDS = "distutils.commands"
RUN = frozenset(
    # ruff: noqa: SIM905 - as words they fit on a page
    "bdist_wheel build build_clib build_ext build_py build_scripts dist_info egg_info install install_data "
    "install_egg_info install_headers install_lib install_scripts".split()
)
STARTS = ".pth"  # a file of this ending, beside the packages, is run by every Python that starts
HEADER = """\
# What packages add to a build that requires them, besides modules that it may import: as their wheels on the package
# index said on the day they were read. Written by `python -m tests.maintain.requirement_table NAME...`.
#
# hooks     what runs without an import: entry points that setuptools loads, its commands, files that start with Python
# requires  the packages that are installed with it
# modules   the names that a build may import; a package without this line has not been asked for them
"""


def read_packages(names: Sequence[str], index: Index, reporter: Reporter) -> dict[str, BuildRequirement]:
    """Return the facts of packages and of all that they require; MachineError if the index does not answer."""
    waiting, found = [str(canonicalize_name(name)) for name in names], dict[str, BuildRequirement]()
    while waiting:
        name = waiting.pop()
        if name not in found and (facts := _read_package(name, index)):
            found[name] = facts
            reporter.say(f"{name} {facts.version}: {', '.join(facts.hooks) or 'adds nothing'}")
            waiting += facts.requires
    return found


def _read_package(name: str, index: Index) -> BuildRequirement | None:
    """Return the facts of the newest wheel of a package, or None if there is no such wheel."""
    try:
        with listing_of(name, index) as listing:
            newest = max(_select_wheels(listing.files), default=None, key=lambda pair: pair[0])
            if newest is None:
                return None
            with remote_wheel(listing.client.s, newest[1].url, MAX_READ) as wheel:
                return _read_wheel(wheel, str(newest[0][0]))
    except InputError:  # there is no such package
        return None


def _select_wheels(files: Sequence[DistributionPackage]) -> Iterator[tuple[tuple[object, str], DistributionPackage]]:
    """Yield the wheels of final versions, each with its version and name; the last by name stands for the others."""
    for file in files:
        version = read_version(file.version or "")
        if file.package_type == "wheel" and not file.is_yanked and version and not version.is_prerelease:
            yield (version, file.filename), file


def _read_wheel(wheel: RemoteWheel, version: str) -> BuildRequirement:
    texts = {name.rpartition("/")[2]: name for name in wheel.names if name.partition("/")[0].endswith(".dist-info")}
    entries = configparser.ConfigParser(delimiters=("=",), strict=False, interpolation=None)
    entries.read_string(_read_text(wheel, texts["entry_points.txt"]) if "entry_points.txt" in texts else "")
    started = [name for name in wheel.names if name.endswith(STARTS) and "/" not in name]
    metadata = read_headers(_read_text(wheel, texts["METADATA"]), texts["METADATA"])
    return BuildRequirement(
        version,
        tuple(sorted([*_list_hooks(entries), *started])),
        tuple(sorted({*_read_requires(metadata.get_all("Requires-Dist", ()))})),
        tuple(sorted({*_list_modules(wheel.names)})),
    )


def _list_modules(names: Iterable[str]) -> Iterator[str]:
    """Yield the modules and packages at the top of a wheel; a folder of data counts as a package, as Python does."""
    for name in names:
        top, _, inner = name.partition("/")
        if top.endswith(".data") and inner.startswith(("purelib/", "platlib/")):
            top, _, inner = inner.partition("/")[2].partition("/")
        module = top if inner else top.partition(".")[0]
        if module.isidentifier() and (inner or top.endswith((".py", ".pyd", ".so"))):
            yield module


def _list_hooks(entries: configparser.ConfigParser) -> Iterator[str]:
    """Yield what setuptools loads or runs in each build, such as `egg_info.writers` or `the command build_py`."""
    yield from (group for group in LOADED if entries.has_section(group))
    if entries.has_section(COMMANDS):
        yield from (f"the command {name}" for name in sorted(RUN & {*entries.options(COMMANDS)}))


def _read_requires(lines: Sequence[str]) -> Iterator[str]:
    """Yield the required packages, whatever their conditions, but not those of an extra."""
    for line in lines:
        with suppress(InputError):
            found = parse_requirement(line)
            if "extra" not in str(found.marker or ""):
                yield canonicalize_name(found.name)


def _read_text(wheel: RemoteWheel, member: str) -> str:
    sink = io.BytesIO()
    wheel.copy(member, sink)
    return sink.getvalue().decode("utf-8", "replace")


def write_table(packages: Mapping[str, BuildRequirement]) -> str:
    """Return the table as TOML."""
    return HEADER + "".join(f"\n[{name}]\n{_write_row(facts)}" for name, facts in sorted(packages.items()))


def _write_row(facts: BuildRequirement) -> str:
    lists = {"hooks": facts.hooks, "requires": facts.requires}
    lists |= {} if facts.modules is None else {"modules": facts.modules}
    lines = [f"{key} = [{', '.join(f'{chr(34)}{one}{chr(34)}' for one in names)}]" for key, names in lists.items()]
    return "\n".join([f'version = "{facts.version}"', *lines]) + "\n"


def main(names: Sequence[str]) -> None:
    """Read these packages, or all of the table, and write the table."""
    known = dict(catalogs.load().requirements)
    reporter = TerminalReporter(lambda: Console(stderr=True))
    found = known | read_packages(names or list(known), users_index(os.environ), reporter)
    with write_atomically(FILE) as file:
        file.write(write_table(found).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
