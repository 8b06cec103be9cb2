"""Rules about torch: every release that the wheel serves must have the symbols that its libraries need."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools import catalog
from ci_tools.catalog.symbols import is_torch_symbol, missing, tables
from ci_tools.formats.elf import Extent, read_elf
from ci_tools.model.files import Level
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.verify.audit.metadata.labels import requirements
from ci_tools.verify.audit.subject import Flaw, abbreviate, read_each

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_tools.model.plan import Job
    from ci_tools.model.versions import Minor
    from ci_tools.verify.audit.subject import Subject

__all__ = ["sycl_runtime", "torch_requirement", "torch_symbols"]


SYCL_RUNTIME = re.compile(r"libsycl\.so\.(\d+)")
LIBRARIES = re.compile(
    r"lib(?:torch(?:_cpu|_cuda|_python|_hip|_xpu)?|c10(?:_cuda|_hip|_xpu)?)\.so(?:\.\d+)*"
    r"|(?i:(?:torch(?:_cpu|_cuda|_python|_hip|_xpu)?|c10(?:_cuda|_hip|_xpu)?)\.dll)"
)


class Asked(NamedTuple):
    """The torch symbols that a library needs, those it can do without, and all symbols that it defines."""

    required: frozenset[str]
    weak: frozenset[str]
    defined: frozenset[str]


def torch_symbols(subject: Subject) -> Iterator[Flaw]:
    """Every torch symbol that a library asks for is in each torch the wheel serves, from the lowest up.

    Symbols that the wheel's own libraries define are not counted, and a missing weak symbol is only a warning. Of a
    library that its package does without on older releases, those below its target do not count.
    """
    job = subject.job
    served = _list_releases(job) if job else frozenset()
    if job is None or not served:
        return
    libraries = dict(read_each(subject.libraries, _read_symbols))
    own = frozenset().union(*(library.defined for library in libraries.values()))
    spared = dict(job.spared)
    for name, library in libraries.items():
        loading = frozenset(release for release in served if name not in spared or release >= spared[name])
        for symbols, level in ((library.required, Level.ERROR), (library.weak, Level.WARNING)):
            for releases, lacking in _group_by_releases(symbols - own, loading, job).items():
                message = f"{name} asks for symbols that are not in torch {', '.join(map(str, sorted(releases)))}"
                yield Flaw(message, abbreviate(lacking), f"what torch from {min(loading)} on has", level)
    untabled = served.difference(tables().releases)
    if untabled and any(library.required for library in libraries.values()):
        newest = f"what torch up to {max(tables().releases)} has"
        yield Flaw("the symbols of a torch are not known", abbreviate(map(str, untabled)), newest, Level.WARNING)


def torch_requirement(subject: Subject) -> Iterator[Flaw]:
    """Wheels whose libraries use torch require torch in METADATA.

    A warning: without it, an installer makes an environment in which the import fails. Some projects state it only in
    their documentation, so that no installer replaces the user's build of torch. A requirement in an extra is enough.
    """
    required = {canonicalize_name(one.name) for one in requirements(subject.wheel)}
    own = subject.wheel.named[0] if subject.wheel.named else ""
    if subject.is_pure or "torch" in {*required, own}:
        return
    needs = {name: one.needed for name, one in subject.readable_linkings.items()}
    needs |= {name: tuple(each.library for each in found) for name, found in subject.readable_imports.items()}
    linked = {name for name, libraries in needs.items() if any(map(LIBRARIES.fullmatch, libraries))}
    asking = {name for name, found in read_each(subject.libraries, _read_symbols) if found.required - found.defined}
    if linked | asking:
        message = f"{abbreviate(linked | asking)} use torch, and METADATA does not require it"
        yield Flaw(message, abbreviate(required), "Requires-Dist: torch", Level.WARNING)


def sycl_runtime(subject: Subject) -> Iterator[Flaw]:
    """Libraries for XPU are linked with the runtime of SYCL that each torch of the wheel requires, libsycl.so.8 or .9.

    A process with two of them has two sets of queues and devices: what one allocates, the other does not know.
    """
    job, known = subject.job, catalog.load()
    if job is None or job.accelerator is None or job.accelerator.kind is not AcceleratorKind.XPU:
        return
    required = {found.sycl for cell in job.covers if (found := known.find_oneapi(cell.torch))}
    for name, one in subject.readable_linkings.items():
        for number in (int(match[1]) for match in map(SYCL_RUNTIME.fullmatch, one.needed) if match):
            if required and required != {number}:
                expected = ", ".join(f"libsycl.so.{each}" for each in sorted(required))
                message = f"{name} is linked with another runtime of SYCL than torch"
                yield Flaw(message, f"libsycl.so.{number}", expected)


def _list_releases(job: Job) -> frozenset[Minor]:
    """Return the torch releases a wheel is installed with; without an upper bound, all later releases too."""
    asked = frozenset(cell.torch for cell in job.covers if cell.torch)
    if not asked or job.requires_torch:
        return asked
    return asked.union(release for release in tables().releases if release >= min(asked))


def _read_symbols(library: BinaryIO) -> Asked:
    symbols = tuple(read_elf(Extent.whole(library)).symbols(".dynsym"))
    undefined = [symbol for symbol in symbols if not symbol.section and is_torch_symbol(symbol.name)]
    return Asked(
        frozenset(symbol.name for symbol in undefined if not symbol.is_weak),
        frozenset(symbol.name for symbol in undefined if symbol.is_weak),
        frozenset(symbol.name for symbol in symbols if symbol.section and symbol.is_visible),
    )


def _group_by_releases(
    symbols: Iterable[str], served: frozenset[Minor], job: Job
) -> Mapping[frozenset[Minor], frozenset[str]]:
    """Return the missing symbols, grouped by the torch releases that lack them."""
    accelerator = job.accelerator.kind if job.accelerator else None
    lacking: dict[str, set[Minor]] = {}
    for release in served.intersection(tables().releases):
        for symbol in missing(symbols, release, accelerator):
            lacking.setdefault(symbol, set()).add(release)
    groups = {frozenset(releases) for releases in lacking.values()}
    return {group: frozenset(name for name, releases in lacking.items() if releases == group) for group in groups}
