"""ROCm, the software of AMD's GPUs."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ci_tools.catalog.tables import read
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.model.versions import GfxArch, Minor


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


@functools.cache
def gfx_facts() -> GfxFacts:
    """Return what rocm.toml says of targets."""
    table = read("rocm")
    return GfxFacts(
        runs_on={name: frozenset(processors) for name, processors in table["generic"].items()},
        features={name: frozenset(targets) for name, targets in table["features"].items()},
    )


class RocmKind(AcceleratorKind):
    """The values and answers of ROCm."""

    __slots__ = ()
    named = stack = "ROCm"
    arch_form = r"^gfx([0-9]{1,2}[0-9][0-9a-f]|[0-9]{1,2}(-[0-9])?-generic)(:(sramecc|xnack)[+-])*$"
    arch_told = "an architecture such as gfx942, gfx9-4-generic or gfx90a:xnack+"
    row = {"$ref": "#/$defs/catalog-rocm"}
    row_required = ("archs", "generic")
    kernels = r"\.(?:cu|hip)"  # hipify translates files for CUDA
    file_words = r"ROCM|\bHIP|HIP\b|HIPIFY|AMDGPU|GPU"
    sources = r"\.hip$"
    own_headers = r"^[ \t]*#[ \t]*include[ \t]*[<\"]hip/hip_\w+"
    usual_archs = ("gfx90a", "gfx942", "gfx1100")
    arch_list = ("PYTORCH_ROCM_ARCH", ";")
    homes = ("ROCM_HOME", "ROCM_PATH")
    places = ("/opt/rocm*",)
    places_told = "/opt/rocm-{version}, /opt/rocm"
    compiler = "hipcc"
    said = r"HIP version: (\d+)\.(\d+)"
    tools = {"hipcc": "HIP version: {version}.0", "hipconfig": "{version}.0"}
    hides = ("hipcc.pl",)
    has_known_flags = True
    needs_whole_torch = True
    torch_mib = 4096
    switches = "ROCM|HIP|GPU|AMD|CUDA"  # torch's CUDAExtension compiles for both
    torch_versions = ("hip", "rocm")
    loose = (".hsaco",)

    def read_release(self, table: Mapping[str, Any]) -> Rocm:
        """Return one release of rocm.toml."""
        return Rocm(
            Minor.parse(table["version"]),
            table.get("clang", 0),
            frozenset((*table["archs"], *table["generic"])),
            tuple(table.get("torch", ())),
            table.get("driver", ""),
        )

    def parse_arch(self, text: str) -> str:
        """Return `gfx90a:sramecc-:xnack+`, with the features in the compilers' order."""
        return str(GfxArch.parse(text))

    def name_target(self, arch: str) -> str:
        """Return the processor, without its features."""
        return GfxArch.parse(arch).processor

    def find_arch_mistakes(self, archs: Sequence[str], releases: Sequence[Any]) -> Iterator[tuple[int, str]]:
        """Yield what is wrong with targets, and with their features."""
        yield from super().find_arch_mistakes(archs, releases)
        parsed = [*map(GfxArch.parse, archs)]
        for number, arch in enumerate(parsed):
            for what in _find_feature_mistakes(arch, parsed[:number]):
                yield number, what

    def choose_archs(self, releases: Sequence[Any]) -> tuple[str, ...]:
        """Return the architectures of upstream's torch that all of the releases have."""
        first = releases[0].torch if releases else ()
        return tuple(arch for arch in first if all(arch in release.torch for release in releases))

    def variables(self, version: Minor | None) -> Mapping[str, str]:
        """Return the variable without which hipcc compiles for NVIDIA where nvcc is, and no clang++, as on Debian."""
        return {"HIP_PLATFORM": "amd"}

    def capability(self, arch: str) -> str:
        """Return `9.4` for gfx942."""
        return str(GfxArch.parse(arch).capability)

    def runs(self, image: str, arch: str) -> bool:
        """Whether GPUs run the image: it is for them, or for a generic target that includes them."""
        try:
            return gfx_facts().serves(GfxArch.parse(image), GfxArch.parse(arch))
        except ValueError:  # the library's text is not an architecture
            return False


def _find_feature_mistakes(arch: GfxArch, earlier: Sequence[GfxArch]) -> Iterator[str]:
    taken = [name for name, takers in gfx_facts().features.items() if arch.processor in takers]
    expected = f"{arch.processor} with {' or '.join(taken)}" if taken else arch.processor
    for name in dict.fromkeys(arch.named):
        if name not in taken:
            yield f'{arch.processor} has no feature "{name}", expected {expected}'
        elif arch.named.count(name) > 1:
            yield f'"{arch}" names the feature "{name}" twice, expected it once'
    for other in earlier:
        if other.processor == arch.processor and (other == arch or other.named != arch.named):
            what = f'"{other}" and "{arch}" cannot be in one library'
            yield f"{what}, expected each target of {arch.processor} to name the same features"


ROCM = RocmKind("rocm")
