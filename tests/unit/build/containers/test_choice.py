"""Which jobs are built in a container here, and the sentence that says so."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ci_tools import catalog
from ci_tools.build.containers import choice
from ci_tools.build.containers.choice import choose, explain
from ci_tools.model.plan import JobKind
from ci_tools.model.platforms import Platform
from ci_tools.model.request import ToolchainKind
from tests.builders.engines import write_engine
from tests.builders.plans import job_of
from tests.builders.sources import world

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.model.plan import Job

CPU = replace(
    job_of("demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", Platform.LINUX_CPU),
    name="linux-cpu",
    container="example/manylinux:1",
    wheel_platform="manylinux_2_28_x86_64",
    toolchain=ToolchainKind.AUTO,
)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containers are for Linux")


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
    monkeypatch.setattr(choice, "libc", lambda: "glibc 2.36")
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
    monkeypatch.setattr(choice, "libc", lambda: "glibc 2.36")
    write_engine(tmp_path / "podman", "echo false false")
    known = {"PATH": str(tmp_path), "FATWHEEL_CONTAINERS": "", **variables}
    outside = replace(world(tmp_path, **known), host=host)
    assert choose(job, catalog.load(), outside) is None
