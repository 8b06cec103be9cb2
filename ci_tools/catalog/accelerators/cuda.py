"""CUDA, the software of NVIDIA's GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from ci_tools.model.platforms import Accelerator, AcceleratorKind, StackRelease
from ci_tools.model.versions import CudaArch, Minor

LABEL = re.compile(r"cu(\d\d?)(\d)")
IMAGE = re.compile(r"(?P<kind>sm|compute)_(?P<major>\d+)(?P<minor>\d)(?P<variant>[af]?)")
# Two objects of one source in one folder must not share what nvcc generates for them, as its manual warns under
# "--objdir-as-tempdir". nvcc 13.0 and 13.5 call all of it after the object; older ones were not tried.
NAMES_BY_OBJECT = Minor(13, 0)


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

    def list_unknown(self, images: AbstractSet[str]) -> list[str]:
        """Return the device images that nvcc of this release does not make."""
        codes = filter(None, map(IMAGE.fullmatch, sorted(images)))
        return [one[0] for one in codes if f"{one['major']}.{one['minor']}{one['variant']}" not in self.architectures]


class CudaKind(AcceleratorKind):
    """The values and answers of CUDA."""

    __slots__ = ()
    named = stack = "CUDA"
    label_start = "cu"
    is_on_index = True
    has_gpus_in_ci = True
    arch_form = r"^[0-9]{1,2}\.[0-9][af]?(\+PTX)?$|^native$"
    arch_told = 'an architecture such as "9.0", "9.0a" or "10.0+PTX"'
    archs_told = "the GPU architectures of the fatbinary; native stands for those of this machine's GPUs"
    more_keys = {name: {"$ref": f"#/$defs/{name}"} for name in ("arch-env", "one-per-major")}
    required = ("cuda", "archs")
    row = {"$ref": "#/$defs/catalog-cuda"}
    row_required = ("archs", "arch_specific", "family_specific", "driver", "sass_driver")
    kernels = r"\.cu"
    sources = r"\.cuh?$"
    mentions = r"\bCUDAExtension\b|\bLANGUAGES\b[^)]*\bCUDA\b|\benable_language\s*\(\s*CUDA|'cuda'"
    usual_archs = ("8.0", "9.0", "10.0")
    arch_list = ("TORCH_CUDA_ARCH_LIST", ";")
    homes = ("CUDA_HOME",)
    compiler = "nvcc"
    said = r"release (\d+)\.(\d+)"
    tools = {
        "nvcc": "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {version}, V{version}.0\n"
        "Build cuda_{version}.r{version}/compiler.0_0"
    }
    is_asked_unversioned = False
    has_known_flags = True
    has_parts = True
    torch_mib = 2048
    has_symbols = True
    switches = "CUDA|GPU|NVCC|NVIDIA"
    torch_versions = ("cuda",)
    loose = (".cubin", ".fatbin", ".ptx")

    def label(self, version: Minor | None) -> str:
        """Return `cu130`."""
        return f"cu{version.digits}" if version else str(self)

    def read_label(self, label: str) -> Minor:
        """Read `cu130`."""
        found = LABEL.fullmatch(label)
        if found is None:
            raise ValueError(label)
        return Minor(int(found[1]), int(found[2]))

    def read_release(self, table: Mapping[str, Any]) -> Cuda:
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

    def parse_arch(self, text: str) -> str:
        """Return `10.0+PTX`."""
        return str(CudaArch.parse(text))

    def name_target(self, arch: str) -> str:
        """Return `9.0a`, without `+PTX`."""
        return arch.removesuffix("+PTX")

    def choose_usual_archs(self, release: StackRelease) -> tuple[str, ...]:
        """Return the usual architectures that nvcc of a release knows, with PTX of the newest."""
        *known, newest = super().choose_usual_archs(release)
        return (*known, f"{newest}+PTX")

    def name_archs(self, images: AbstractSet[str]) -> tuple[str, ...]:
        """Return images as a request names architectures, `9.0` or `10.0+PTX`; nothing where it has no name for one."""
        codes = [match for match in map(IMAGE.fullmatch, images) if match and match["kind"] == "sm"]
        named = [f"{match['major']}.{match['minor']}{match['variant']}" for match in codes]
        found = sorted(CudaArch.parse(f"{one}{'+PTX' * (CudaArch.parse(one).compute in images)}") for one in named)
        archs = tuple(map(str, found))
        return archs if {*self.images(archs)} == images else ()

    def variables(self, version: Minor | None) -> Mapping[str, str]:
        """Return a variable with which nvcc calls what it generates after the object file, and not its process number.

        Both get into the symbols of the library.
        """
        return {"NVCC_PREPEND_FLAGS": "--objdir-as-tempdir"} if version and version >= NAMES_BY_OBJECT else {}

    def files(self, version: Minor | None) -> Mapping[str, str]:
        """Return the files that say the toolkit's version."""
        if version is None:
            return {}
        number = version.major * 1000 + version.minor * 10
        return {
            "include/cuda.h": f"#define CUDA_VERSION {number}\n",
            "include/cuda_runtime_api.h": f"#define CUDART_VERSION {number}\n",
            "version.json": f'{{"cuda": {{"version": "{version}.0"}}}}\n',
        }

    def capability(self, arch: str) -> str:
        """Return `9.0`."""
        return str(CudaArch.parse(arch).capability)

    def images(self, archs: Sequence[str]) -> tuple[str, ...]:
        """Return machine code for each, and PTX of those that ask for it."""
        found = map(CudaArch.parse, archs)
        return tuple(image for arch in found for image in ((arch.sm, arch.compute) if arch.ptx else (arch.sm,)))

    def runs(self, image: str, arch: str) -> bool:
        """Whether a GPU runs the image: machine code within its major version, PTX from its own on."""
        match = IMAGE.fullmatch(image)
        if match is None:
            return False
        own, gpu = Minor(int(match["major"]), int(match["minor"])), CudaArch.parse(arch).capability
        if match["variant"] == "a":
            return gpu == own
        if match["kind"] == "sm" or match["variant"] == "f":
            return gpu.major == own.major and gpu >= own
        return gpu >= own


CUDA = CudaKind("cuda")


def cuda_of(accelerator: Accelerator | None) -> Minor | None:
    """Return the version of CUDA that an accelerator is; None for another one, or for one without a version."""
    return accelerator.version if accelerator and accelerator.kind == CUDA else None
