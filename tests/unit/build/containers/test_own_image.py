from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ci_tools.build.containers.own_image import pin_image
from tests.servers.framing import Handler, SocketServer
from tests.servers.threads import serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME, DIGEST = "quay.io/pypa/manylinux_2_28_x86_64:2026.11.01-1", f"sha256:{'a1' * 32}"
KNOWN = {"RepoDigests": [f"quay.io/pypa/manylinux_2_28_x86_64@{DIGEST}"]}
# What the engine answers: https://docs.docker.com/reference/api/engine (ImageInspect)
ANSWERS = {NAME: KNOWN, "own:1": {"RepoDigests": []}, "odd:1": {"RepoDigests": None}, "list:1": [1]}


class _Answer(Handler):
    disable_nagle_algorithm = False  # which a socket in the file system does not have

    def do_GET(self) -> None:
        asked = self.path.removeprefix("/images/").removesuffix("/json")
        self.send_response(200 if asked in ANSWERS else 404)
        self.end_headers()
        self.wfile.write(json.dumps(ANSWERS.get(asked, {"message": f"No such image: {asked}"})).encode())


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Path]:
    with serve(SocketServer(tmp_path / "sock", _Answer)):
        yield tmp_path / "sock"


@pytest.mark.parametrize(
    ("name", "pinned"),
    [
        pytest.param(NAME, f"{NAME}@{DIGEST}", id="by-its-tag"),
        pytest.param(f"quay.io/x@{DIGEST}", f"quay.io/x@{DIGEST}", id="by-its-digest"),
        pytest.param("own:1", "own:1", id="built-here"),
        pytest.param("odd:1", "odd:1", id="no-list"),
        pytest.param("list:1", "list:1", id="no-answer-of-an-engine"),
        pytest.param("other:1", "other:1", id="unknown"),
    ],
)
def test_an_image_is_pinned_as_its_engine_knows_it(engine: Path, name: str, pinned: str) -> None:
    assert pin_image(name, engine) == pinned


def test_where_no_engine_answers_the_name_stays(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    SocketServer(tmp_path / "closed", _Answer).server_close()
    assert [pin_image(NAME, tmp_path / name) for name in ("none", "file", "closed")] == [NAME] * 3
