"""A pinned program: fetched from the index, unpacked as far as it is needed, kept, or refused."""

from __future__ import annotations

import hashlib
import io
import platform
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ci_tools.catalog import tables
from ci_tools.catalog.pinned_tools import PinnedTool, open_tool
from ci_tools.errors import InputError, MachineError
from ci_tools.machine.context import Outside
from tests.builders.sources import world
from tests.servers.package_index import index_of

HOST = f"{platform.system().lower()}-{platform.machine()}"
FILE = "tool-1.0-py3-none-any.whl"
TABLE = 'version = "1.0"\n[[wheel]]\nhost = "{}"\nfile = "{}"\nsha256 = "{}"\n'


def wheel() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in {"tool/run": "#!/bin/sh\n", "tool/setting": "speed = 1\n", "tool/manual": "long"}.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return made.getvalue()


@contextmanager
def pinned(folder: Path, *, host: str = HOST, sha256: str = "") -> Iterator[Outside]:
    """Yield a run whose index has the wheel; the catalog pins it in a table of the folder's name."""
    content = wheel()
    table = TABLE.format(host, FILE, sha256 or hashlib.sha256(content).hexdigest())
    (folder / f"{folder.name}.toml").write_text(table)
    with index_of("tool", {FILE: content}, hashes=True) as index, pytest.MonkeyPatch.context() as patched:
        patched.setattr(tables, "HERE", folder)
        yield world(folder, PIP_INDEX_URL=index.url)


def tool(folder: Path) -> PinnedTool:
    return PinnedTool(folder.name, "tool", "tool/run", re.compile(r"tool/(run|setting)"))


def test_what_is_needed_is_unpacked_once(tmp_path: Path) -> None:
    with pinned(tmp_path) as outside:
        folder = open_tool(tool(tmp_path), outside)
        again = open_tool(tool(tmp_path), outside)
    assert sorted(path.name for path in (folder / "tool").iterdir()) == ["run", "setting"]
    assert (folder / "tool/run").stat().st_mode & 0o111
    assert again == folder


def test_another_wheel_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    with (
        pinned(tmp_path, sha256="0" * 64) as outside,
        pytest.raises(InputError, match=rf"{FILE} has the sha256 .*, exp"),
    ):
        open_tool(tool(tmp_path), outside)


def test_a_machine_without_a_wheel_is_named(tmp_path: Path) -> None:
    with pinned(tmp_path, host="plan9-vax") as outside:
        sentence = f"the catalog has no tool for {HOST}, expected one of plan9-vax"
        with pytest.raises(MachineError, match=sentence):
            open_tool(tool(tmp_path), outside)
