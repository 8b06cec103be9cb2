"""Which engine is taken, and what it is asked about images."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.build.containers import engines
from ci_tools.build.containers.engines import Engine, choose, explain, fetch_image, find_engine, find_image, qualify
from ci_tools.errors import InputError, MachineError
from ci_tools.model.plan import Job, JobKind
from ci_tools.model.platforms import Platform
from ci_tools.model.request import ToolchainKind
from tests.builders.engines import write_engine
from tests.builders.plans import job_of
from tests.builders.sources import world

ROOTLESS = Engine("podman", "podman", is_rootless=True)
SHA = "sha256:" + "ab" * 32
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containers are for Linux")
CPU = replace(
    job_of("demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", Platform.LINUX_CPU),
    name="linux-cpu",
    container="example/manylinux:1",
    wheel_platform="manylinux_2_28_x86_64",
    toolchain=ToolchainKind.AUTO,
)


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


@pytest.mark.parametrize(
    ("job", "libc", "why"),
    [
        pytest.param(CPU, "glibc 2.36", "this machine's glibc 2.36 is newer than manylinux_2_28", id="newer"),
        pytest.param(CPU, "glibc 2.28", "", id="same"),
        pytest.param(CPU, "glibc 2.17", "", id="older"),
        pytest.param(replace(CPU, kind=JobKind.PURE), "glibc 2.36", "", id="pure"),
        pytest.param(replace(CPU, wheel_platform="linux_x86_64"), "glibc 2.36", "", id="any-linux"),
        pytest.param(
            replace(CPU, wheel_platform="musllinux_1_2_x86_64"),
            "glibc 2.36",
            "musllinux_1_2_x86_64 is of musl (PEP 656), and this machine has glibc 2.36",
            id="musl",
        ),
        pytest.param(
            CPU,
            "",
            "manylinux_2_28_x86_64 is of glibc (PEP 600), and this machine has another C library",
            id="glibc-on-musl",
        ),
    ],
)
def test_a_job_is_for_another_c_library(job: Job, libc: str, why: str) -> None:
    assert explain(job, libc) == why


def test_a_job_is_built_in_its_image_by_what_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "libc", lambda: "glibc 2.36")
    write_engine(tmp_path / "podman", "echo false false")
    outside = replace(world(tmp_path, PATH=str(tmp_path), FATWHEEL_CONTAINERS=""), host="linux-x86_64")
    chosen = choose(CPU, catalog.load(), outside)
    assert chosen is not None
    assert chosen.describe("linux-cpu") == (
        "linux-cpu is built in example/manylinux:1 by podman: this machine's glibc 2.36 is newer than manylinux_2_28"
    )


@pytest.mark.parametrize(
    ("job", "host", "variables"),
    [
        pytest.param(replace(CPU, container=None), "linux-x86_64", {}, id="no-image"),
        pytest.param(CPU, "linux-aarch64", {}, id="another-machine"),
        pytest.param(CPU, "linux-x86_64", {"FATWHEEL_IMAGE": "example/manylinux:1"}, id="in-an-image"),
        pytest.param(CPU, "linux-x86_64", {"FATWHEEL_CONTAINERS": "none"}, id="not-wanted"),
    ],
)
def test_a_job_is_built_without_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Job, host: str, variables: dict[str, str]
) -> None:
    monkeypatch.setattr(engines, "libc", lambda: "glibc 2.36")
    write_engine(tmp_path / "podman", "echo false false")
    known = {"PATH": str(tmp_path), "FATWHEEL_CONTAINERS": "", **variables}
    outside = replace(world(tmp_path, **known), host=host)
    assert choose(job, catalog.load(), outside) is None
