"""The tables of the symbols that torch exports, read from the real torch and from an index."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from ci_tools.catalog.symbols import C_TABLE, CPP_TABLE, FOLDER, RELEASES, is_torch_symbol, missing, tables
from ci_tools.formats.binaries.elf import Extent, read_elf
from ci_tools.machine.context import Silent
from ci_tools.model.plan import Job
from tests.maintain.torch_table import add, write_tables
from tests.servers.package_index import index_of
from tests.unit.catalog.test_symbols import (
    ALWAYS,
    ROCM,
    SINCE_2_10,
    asking,
    exporting,
    looked_at,
    planned,
    release,
    torch,
)

pytestmark = pytest.mark.slow


def test_the_installed_torch_has_what_its_table_says() -> None:
    installed = find_spec("torch")  # whose import takes longer than all that is read here
    if installed is None or installed.origin is None:
        pytest.skip("needs torch")
    version = torch(".".join(metadata.version("torch").split(".")[:2]))
    named: set[str] = set()
    for name in ("libc10.so", "libtorch_cpu.so"):
        with Path(installed.origin).with_name("lib").joinpath(name).open("rb") as file:
            symbols = read_elf(Extent.whole(file)).symbols(".dynsym")
            named |= {one.name for one in symbols if one.section and one.is_visible and is_torch_symbol(one.name)}
    assert len(named) > 30_000
    assert missing(named, version) == frozenset()


def test_the_tables_are_written_as_they_were_read(tmp_path: Path) -> None:
    write_tables(tables(), tmp_path)
    assert tables(tmp_path) == tables()
    for name in (RELEASES, C_TABLE):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()
    assert (tmp_path / CPP_TABLE).stat().st_size < 600_000


def test_a_release_is_added_from_the_index(tmp_path: Path) -> None:
    first = release("3.0.1", exporting("torch_one", "torch_two", "cblas_dot"), exporting("torch_gpu", "torch_one"))
    second = release("3.1.0", exporting("torch_two"), exporting("torch_gpu"))
    with index_of("torch", {**first, **second}) as index:
        for version in ("3.1.0", "3.0.1", "3.0.1"):
            tables.cache_clear()
            add(version, tmp_path, index=index, reporter=Silent())
    assert (tmp_path / C_TABLE).read_text() == (
        "torch_gpu\tcuda\t3.0-3.1\ntorch_on_arm\tevery\t3.0-3.1\ntorch_one\tevery\t3.0\ntorch_two\tevery\t3.0-3.1\n"
    )
    tables.cache_clear()
    assert [(str(one.version), one.patch, len(one.wheels)) for one in tables(tmp_path).sources] == [
        ("3.0", "3.0.1", 2),
        ("3.1", "3.1.0", 2),
    ]


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(planned("2.10"), id="since-it-is-there"),
        pytest.param(planned("2.10", "2.15"), id="up-to-the-newest"),
        pytest.param(planned("2.12", kind=None), id="without-cuda"),
        pytest.param(planned("2.12", kind=ROCM), id="rocm"),
    ],
)
def test_a_library_that_asks_for_what_every_torch_has_is_good(job: Job, tmp_path: Path) -> None:
    assert looked_at(tmp_path, job, _C=asking(SINCE_2_10, ALWAYS, "cudaMalloc", "getenv")) == ()
