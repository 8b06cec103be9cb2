"""XPU, torch's name for Intel's GPUs, whose software is oneAPI with SYCL."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from ci_tools.catalog.tables import read
from ci_tools.errors import nearest
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.model.versions import Minor

SPIRV, NATIVE = "spir64", "spir64_gen"  # the names of images in a library: for every GPU, and machine code for one


class OneApi(NamedTuple):
    """One oneAPI release, whose compiler builds SYCL code."""

    version: Minor
    sycl: int  # the number in the name of its runtime: 8 for libsycl.so.8
    architectures: frozenset[str] = frozenset()


class IntelGpus(NamedTuple):
    """Intel's GPUs by ocloc's names, and what machine code for them is named in a library."""

    named: Mapping[str, tuple[str, ...]]  # pvc to 12.60.7
    families: Mapping[str, str]  # bmg to the IP version that machine code for only this family names


@functools.cache
def intel_gpus() -> IntelGpus:
    """Return what xpu.toml says of GPUs."""
    table = read("xpu")
    return IntelGpus({name: tuple(found) for name, found in table["gpus"].items()}, table["families"])


class XpuKind(AcceleratorKind):
    """The values and answers of XPU."""

    __slots__ = ()
    named = "XPU"
    named_in_finder = "Intel XPU"
    stack = "oneAPI"
    is_versioned = False
    arch_form = "^[a-z][a-z0-9-]{1,30}$"
    arch_told = "a GPU as ocloc names it, such as pvc or bmg"
    archs_told = "the GPUs that the wheel has machine code for, besides SPIR-V for all; without it, SPIR-V only"
    unfetched = "the package index has oneAPI's runtime, but not icpx, its compiler"
    row = {"$ref": "#/$defs/catalog-oneapi"}
    row_required = ("sycl",)
    shipped = {"$ref": "#/$defs/catalog-torch-xpu"}
    kernels = r"\.(?:sycl|cpp|cc|cxx)"
    includes = r"^\s*#\s*include\s*[<\"](?:CL/)?sycl"
    sources = r"\.sycl$"
    # A source that includes <sycl/sycl.hpp> is compiled with one of these.
    mentions = r"\bSyclExtension\b|\bIntelSYCL\b|-fsycl\b"
    arch_list = ("TORCH_XPU_ARCH_LIST", ",")
    homes = ("CMPLR_ROOT",)  # by which compiler/VERSION/env/vars.sh of oneAPI names the compiler's folder
    # Where Intel's installer puts oneAPI, for root and for others, and where its setvars.sh says that it is.
    places = ("/opt/intel/oneapi/compiler/*", "$ONEAPI_ROOT/compiler/*", "$HOME/intel/oneapi/compiler/*")
    places_told = "ONEAPI_ROOT, /opt/intel/oneapi, ~/intel/oneapi"
    compiler = "icpx"
    said = r"oneAPI DPC\+\+/C\+\+ Compiler (\d+)\.(\d+)"
    tools = {"icpx": "Intel(R) oneAPI DPC++/C++ Compiler {version}.0"}
    hides = ("icx.exe", "icx.bat")  # as it is called on Windows
    has_known_flags = True
    switches = "XPU|SYCL|GPU|ONEAPI"
    torch_versions = ("xpu",)

    def read_release(self, table: Mapping[str, Any]) -> OneApi:
        """Return one release of xpu.toml."""
        return OneApi(Minor.parse(table["version"]), table["sycl"])

    def read_shipped(self, table: Mapping[str, Any]) -> dict[str, frozenset[Minor | None]]:
        """Return the machines, each for no version."""
        return {host: frozenset({None}) for host in table.get("machines", ())}

    def find_arch_mistakes(self, archs: Sequence[str], releases: Sequence[Any]) -> Iterator[tuple[int, str]]:
        """Yield the GPUs that the catalog lacks."""
        known = intel_gpus().named
        for number, arch in enumerate(archs):
            if arch not in known:
                yield number, f'there is no Intel GPU "{arch}" in the catalog, {nearest(arch, known)}'

    def name_archs_for_torch(self, archs: Sequence[str]) -> dict[str, str]:
        """Return the variable in any case: empty, torch compiles SPIR-V only, without it for all of its own GPUs."""
        return {self.arch_list[0]: self.arch_list[1].join(archs)}

    def serves(self, found: Minor, wanted: Minor | None, known: Mapping[Minor, Any]) -> bool:
        """Whether the libraries of a compiler run with the runtime of the oneAPI of a torch.

        A library runs with a newer runtime of the same number in its name, and not with an older one: the compiler may
        be older than the oneAPI of torch, and not newer (ABIPolicyGuide of intel/llvm).
        """
        return wanted is None or (found <= wanted and found in known and known[found].sycl == known[wanted].sycl)

    def explain_need(self, torch: str, wanted: Minor | None, known: Mapping[Minor, Any]) -> str:
        """Return which of Intel's packages have such a compiler."""
        if wanted is None:
            return "expected Intel's Deep Learning Essentials, or an image that has them as `container`"
        runtime = f"libsycl.so.{known[wanted].sycl}"
        return (
            f"{torch} runs with {runtime} of oneAPI {wanted}: expected Intel's Deep Learning Essentials {wanted}, "
            f"or an older release with {runtime}, or an image that has them as `container`"
        )

    def name_torch_version(self, version: Minor | None, stack: str) -> str:
        """Return `20260100`, as torch 2.14.0+xpu says of oneAPI 2026.1."""
        year, _, minor = stack.partition(".")
        return f"{year}{int(minor):02}00" if minor else super().name_torch_version(version, stack)

    def images(self, archs: Sequence[str]) -> tuple[str, ...]:
        """Return SPIR-V, and machine code for each."""
        return (SPIRV, *(f"{NATIVE}:{arch}" for arch in archs))

    def name_images(self, found: AbstractSet[str], asked: AbstractSet[str]) -> set[str]:
        """Return images in the words of a request: machine code for GPUs that it names is called after them.

        A library names a GPU by its IP version or its family. One name of a request may stand for several IP versions,
        and counts as found if all of them are there; two names may stand for the same.
        """
        gpus = intel_gpus()
        named, known = set[str](), set[str]()
        for image in asked:
            name = image.removeprefix(f"{NATIVE}:")
            lone = {gpus.families[name]} if name in gpus.families else set[str]()
            for versions in ({*gpus.named.get(name, ())}, lone):
                own = {f"{NATIVE}:{version}" for version in versions}
                if own and own <= found:
                    named.add(image)
                    known |= own
        return named | (found - known)

    def runs(self, image: str, arch: str) -> bool:
        """Whether a GPU runs the image: the driver compiles SPIR-V for every one."""
        return image in {SPIRV, f"{NATIVE}:{arch}"}


XPU = XpuKind("xpu")
