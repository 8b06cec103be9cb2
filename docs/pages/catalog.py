"""docs/reference/catalog.md: the data files of ci_tools/catalog as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools import catalog
from ci_tools.catalog.accelerators import KINDS
from ci_tools.catalog.accelerators.rocm import ROCM as AMD
from ci_tools.catalog.accelerators.rocm import gfx_facts
from ci_tools.catalog.accelerators.xpu import XPU as INTEL
from ci_tools.catalog.accelerators.xpu import intel_gpus
from ci_tools.model.versions import Minor
from docs.pages.markdown import code, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ci_tools.catalog import TorchRelease
    from ci_tools.model.platforms import AcceleratorKind


CATALOG = """\
# The catalog

What Fatwheel knows of torch, CUDA, ROCm, oneAPI, Python and the platforms. Each fact is a line in a data file under
[`ci_tools/catalog`](../../ci_tools/catalog), with its source beside it. A cell that needs a combination not listed here
is skipped, and the plan says so.

A project adds rows of its own, with the keys that [the config](config.md#catalog) lists: [use a torch that Fatwheel
does not know yet](../how-to/use-a-new-torch.md)."""

CUDA = """\
The PyPI column is the `cuda-toolkit` whose compiler `toolchain: pypi` fetches, the next one the release of NVIDIA's
archives that `toolchain: redist` takes. A wheel's machine code (SASS) runs from
the first driver on, its PTX from the second. `a` compiles for that chip only, `f` for its family.
No wheel for CUDA 12 has been compiled here: our machines lack its compiler."""

ROCM = """\
The compiler knows these architectures. A platform that names no `archs` is built for those of torch's own wheels, where
they are listed. The driver is the oldest that AMD tested the release with. A generic architecture's code runs on
several, and a feature is asked for as in `gfx90a:xnack+`."""
XPU = """\
A torch for XPU requires the runtime of SYCL of one oneAPI, `libsycl.so.8` or `libsycl.so.9`. Code that an older oneAPI
compiled runs with a newer runtime of the same number. `archs` takes these names of GPUs, which are ocloc's; what a
library calls the code for them is beside each."""
NOT_SEEN = "not seen"

TORCH = """\
For each release, what upstream ships, by host; what is not listed was not seen."""


def describe() -> Iterator[str]:
    """Give the catalog's tables."""
    known = catalog.load()
    yield CATALOG
    yield from ("", "## Platforms")
    yield from table(("platform", "host", "accelerator", "wheel platform", "runner"), _platforms(known))
    yield from ("", "## Python", "", f"{code(known.pythons, ', ')}. A `t` is a free-threaded build.")
    yield from ("", "## CUDA", "", CUDA)
    columns = ("CUDA", "architectures", "PyPI", "NVIDIA's archives", "driver for SASS", "driver for PTX")
    yield from table(columns, _cudas(known))
    yield from ("", "## ROCm", "", ROCM)
    yield from table(("ROCm", "clang", "architectures", "torch's own", "oldest kernel driver"), _rocms(known))
    yield from table(("generic", "runs on"), _generic(known))
    yield from table(("feature", "of"), _features(known))
    yield from ("", "## XPU", "", XPU)
    yield from table(("oneAPI", "runtime", "torch"), _oneapis(known))
    yield from table(("GPU", "in a library"), _intel_gpus(known))
    yield from ("", "## torch", "", TORCH)
    yield from table(("torch", "release", "Python", "CUDA", "ROCm", "XPU"), map(_torch, known.torch.values()))
    yield from ("", "## Minutes", "", "How long one build may take where the config says no `timeout-minutes`.")
    yield from table(("what it compiles", "minutes"), _minutes(known))
    yield from ("", "## Size limits", "", "The largest file each place takes.")
    yield from table(("place", "bytes"), ((f"`{place}`", f"{most:,}") for place, most in known.limits.items()))


def _platforms(known: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    for name, facts in known.platforms.items():
        yield f"`{name}`", facts.host, facts.accelerator or "", f"`{facts.wheel_platform}`", f"`{facts.runner}`"


def _minutes(known: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    kinds = ("nothing: a pure wheel, an sdist", "code for a CPU", "code for an accelerator: CUDA, ROCm, XPU")
    return zip(kinds, known.minutes, strict=True)


def _cudas(known: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    for version, cuda in known.cuda.items():
        archs = sorted(cuda.architectures, key=lambda arch: (float(arch.rstrip("af")), arch))
        release = cuda.redist.release if cuda.redist else NOT_SEEN
        yield version, " ".join(archs), cuda.pypi or "none", release, cuda.sass_driver, cuda.driver


def _rocms(known: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    for version, rocm in known.stacks[AMD].items():
        archs, own = " ".join(_by_number(rocm.architectures)), " ".join(rocm.torch)
        yield version, rocm.clang or NOT_SEEN, archs, own or NOT_SEEN, rocm.driver or NOT_SEEN


def _oneapis(known: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    for version, oneapi in known.stacks[INTEL].items():
        torches = (str(torch.version) for torch in known.torch.values() if torch.oneapi == version)
        yield version, f"`libsycl.so.{oneapi.sycl}`", " ".join(torches) or NOT_SEEN


def _intel_gpus(_: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    for name, images in intel_gpus().named.items():
        yield f"`{name}`", " ".join(f"`spir64_gen:{image}`" for image in images)


def _generic(_: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    for name, processors in gfx_facts().runs_on.items():
        yield f"`{name}`", " ".join(_by_number(processors))


def _features(_: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    for name, targets in gfx_facts().features.items():
        yield f"`{name}`", " ".join(_by_number(targets))


def _by_number(archs: Iterable[str]) -> list[str]:
    """Return architectures with those of shorter numbers first, gfx942 before gfx1030, and generic ones last."""
    return sorted(archs, key=lambda arch: (arch.endswith("-generic"), len(arch), arch))


def _torch(release: TorchRelease) -> tuple[object, ...]:
    pythons = {host: " ".join(map(str, sorted(names))) for host, names in release.pythons.items()}
    cuda, rocm, xpu = (_by_host(_shipped(release, kind)) for kind in KINDS.values())
    return release.version, release.patch, _by_host(pythons), cuda, rocm, xpu


def _shipped(release: TorchRelease, kind: AcceleratorKind) -> dict[str, str]:
    return {
        host: " ".join(
            str(version or "yes") for version in sorted(versions, key=lambda version: version or Minor(0, 0))
        )
        for (host, shipped), versions in release.accelerators.items()
        if shipped == kind
    }


def _by_host(values: Mapping[str, str]) -> str:
    """Return what each host has, those that are alike together."""
    alike: dict[str, list[str]] = {}
    for host, value in values.items():
        alike.setdefault(value, []).append(host)
    return "<br>".join(f"{value} ({_hosts(hosts)})" for value, hosts in alike.items())


def _hosts(names: Sequence[str]) -> str:
    every = {facts.host for facts in catalog.load().platforms.values()}
    return "every host" if set(names) == every else ", ".join(names)
