"""Which wheels zig compiles, for which machine and glibc, and why it does not compile the others."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ci_tools import catalog
from ci_tools.build import toolchain
from ci_tools.build.cross import arm
from ci_tools.build.zig.choice import explain_refusal, refuse_linked_torch, refuse_requirements, target_of
from ci_tools.errors import MachineError, Rejected
from ci_tools.model.platforms import Accelerator, AcceleratorKind, Platform
from ci_tools.model.request import ToolchainKind
from ci_tools.model.versions import Minor
from tests.builders import wheels
from tests.builders.plans import job_of
from tests.builders.sources import world

if TYPE_CHECKING:
    from pathlib import Path

CPU = replace(
    job_of("demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", Platform.LINUX_CPU),
    torch=None,
    wheel_platform="manylinux_2_28_x86_64",
    toolchain=ToolchainKind.AUTO,
)
ARM = replace(CPU, platform=Platform.LINUX_AARCH64, wheel_platform="manylinux_2_28_aarch64")
CUDA = Accelerator(AcceleratorKind.CUDA, Minor(13, 0))
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="zig compiles wheels for Linux on Linux")


@pytest.mark.parametrize(
    ("tag", "target"),
    [
        ("manylinux_2_28_x86_64", "x86_64-linux-gnu.2.28"),
        ("manylinux_2_17_aarch64", "aarch64-linux-gnu.2.17"),
        ("manylinux_2_12_x86_64", ""),
        ("manylinux_2_28_s390x", ""),
        ("musllinux_1_2_x86_64", ""),
        ("linux_x86_64", ""),
    ],
)
def test_a_platform_tag_names_a_target(tag: str, target: str) -> None:
    assert target_of(tag) == target


def test_zig_compiles_for_cpus_without_torch_only() -> None:
    assert explain_refusal(CPU) == ""
    assert "no compiler for one takes it as host compiler (cu130)" in explain_refusal(replace(CPU, accelerator=CUDA))
    assert "lets no exception of torch be caught" in explain_refusal(replace(CPU, torch=Minor(2, 13)))
    assert "glibc from 2.17 on, not musllinux_1_2" in explain_refusal(
        replace(CPU, wheel_platform="musllinux_1_2_x86_64")
    )


def test_a_build_that_requires_torch_is_refused_before_it_compiles() -> None:
    refuse_requirements(["setuptools", "torchmetrics", "numpy>=2"])
    with pytest.raises(Rejected, match=r'requires "torch>=2\.6", and zig compiles nothing that may link'):
        refuse_requirements(["setuptools", "torch>=2.6"])


def test_a_build_of_rust_is_refused() -> None:
    with pytest.raises(Rejected, match=r'"maturin>=1\.9": it compiles Rust, and zig takes C and C\+\+ only'):
        refuse_requirements(["maturin>=1.9"])


@pytest.mark.parametrize("library", ["libc10.so", "libtorch_cpu.so", "libtorch_python.so.2"])
def test_a_wheel_that_links_with_torch_is_refused(library: str, tmp_path: Path) -> None:
    wheel = wheels.make(tmp_path, files={"demo/_C.so": wheels.linked("int demo;", needs=library)})
    with pytest.raises(Rejected, match=rf"demo/_C\.so links with {re.escape(library)}, and zig has compiled it"):
        refuse_linked_torch(wheel)


def test_a_wheel_that_links_with_other_libraries_is_not(tmp_path: Path) -> None:
    refuse_linked_torch(wheels.make(tmp_path, files={"demo/_C.so": wheels.linked("int demo;", needs="libz.so.1")}))


def toolchains(tmp_path: Path, path: str = "/usr/bin:/bin") -> toolchain.Toolchains:
    return toolchain.Toolchains(catalog.load(), replace(world(tmp_path), environ={"PATH": path}, host=arm.FROM))


def test_zig_is_the_compiler_for_arm_where_there_is_no_other(tmp_path: Path) -> None:
    gcc = tmp_path / arm.COMPILER
    gcc.write_text("#!/bin/sh\n")
    gcc.chmod(0o755)
    none, with_gcc = toolchains(tmp_path, "/nowhere"), toolchains(tmp_path, str(tmp_path))
    assert (none.takes_zig(ARM), with_gcc.takes_zig(ARM)) == (True, False)
    assert with_gcc.takes_zig(replace(ARM, toolchain=ToolchainKind.ZIG))
    assert not none.takes_zig(replace(ARM, torch=Minor(2, 13)))
    assert not none.takes_zig(replace(ARM, toolchain=ToolchainKind.SYSTEM))


def test_a_newer_glibc_leads_to_zig_only_where_nothing_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "libc", lambda: "glibc 2.36")
    found = toolchains(tmp_path, os.environ["PATH"])
    assert found.may_take_zig(CPU)
    assert not found.may_take_zig(replace(CPU, wheel_platform="manylinux_2_36_x86_64"))
    assert not found.may_take_zig(replace(CPU, toolchain=ToolchainKind.SYSTEM))
    assert not found.may_take_zig(replace(CPU, torch=Minor(2, 13)))
    assert found.doubt(CPU).endswith(
        "; then zig 0.17.0 compiles it again, which takes another C library than this machine's"
    )
    assert found.doubt(replace(CPU, torch=Minor(2, 13))).endswith("or `wheel-platform: manylinux_2_36`)")
    assert found.doubt(replace(CPU, toolchain=ToolchainKind.ZIG)) == ""


def test_a_job_that_zig_cannot_compile_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    job = replace(CPU, toolchain=ToolchainKind.ZIG, torch=Minor(2, 13))
    with pytest.raises(MachineError, match="cannot be built here: zig compiles nothing that may link with torch"):
        toolchains(tmp_path, os.environ["PATH"]).prepare(job)
    assert not (tmp_path / "cache").exists()
