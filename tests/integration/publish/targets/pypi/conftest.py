"""Indexes on this machine, uploaders, and a release for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_tools.index.units import Unit
from tests.builders.uploaded import files
from tests.servers.twine_program import write_python
from tests.servers.uploads import Server, devpi, devpi_index, pypiserver, unit_of


@pytest.fixture(scope="module")
def devpi_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with devpi(tmp_path_factory.mktemp("devpi")) as address:
        yield address


@pytest.fixture
def devpi_server(devpi_address: str, tmp_path: Path) -> Server:
    return devpi_index(devpi_address, "".join(filter(str.isalnum, tmp_path.name.lower()))[-30:])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def pypiserver_address(served: Path) -> Iterator[Server]:
    with pypiserver(served) as server:
        yield server


@pytest.fixture
def plain(pypiserver_address: Server, served: Path) -> Iterator[Server]:
    """An index without a file: its server looks into its folder at each request."""
    yield pypiserver_address
    for file in served.iterdir():
        file.unlink()


@pytest.fixture(params=["pypiserver", pytest.param("devpi", marks=pytest.mark.long)])
def server(request: pytest.FixtureRequest) -> Server:
    name = {"pypiserver": "plain", "devpi": "devpi_server"}[request.param]
    found = request.getfixturevalue(name)
    assert isinstance(found, Server)
    return found


@pytest.fixture(params=["twine", "uv"])
def uploader(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def prepared_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_python(tmp_path_factory.mktemp("python"))


@pytest.fixture
def unit(tmp_path: Path) -> Unit:
    return unit_of(*files(tmp_path / "made"))
