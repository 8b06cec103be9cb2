"""Rules about torch: every release that the wheel serves must have the symbols that its libraries need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

from packaging.utils import canonicalize_name

from ci_tools import catalog
from ci_tools.catalog.accelerators.xpu import XPU
from ci_tools.catalog.symbols import is_torch_symbol, missing, tables
from ci_tools.formats.binaries.elf import Bindings, Extent, read_elf
from ci_tools.model.files import Level
from ci_tools.model.plan import Job
from ci_tools.model.versions import Minor
from ci_tools.verify.audit.metadata.labels import requirements
from ci_tools.verify.audit.subject import Flaw, Subject, abbreviate, read_each

# TORCH_LIBRARY(ns, m) makes the function TORCH_LIBRARY_init_ns, TORCH_LIBRARY_IMPL(ns, KEY, m) another one that ends in
# ns_KEY_1 (torch/library.h), and names of C++ begin with their length.
MANGLED = re.compile(r"(?P<size>\d+)(?P<name>(?:STABLE_)?TORCH_LIBRARY_\w+)")
REGISTRATION = re.compile(
    r"(?:STABLE_)?TORCH_LIBRARY_(?:init_(?P<once>\w+)|FRAGMENT_init_(?P<more>\w+)_\d+|IMPL_init_(?P<of>\w+)_[A-Za-z]+_\d+)"
)
OF_TORCH = frozenset({"aten", "prims", "prim", "quantized", "_", "torchvision"})
SYCL_RUNTIME = re.compile(r"libsycl\.so\.(\d+)")
LIBRARIES = re.compile(
    r"lib(?:torch(?:_cpu|_cuda|_python|_hip|_xpu)?|c10(?:_cuda|_hip|_xpu)?)\.so(?:\.\d+)*"
    r"|(?i:(?:torch(?:_cpu|_cuda|_python|_hip|_xpu)?|c10(?:_cuda|_hip|_xpu)?)\.dll)"
)


def torch_symbols(subject: Subject) -> Iterator[Flaw]:
    """Every torch symbol that a library asks for is in each torch the wheel serves, from the lowest up.

    Bindings that the wheel's own libraries define are not counted, and a missing weak symbol is only a warning. Of a
    library that its package does without on older releases, those below its target do not count.
    """
    job = subject.job
    served = _list_releases(job) if job else frozenset()
    if job is None or not served:
        return
    libraries = {name: _of_torch(found) for name, found in subject.symbols.items()}
    spared = dict(job.spared)
    for name, library in libraries.items():
        loading = frozenset(release for release in served if name not in spared or release >= spared[name])
        for symbols, level in zip(library, (Level.ERROR, Level.WARNING), strict=True):
            for releases, lacking in _group_by_releases(symbols - subject.defined, loading, job).items():
                message = f"{name} asks for symbols that are not in torch {', '.join(map(str, sorted(releases)))}"
                yield Flaw(message, abbreviate(lacking), f"what torch from {min(loading)} on has", level)
    untabled = served.difference(tables().releases)  # a newer torch than the tables
    if untabled and any(required for required, _ in libraries.values()):
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
    asking = {name for name, found in subject.symbols.items() if _of_torch(found)[0] - found.defined}
    if linked | asking:
        message = f"{abbreviate(linked | asking)} use torch, and METADATA does not require it"
        yield Flaw(message, abbreviate(required), "Requires-Dist: torch", Level.WARNING)


def torch_registrations(subject: Subject) -> Iterator[Flaw]:
    """One library defines a namespace of operators, and what others add kernels to is defined somewhere.

    Read from the names that TORCH_LIBRARY and its like give to their functions, which a stripped library has not. That
    nothing defines the operators is a warning: a package that the wheel requires may, or Python code in its own words.
    """
    defined: dict[str, list[str]] = {}
    added: dict[str, str] = {}
    for name, registrations in () if subject.is_pure else read_each(subject.libraries, _list_registrations):
        for match in filter(None, map(REGISTRATION.fullmatch, registrations)):
            if match["of"]:
                added.setdefault(match["of"], name)
            else:
                defined.setdefault(match["once"] or match["more"], []).extend([name] if match["once"] else [])
    for namespace, names in sorted(defined.items()):
        if len(names) > 1:
            effect = "the second library fails to load: only a single TORCH_LIBRARY can register a namespace"
            message = f"{abbreviate(names)} each define the operators of {namespace}"
            yield Flaw(
                message,
                f"TORCH_LIBRARY({namespace}, …) {len(names)} times",
                "once, and TORCH_LIBRARY_FRAGMENT",
                effect=effect,
            )
    code = b"".join(member.read() for member in subject.members if member.base.endswith(".py"))
    for namespace, name in sorted(added.items()):
        if (
            namespace not in {*defined, *OF_TORCH}
            and f'"{namespace}'.encode() not in code
            and f"'{namespace}".encode() not in code
        ):
            message = f"{name} has kernels for operators of {namespace}, which nothing defines"
            yield Flaw(message, f"TORCH_LIBRARY_IMPL({namespace}, …)", f"TORCH_LIBRARY({namespace}, …)", Level.WARNING)


def _list_registrations(library: BinaryIO) -> frozenset[str]:
    """Return the functions of an ELF file that register operators, by their names without those of their arguments."""
    symbols = read_elf(Extent.whole(library)).symbols(".symtab")  # .dynsym has no static functions
    found = (MANGLED.search(one.name) for one in symbols if "TORCH_LIBRARY" in one.name and one.section)
    return frozenset(match["name"][: int(match["size"])] for match in found if match)


def sycl_runtime(subject: Subject) -> Iterator[Flaw]:
    """Libraries for XPU are linked with the runtime of SYCL that each torch of the wheel requires, libsycl.so.8 or .9.

    A process with two of them has two sets of queues and devices: what one allocates, the other does not know.
    """
    job, known = subject.job, catalog.load()
    if job is None or job.accelerator is None or job.accelerator.kind != XPU:
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
    if not asked or job.requires_torch:  # an upper bound: no other is installed
        return asked
    return asked.union(release for release in tables().releases if release >= min(asked))


def _of_torch(found: Bindings) -> tuple[frozenset[str], frozenset[str]]:
    """Return the torch symbols that a library asks for, and those it can do without."""
    return frozenset(filter(is_torch_symbol, found.required)), frozenset(filter(is_torch_symbol, found.weak))


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
