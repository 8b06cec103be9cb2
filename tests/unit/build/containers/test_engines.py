"""Which engine is taken, and what it is asked about images."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from ci_tools.build.containers.engines import Engine, fetch_image, find_engine, find_image, qualify
from ci_tools.errors import InputError, MachineError
from tests.builders.engines import write_engine

if TYPE_CHECKING:
    from pathlib import Path

ROOTLESS = Engine("podman", "podman", is_rootless=True)
SHA = "sha256:" + "ab" * 32
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containers are for Linux")


@pytest.mark.parametrize(
    ("podman", "docker", "found"),
    [
        pytest.param("echo false false", "echo '[]'", ("podman", False), id="podman-first"),
        pytest.param("echo true false", "", ("podman", True), id="rootless-podman"),
        pytest.param("echo true true", "", None, id="podman-elsewhere"),
        pytest.param("exit 125", """echo '["name=seccomp,profile=builtin"]'""", ("docker", False), id="docker"),
        pytest.param("", """echo '["name=rootless"]'""", ("docker", True), id="rootless-docker"),
        pytest.param("", "echo Cannot connect to the Docker daemon >&2; exit 1", None, id="no-daemon"),
        pytest.param("", "", None, id="none"),
    ],
)
def test_the_first_engine_that_answers_is_taken(
    tmp_path: Path, podman: str, docker: str, found: tuple[str, bool] | None
) -> None:
    for name, line in (("podman", podman), ("docker", docker)):
        if line:
            write_engine(tmp_path / name, line)
    engine = find_engine({"PATH": str(tmp_path)})
    assert (engine and (engine.name, engine.is_rootless)) == found


def test_a_docker_on_another_machine_is_not_taken(tmp_path: Path) -> None:
    write_engine(tmp_path / "docker", "echo '[]'")
    assert find_engine({"PATH": str(tmp_path), "DOCKER_HOST": "tcp://build.example:2376"}) is None


def test_the_variable_chooses(tmp_path: Path) -> None:
    write_engine(tmp_path / "podman", "echo false false")
    write_engine(tmp_path / "docker", "echo '[]'")
    chosen = {"PATH": str(tmp_path), "FATWHEEL_CONTAINERS": "docker"}
    assert find_engine(chosen) == Engine("docker", str(tmp_path / "docker"), is_rootless=False)
    assert find_engine({**chosen, "FATWHEEL_CONTAINERS": "none"}) is None


def test_a_variable_that_names_no_engine_is_refused() -> None:
    with pytest.raises(InputError, match=r'^FATWHEEL_CONTAINERS is "lxc"; expected podman, docker or none$'):
        find_engine({"FATWHEEL_CONTAINERS": "lxc"})


def test_an_engine_that_is_asked_for_has_to_answer(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="FATWHEEL_CONTAINERS is docker, and `docker info` does not answer"):
        find_engine({"PATH": str(tmp_path), "FATWHEEL_CONTAINERS": "docker"})


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("pytorch/manylinux2_28-builder:cpu", "docker.io/pytorch/manylinux2_28-builder:cpu"),
        ("debian", "docker.io/library/debian"),
        ("images.example/team/image", "images.example/team/image"),
        ("localhost/image", "localhost/image"),
        ("localhost:5000/image", "localhost:5000/image"),
    ],
)
def test_podman_gets_the_name_that_docker_would_take(name: str, whole: str) -> None:
    assert qualify(name, ROOTLESS) == whole
    assert qualify(name, ROOTLESS._replace(name="docker")) == name


@pytest.mark.parametrize(
    ("name", "printed", "known"),
    [
        ("a/b:1", f'c0ffee ["a/b@{SHA}"]', f"a/b:1@{SHA}"),
        (f"a/b@{SHA}", f'c0ffee ["a/b@{SHA}"]', f"a/b@{SHA}"),
        ("a/b:1", "c0ffee []", "a/b:1"),
        ("a/b:1", "c0ffee null", "a/b:1"),
    ],
)
def test_an_image_is_named_with_its_digest(tmp_path: Path, name: str, printed: str, known: str) -> None:
    program = write_engine(tmp_path / "docker", f"echo '{printed}'")
    image = find_image(name, Engine("docker", str(program), is_rootless=False), {})
    assert image == ("c0ffee", known)


def test_an_image_that_cannot_be_fetched_is_an_error_in_the_engines_words(tmp_path: Path) -> None:
    program = write_engine(tmp_path / "docker", "echo 'Error: no such host' >&2", "exit 125")
    engine = Engine("docker", str(program), is_rootless=False)
    with pytest.raises(MachineError, match=r"^docker cannot fetch the image a/b:1: Error: no such host$"):
        fetch_image("a/b:1", engine, tmp_path / "log", {"PATH": "/usr/bin:/bin"})
