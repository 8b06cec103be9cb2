"""The device images that the flags of a compiler ask for, in the words of the audit, and those of a request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.formats.binaries.offload import NATIVE as MACHINE_CODE_FOR_INTEL
from ci_tools.formats.binaries.offload import SPIRV
from ci_tools.model.evidence import Compile
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.model.versions import CudaArch, GfxArch

if TYPE_CHECKING:
    from ci_tools.observe.cmake.reply import CmakeTarget


DEVICE_SOURCES = (".cu", ".hip", ".sycl")
OFFLOAD = re.compile(r"--(?:offload-arch|cuda-gpu-arch|amdgpu-target)=(\S+)")  # one or several, separated by commas
GFX = re.compile(r"gfx[0-9a-f]{3,4}(:[a-z]+[+-])*")
NATIVE = "native"  # the GPU of the builder
GENCODE = re.compile(r"arch=compute_(\w+),code=(?:\[([\w,]+)\]|([\w,]+))")
SYCL = "-fsycl"  # makes a compiler of SYCL look for kernels
SYCL_TARGETS = re.compile(r"-fsycl-targets=(\S+)")  # the last one counts
# The option of ocloc that names the GPUs of spir64_gen; -Xs and -Xsycl-target-backend[=TARGET] pass it on.
SYCL_DEVICES = re.compile(r"-device[ =]([\w.,:+-]+)")
ONE_SYCL_GPU = "intel_gpu_"  # a target for one GPU: intel_gpu_mtl_h is what ocloc calls mtl-h


def read_command_images(commands: Iterable[Compile]) -> tuple[str, ...] | None:
    """Return the device images of a library's commands, or None if the compiler chooses them itself."""
    images: dict[str, None] = {}
    for command in commands:
        if command.source.endswith(DEVICE_SOURCES) or SYCL in command.flags:
            found = read_images(command.flags)
            if found is None:
                return None
            images.update(found)
    return tuple(images)


def read_images(flags: Iterable[str]) -> dict[str, None] | None:
    """Return the images that the flags of a compiler of kernels request; None if it chooses them itself."""
    told = list(flags)
    if SYCL in told:
        return _read_sycl_images(told)
    found = [image for flag in told for image in (*_gencode(flag), *_offload_targets(flag))]
    return None if not found or NATIVE in found else dict.fromkeys(found)


def _gencode(flag: str) -> Iterator[str]:
    """Yield the images that one nvcc flag requests."""
    for match in GENCODE.finditer(flag):
        yield from (match[2] or match[3]).split(",")
    if short := re.fullmatch(r"(?:-arch|--gpu-architecture)=sm_(\w+)", flag):
        yield from (f"sm_{short[1]}", f"compute_{short[1]}")


def _offload_targets(flag: str) -> Iterator[str]:
    """Yield the targets that one hipcc flag requests, spelt as in device bundles."""
    match = OFFLOAD.fullmatch(flag)
    for text in match[1].split(",") if match else ():
        yield str(GfxArch.parse(text)) if GFX.fullmatch(text) else text


def _read_sycl_images(flags: Iterable[str]) -> dict[str, None] | None:
    """Return the images that the flags of a compiler of SYCL request; None if they do not name the GPUs."""
    text = " ".join(flags)
    targets = [*SYCL_TARGETS.finditer(text)][-1:]
    devices = [name for match in SYCL_DEVICES.finditer(text) for name in match[1].split(",")]
    images: dict[str, None] = {}
    for target in targets[0][1].split(",") if targets else [SPIRV]:
        if target.startswith(ONE_SYCL_GPU):
            images[f"{MACHINE_CODE_FOR_INTEL}:{target.removeprefix(ONE_SYCL_GPU).replace('_', '-')}"] = None
        elif target != MACHINE_CODE_FOR_INTEL:
            images[target.partition("-")[0]] = None  # spir64-unknown-unknown
        elif devices:
            images.update(dict.fromkeys(f"{MACHINE_CODE_FOR_INTEL}:{name}" for name in devices))
        else:
            return None
    return images


def list_images(kind: AcceleratorKind | None, archs: Sequence[str]) -> frozenset[str]:
    """Return the device images of requested architectures, without those that are there whatever is requested."""
    return frozenset({*kind.images(archs)} - {*kind.images(())}) if kind else frozenset()


# ---------------------------------------------------------------- of cmake's targets

# An ordinary `set(CMAKE_CUDA_ARCHITECTURES …)` hides the cache entry that `-D` makes; one with CACHE keeps it, as one
# does behind `if(NOT DEFINED …)` (cmake-commands(7), set). Which of them a project does, its targets say.
VARIABLE = "CMAKE_CUDA_ARCHITECTURES"
LANGUAGE = "CUDA"  # as the file API names it


class Images(NamedTuple):
    """The device images that targets are compiled for: None where their compiler chooses, or where targets differ."""

    names: frozenset[str] | None
    differing: tuple[str, ...] = ()  # targets and their images, where they differ


def images_of(targets: Iterable[CmakeTarget]) -> Images:
    """Return the device images that all targets with CUDA sources have in common; none without such a target."""
    found: dict[str, frozenset[str] | None] = {}
    for target in targets:
        commands = [command for command in target.compiles if command.compiler == LANGUAGE]
        if commands:
            flags = (read_images(command.flags) for command in commands)
            every = [None if one is None else frozenset(one) for one in flags]
            found[target.name] = every[0] if all(one == every[0] for one in every) else None
    kinds = set(found.values())
    if len(kinds) > 1:
        shown = (
            f"{name} for {' '.join(sorted(one)) if one else 'what its compiler chooses'}" for name, one in found.items()
        )
        return Images(None, tuple(shown))
    return Images(next(iter(kinds), frozenset()))


def spell_for_cmake(archs: Sequence[str]) -> str:
    """Return requested architectures as CMAKE_CUDA_ARCHITECTURES names them: `90-real;100`, both kinds of code."""
    parsed = map(CudaArch.parse, archs)
    return ";".join(f"{arch.sm.removeprefix('sm_')}{'' if arch.ptx else '-real'}" for arch in parsed)
