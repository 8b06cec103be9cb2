from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.build.room import MIB, BuildFolders, Need, list_parts, needs_of, refuse_no_room
from ci_tools.build.toolchain import libc_doubt
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.errors import MachineError
from ci_tools.model.plan import JobKind
from ci_tools.model.platforms import Accelerator, Platform
from ci_tools.model.request import BuildTorch, ToolchainKind
from ci_tools.model.versions import Minor
from ci_tools.source.files import Tree
from tests.builders.plans import job_of
from tests.builders.sources import demo, plan_of


def test_a_disk_without_room_is_named_with_what_it_is_for(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    needs = [Need(tmp_path / "not/there", free, "to build in"), Need(tmp_path, 100 * MIB, "for the cache")]
    with pytest.raises(MachineError, match=rf"the disk of {tmp_path} has .* MiB free, .*, 100 MiB for the cache"):
        refuse_no_room(needs)


def test_a_disk_with_room_is_not(tmp_path: Path) -> None:
    refuse_no_room([Need(tmp_path / "not/there", 1, "to build in")])


def test_a_job_that_compiles_against_torch_takes_most(tmp_path: Path) -> None:
    plan, tree = plan_of(demo(tmp_path / "a")), Tree(tmp_path / "a", ("demo.py",))
    (pure,) = plan.jobs
    cuda = Accelerator(CUDA, Minor(13, 0))
    native = replace(pure, kind=JobKind.NATIVE, platform=Platform.LINUX_CUDA, accelerator=cuda, requires_torch=">=2.10")
    native = replace(native, toolchain=ToolchainKind.PYPI)
    sizes = [
        sum(need.size for need in needs_of([job], tree, BuildFolders(*[tmp_path] * 3))) // MIB for job in (pure, native)
    ]
    assert (sizes[0] < 100, sizes[1] > 2000) == (True, True)


def test_the_parts_of_torch_take_a_tenth_of_it(tmp_path: Path) -> None:
    plan, tree = plan_of(demo(tmp_path / "a")), Tree(tmp_path / "a", ("demo.py",))
    linux = replace(plan.jobs[0], kind=JobKind.NATIVE, platform=Platform.LINUX_CPU)
    native = replace(linux, torch=Minor(2, 13), requires_torch=">=2.13")
    parts, full = (
        sum(need.size for need in needs_of([native], tree, BuildFolders(*[tmp_path] * 3), torch=torch)) // MIB
        for torch in (BuildTorch.PARTS, BuildTorch.FULL)
    )
    assert 150 < parts < 300 < full


@pytest.mark.parametrize(
    ("tag", "libc", "is_said"),
    [
        ("manylinux_2_17_x86_64", "glibc 2.36", True),
        ("manylinux_2_39_x86_64", "glibc 2.36", False),
        ("manylinux_2_36_x86_64", "glibc 2.36", False),
        ("musllinux_1_2_x86_64", "glibc 2.36", False),
        ("linux_x86_64", "glibc 2.36", False),
        ("manylinux_2_28_x86_64", "", False),
    ],
)
def test_a_tag_that_this_machine_may_not_keep_is_said(tag: str, libc: str, *, is_said: bool) -> None:
    assert bool(libc_doubt(tag, libc)) == is_said


CU129 = Accelerator(CUDA, Minor(12, 9))


@pytest.mark.parametrize(
    ("toolchain", "torch", "whats"),
    [
        pytest.param(
            ToolchainKind.REDIST,
            BuildTorch.PARTS,
            ["compiler of CUDA 12.9, of NVIDIA's archives", "headers of CUDA 12.9: nvJPEG", "headers of torch 2.10"],
            id="nvidia's-archives",
        ),
        pytest.param(
            ToolchainKind.AUTO,
            BuildTorch.PARTS,
            [
                "compiler of CUDA 12.9, from the package index where none is installed",
                "headers of CUDA 12.9: nvJPEG",
                "headers of torch 2.10",
            ],
            id="the-first-that-has-it",
        ),
        pytest.param(ToolchainKind.SYSTEM, BuildTorch.PARTS, ["headers of torch 2.10"], id="an-installed-toolkit"),
    ],
)
def test_the_parts_of_a_stable_build_are(toolchain: ToolchainKind, torch: BuildTorch, whats: list[str]) -> None:
    job = replace(job_of("demo-1.0-x.whl", Platform.LINUX_CUDA), accelerator=CU129, toolchain=toolchain)
    found = list_parts([job, replace(job, name="other")], {"nvjpeg.h", "demo.h"}, torch=torch)
    assert [part.what for part in found] == whats
    assert {part.jobs for part in found} == {(job.name, "other")}


@pytest.mark.parametrize(
    ("torch", "what"),
    [(BuildTorch.PARTS, "build parts of torch 2.10 for cu129"), (BuildTorch.FULL, "torch 2.10 for cu129")],
)
def test_a_build_bound_to_one_torch_also_gets(torch: BuildTorch, what: str) -> None:
    job = replace(job_of("demo-1.0-x.whl", Platform.LINUX_CUDA), accelerator=CU129, requires_torch=">=2.10,<2.11")
    found = [part.what for part in list_parts([replace(job, toolchain=ToolchainKind.REDIST)], torch=torch)]
    assert (found[-1], any("CUDA 12.9: cuBLAS, " in one for one in found)) == (what, True)
