"""The facts of the accelerators' software, CUDA, ROCm and oneAPI, and of the GPUs that it compiles for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.model.versions import Minor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_tools.model.versions import CudaArch, GfxArch


class Redist(NamedTuple):
    """NVIDIA's component archives of a toolkit: the release, and the sha256 of its list; "" if nobody has said it."""

    release: str
    sha256: str = ""


class Cuda(NamedTuple):
    """One CUDA toolkit release."""

    version: Minor
    architectures: frozenset[str]  # "9.0", "9.0a", "10.0f"
    pypi: str  # the exact cuda-toolkit version on PyPI; empty if that has no compiler
    driver: str  # the Linux driver it ships with: the floor for its PTX
    sass_driver: str  # the oldest Linux driver branch that runs its SASS
    has_image: bool = False  # whether upstream publishes a container image with it
    redist: Redist | None = None  # NVIDIA's component archives of it; None: not known

    def knows(self, arch: CudaArch) -> bool:
        """Whether nvcc of this release compiles for `arch`."""
        return f"{arch.capability}{arch.variant}" in self.architectures


class Rocm(NamedTuple):
    """One ROCm release."""

    version: Minor
    clang: int  # the major version of LLVM in its compiler; 0 if unknown
    architectures: frozenset[str]  # gfx90a, gfx9-4-generic
    torch: tuple[str, ...]  # the architectures of upstream's torch wheels; empty if unknown
    driver: str  # the oldest Linux kernel driver it was tested with; empty if unknown


class GfxFacts(NamedTuple):
    """The facts of AMD's targets that are the same in every release."""

    runs_on: Mapping[str, frozenset[str]]  # generic target to the processors that run its code
    features: Mapping[str, frozenset[str]]  # feature to the targets that have it

    def serves(self, code: GfxArch, asked: GfxArch) -> bool:
        """Whether `code` runs on every machine that runs code for `asked`."""
        is_there = asked.processor in {code.processor, *self.runs_on.get(code.processor, ())}
        return is_there and {*code.features} <= {*asked.features}


class OneApi(NamedTuple):
    """One oneAPI release, whose compiler builds SYCL code."""

    version: Minor
    sycl: int  # the number in the name of its runtime: 8 for libsycl.so.8


class IntelGpus(NamedTuple):
    """Intel's GPUs by ocloc's names, and what machine code for them is named in a library."""

    named: Mapping[str, tuple[str, ...]]  # pvc to 12.60.7
    families: Mapping[str, str]  # bmg to the IP version that machine code for only this family names


def read_cuda(table: Mapping[str, Any]) -> Cuda:
    """Return one release of cuda.toml."""
    variants = (
        *table["archs"],
        *(f"{arch}a" for arch in table["arch_specific"]),
        *(f"{arch}f" for arch in table["family_specific"]),
    )
    return Cuda(
        Minor.parse(table["version"]),
        frozenset(variants),
        table.get("pypi", ""),
        table["driver"],
        table["sass_driver"],
        table.get("image", False),
        Redist(**table["redist"]) if "redist" in table else None,
    )


def read_rocm(table: Mapping[str, Any]) -> Rocm:
    """Return one release of rocm.toml."""
    return Rocm(
        Minor.parse(table["version"]),
        table.get("clang", 0),
        frozenset((*table["archs"], *table["generic"])),
        tuple(table.get("torch", ())),
        table.get("driver", ""),
    )


def read_gfx(table: Mapping[str, Any]) -> GfxFacts:
    """Return what rocm.toml says of targets."""
    return GfxFacts(
        runs_on={name: frozenset(processors) for name, processors in table["generic"].items()},
        features={name: frozenset(targets) for name, targets in table["features"].items()},
    )


def read_oneapi(table: Mapping[str, Any]) -> OneApi:
    """Return one release of xpu.toml."""
    return OneApi(Minor.parse(table["version"]), table["sycl"])


def read_intel(table: Mapping[str, Any]) -> IntelGpus:
    """Return what xpu.toml says of GPUs."""
    return IntelGpus({name: tuple(found) for name, found in table["gpus"].items()}, table["families"])
