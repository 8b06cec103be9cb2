"""Every project installs however its name is spelled, by a person or in a Requires-Dist, by old and new installers."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builders import releases
from tests.builders.installers import command, options_of, run_client
from tests.builders.wheels import edited, make, members_of
from tests.servers.framing import FolderHandler, Server
from tests.servers.package_index import over_http
from tests.servers.threads import serve

pytestmark = pytest.mark.slow

IN_EVERY_RUN = ("pip-20.3.4", "pip-23.0.1", "uv")  # 23.0.1 is Debian 12's own
LONG = ("pip-21.3.1", "pip-22.3.1", "pip-23.1.2", "pip-24.0", "pip", "uv-0.4.30", "uv-0.7.22")
NO_JSON = frozenset({"pip-20.3.4", "pip-21.3.1"})
SPELLINGS = ("ao_kernels", "ao-kernels", "Ao.Kernels")
JSON = "application/vnd.pypi.simple.v1+json"


# ---------------------------------------------------------------- clients


def clients(without: frozenset[str] = frozenset()) -> list[object]:
    """Return the clients of a test as its parameters."""
    marked = (*IN_EVERY_RUN, *(pytest.param(client, marks=pytest.mark.long, id=client) for client in LONG))
    return [one for one, client in zip(marked, (*IN_EVERY_RUN, *LONG), strict=True) if client not in without]


def install(client: str, index: str, folder: Path, *asked: str) -> set[str]:
    """Install as a user does, and return what came."""
    variables = command(client)[1]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "PYTHON"))}
    environ = {**kept, "PIP_CONFIG_FILE": os.devnull, "no_proxy": "127.0.0.1", **variables}
    arguments = [*options_of(client), "--target", folder / "there", "--index-url", index, *asked]
    done = run_client(client, arguments, environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.stem for path in (folder / "there").glob("*.py")}


# ---------------------------------------------------------------- indexes


@contextmanager
def as_json(root: Path) -> Iterator[str]:
    """Serve an index as JSON: a folder answers with its `index.json`, whatever a client asks for."""

    class AsJson(FolderHandler):
        extensions_map = {".json": JSON}  # noqa: RUF012 - the base class has such a mapping

        def send_head(self):  # type: ignore[no-untyped-def]  # noqa: ANN202 - as the base class has it
            self.path += "index.json" * self.path.endswith("/")
            return super().send_head()

    with serve(Server(functools.partial(AsJson, directory=str(root)))) as server:
        yield server.url


def publish(root: Path, project: str, named: str = "", needs: tuple[str, ...] = (), folder: str = "") -> None:
    """Publish a wheel whose METADATA spells its project in some way, and others' as they are spelled there."""
    label = f"+{folder}" if folder else ""
    fields = "".join(f"Requires-Dist: {name}\n" for name in needs)
    module = {f"{project}.py": b""}
    wheel = make(root.parent / "made", f"{project}-1.0{label}-py3-none-any.whl", module, fields)
    (metadata,) = (name for name in members_of(wheel) if name.endswith("METADATA"))
    text = members_of(wheel)[metadata].replace(f"Name: {project}\n".encode(), f"Name: {named or project}\n".encode())
    item = releases.item(edited(wheel, {metadata: text}), folder)
    releases.publish(releases.folder_index(root), releases.unit(named or project, item))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with a project whose name has a separator, and one that asks for it by each spelling."""
    folder = tmp_path_factory.mktemp("clients") / "index"
    publish(folder, "ao_kernels", "Ao-Kernels")
    for number, spelling in enumerate(SPELLINGS):
        publish(folder, f"asker{number}", needs=(spelling,))
    return folder


@pytest.fixture(scope="module")
def index(root: Path) -> Iterator[str]:
    with over_http(root) as address:
        yield address


@pytest.fixture(scope="module")
def json_index(root: Path) -> Iterator[str]:
    with as_json(root) as address:
        yield address


@pytest.fixture(scope="module")
def named_as_an_accelerator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with a project that is called as CUDA versions are, and one that asks for it."""
    folder = tmp_path_factory.mktemp("cu2qu") / "index"
    publish(folder, "cu2qu")
    publish(folder, "cu2qu", folder="cu130")
    publish(folder, "fontmaker", needs=("Cu2Qu",))
    return folder


# ---------------------------------------------------------------- what installs


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("client", clients())
def test_a_project_installs_however_it_is_typed(client: str, spelling: str, index: str, tmp_path: Path) -> None:
    assert install(client, index, tmp_path, spelling) == {"ao_kernels"}


@pytest.mark.parametrize("number", range(len(SPELLINGS)), ids=SPELLINGS)
@pytest.mark.parametrize("client", clients())
def test_a_project_installs_however_another_asks_for_it(client: str, number: int, index: str, tmp_path: Path) -> None:
    assert install(client, index, tmp_path, f"asker{number}") == {"ao_kernels", f"asker{number}"}


@pytest.mark.parametrize("client", clients(without=NO_JSON))
def test_a_project_installs_from_json_by_any_spelling(client: str, json_index: str, tmp_path: Path) -> None:
    assert install(client, json_index + "/cpu", tmp_path, "ao.kernels", "asker0", "ASKER2") >= {"ao_kernels", "asker2"}


@pytest.mark.parametrize("client", clients())
def test_a_project_that_is_called_as_cuda_versions_are_installs(
    client: str, named_as_an_accelerator: Path, tmp_path: Path
) -> None:
    with over_http(named_as_an_accelerator) as address:
        assert install(client, address, tmp_path, "fontmaker", "CU2QU") == {"cu2qu", "fontmaker"}
        assert install(client, f"{address}/cu130", tmp_path / "cu130", "cu2qu==1.0+cu130") == {"cu2qu"}
