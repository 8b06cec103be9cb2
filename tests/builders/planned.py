"""Plans of platforms that all show the same: of each kind of evidence, with each kind of request."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from itertools import chain, combinations, product

from ci_tools import catalog
from ci_tools.catalog.accelerators.cuda import CUDA as NVIDIA
from ci_tools.model.evidence import (
    Binding,
    CellEvidence,
    Evidence,
    Extensions,
    PlatformEvidence,
    Project,
    PythonApi,
    TorchAbi,
)
from ci_tools.model.plan import Plan
from ci_tools.model.platforms import Accelerator, Platform
from ci_tools.model.request import Enabled, Globs, PathSource, PlatformRequest, Request, Torch
from ci_tools.model.versions import Minor, Python
from ci_tools.plan import planner

CUDA = NVIDIA


def pythons(names: str) -> tuple[Python, ...]:
    return tuple(map(Python.parse, names.split()))


ASKED = pythons("3.10 3.12 3.14 3.14t 3.15 3.15t")
APIS = (
    PythonApi(Binding.NONE, "p:1"),
    PythonApi(Binding.FULL, "p:1"),
    PythonApi(Binding.UNKNOWN, "p:1"),
    PythonApi(Binding.STABLE, "p:1", Minor(3, 12)),
    PythonApi(Binding.STABLE, "p:1", Minor(3, 12), builds_older=True),
    PythonApi(Binding.STABLE, "p:1", Minor(3, 12), Minor(3, 15), builds_older=True),
    PythonApi(Binding.STABLE, "p:1", None, Minor(3, 15), builds_older=True),
    PythonApi(Binding.STABLE, "p:1", Minor(3, 15), Minor(3, 15), builds_older=True),
)
ABIS = (
    TorchAbi(Binding.NONE, "t:1"),
    TorchAbi(Binding.FULL, "t:1", uses_torch=True),
    TorchAbi(Binding.UNKNOWN, "t:1"),
    TorchAbi(Binding.STABLE, "t:1", Minor(2, 10), uses_torch=True),
)
CUDAS = tuple(Accelerator(CUDA, version) for version in (Minor(12, 6), Minor(12, 9), Minor(13, 0)))


def asked(platform: Platform = Platform.LINUX_CUDA, **fields: object) -> PlatformRequest:
    found: dict[str, object] = {"owner": "@x", "native": Globs(("*.cu",)), "wheel_platform": "linux", **fields}
    if platform is Platform.LINUX_CUDA:
        found = {"accelerators": CUDAS, "archs": ("9.0",), **found}
    return PlatformRequest(platform=platform, where="fatwheel.yml:4", **found)  # type: ignore[arg-type]


def shown(request: PlatformRequest, api: PythonApi, abi: TorchAbi, extensions: Extensions) -> PlatformEvidence:
    native = () if extensions is Extensions.NONE else ("a.cu",)
    return PlatformEvidence(
        platform=request.platform,
        native_files=native,
        shown=CellEvidence(extensions=extensions, extensions_where="b:1", python_api=api, torch_abi=abi),
    )


def planned(
    platforms: Iterable[PlatformRequest],
    api: PythonApi = APIS[0],
    abi: TorchAbi = ABIS[0],
    extensions: Extensions = Extensions.SOME,
    **fields: object,
) -> Plan:
    """Return the plan of platforms that all show the same."""
    platforms = tuple(platforms)
    torch = Torch(versions=(Minor(2, 10), Minor(2, 14), Minor(2, 15)))
    known = {"name": "demo", "config": "fatwheel.yml", "source": PathSource(path="."), "pythons": ASKED, "torch": torch}
    request = Request(platforms=platforms, **{**known, **fields})  # type: ignore[arg-type]
    evidence = Evidence(
        project=Project("demo", "1.0", ">=3.10", "x", "p:1"),
        source_sha256="",
        commit=None,
        platforms=tuple(shown(platform, api, abi, extensions) for platform in platforms),
    )
    return planner.make_plan(request, evidence, catalog.load())


def plans() -> Iterator[Plan]:
    """Yield plans of every combination of evidence, and of every choice a request has."""
    for api, abi, extensions in product(APIS, ABIS, Extensions):
        yield planned([asked(), asked(Platform.LINUX_CPU)], api, abi, extensions)
    for enabled, one_per_major, api in product(Enabled, (False, True), APIS):
        yield planned([asked(enabled=enabled, one_per_major=one_per_major)], api, ABIS[1])
    some = chain.from_iterable(combinations(ASKED, size) for size in (1, 2, 3))
    for chosen, api in product(some, APIS):
        yield planned([asked(Platform.LINUX_CPU)], api, pythons=chosen, torch=None)


@functools.cache
def every_plan() -> tuple[Plan, ...]:
    """Return them, made once for all who look at them."""
    return tuple(plans())
