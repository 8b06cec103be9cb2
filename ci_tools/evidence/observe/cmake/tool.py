"""Fetches the cmake that observes configure steps: pinned by the catalog, so every machine asks the same one."""

from __future__ import annotations

import functools
import platform
import re
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import MachineError
from ci_tools.machine.storage import fill_once

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from ci_tools.machine.context import Outside

__all__ = ["Cmake", "open_cmake", "pinned_version"]

TABLE = Path(__file__).parents[3] / "catalog" / "cmake.toml"
HOME = "cmake/data/"  # of cmake in its wheel
NEEDED = re.compile(rf"{HOME}(bin/cmake|share/cmake-[\d.]+/(Modules|Templates)/.*)")


class Cmake(NamedTuple):
    """An unpacked cmake: its folder and its program."""

    folder: Path

    @property
    def program(self) -> Path:
        """The program."""
        return self.folder / HOME / "bin" / "cmake"


@functools.cache
def _table() -> dict[str, object]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def pinned_version() -> str:
    """Return the version of the pinned cmake."""
    return str(_table()["version"])


def open_cmake(outside: Outside) -> Cmake:
    """Return the pinned cmake; its wheel is fetched once from the user's package index and unpacked in the cache.

    Raises MachineError if the catalog has no cmake for this machine, or if the index does not answer.
    """
    host = f"{platform.system().lower()}-{platform.machine()}"
    wheels = {str(row["host"]): row for row in _table()["wheel"]}  # type: ignore[attr-defined]  # a list of tables
    if host not in wheels:
        msg = f"cmake's configure step cannot be observed on {host}, expected one of {', '.join(wheels)}"
        raise MachineError(msg, hint="plan on such a machine: the plan is the same everywhere")
    row = wheels[host]

    def unpack(folder: Path) -> None:
        from ci_tools.machine import package_index  # noqa: PLC0415 - its HTTP client loads longer than a plan is made

        archive = folder / row["file"]
        with outside.reporter.step(f"fetch cmake {pinned_version()}") as step:
            index = package_index.users_index(outside.environ)
            package_index.download("cmake", row["file"], row["sha256"], archive, index=index, progress=step.progress)
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if NEEDED.fullmatch(name):
                    wheel.extract(name, folder)
        archive.unlink()
        Cmake(folder).program.chmod(0o755)

    folder = fill_once(outside.cache / "tools" / f"cmake-{row['sha256'][:16]}", unpack, outside.reporter.say)
    return Cmake(folder.resolve())  # by the path that cmake itself says
