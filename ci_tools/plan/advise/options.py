"""Lists the changes to a source or a request with which fewer wheels might be enough: hypotheses with their places.

The savings of an option are not known here: `advise` makes another plan to measure them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.config import edit as config_edit
from ci_tools.evidence.includes import (
    PYTHON_HEADER,
    UNLIMITED_HEADER,
    Includes,
    Place,
    select_sources,
)
from ci_tools.evidence.limited_api import closure, uses
from ci_tools.evidence.project_file import LEGACY_SETUPTOOLS, ProjectFile
from ci_tools.formats import edits
from ci_tools.model.evidence import (
    OWN_SUFFIX,
    Binding,
    CellEvidence,
    Evidence,
    Extension,
    Extensions,
    PythonApi,
    TorchAbi,
)
from ci_tools.model.plan import JobKind, Plan
from ci_tools.model.request import Enabled, PathSource, PlatformRequest, Request, Torch
from ci_tools.model.versions import Minor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_tools.evidence.includes import Include
    from ci_tools.evidence.source import Tree
    from ci_tools.model.platforms import Platform

__all__ = ["Change", "Edits", "Option", "Situation", "identity", "options"]

Edit = Callable[[str], "str | None"]
Edits = tuple[tuple[str, Edit], ...]  # file → the edit of its text

FIRST_STABLE_TORCH = Minor(2, 10)  # the first version that TORCH_TARGET_VERSION can name
FIRST_STABLE_NANOBIND = Minor(3, 12)
SETUPTOOLS = frozenset({"setuptools", "setuptools.build_meta", LEGACY_SETUPTOOLS})
SCIKIT_BUILD = "scikit_build_core.build"
BOUND = frozenset({Binding.FULL, Binding.UNKNOWN})
PULLS_PYBIND = "torch/torch.h"  # as torch's BuildExtension compiles it
PULLED = ", and that pybind11 in torch's BuildExtension"
ONE_CHIP = re.compile(r"\bsm_(\d+[af])\b")
# Instructions of `a` and `f` architectures only, and libraries whose headers may use them.
OF_ONE_CHIP = re.compile(
    r"\bwgmma\b|\bsetmaxnreg\b|\btcgen05\b|\bcp\.async\.bulk\b|\bkind::\w+|\be2m1\w*|\bCUTE_ARCH_\w+|\bCUTLASS_ARCH_\w+"
    r"|__CUDA_ARCH_FEAT_|__CUDA_ARCH_SPECIFIC__|__CUDA_ARCH_FAMILY_SPECIFIC__"
)
MAY_USE_IT = re.compile(r"^(cutlass|cute|kittens|cuda/ptx)\b")


# Files that a tool turns into C that is not in the source, and how that code can use the limited API, if it can.
GENERATED = {".pyx": "Cython", ".rs": "Rust", ".i": "SWIG", ".pyf": "f2py", ".f90": "Fortran", ".f": "Fortran"}
BY_GENERATOR = {
    ".pyx": "Cython compiles for the limited API from 3.1 on, with CYTHON_LIMITED_API and Py_LIMITED_API defined",
    ".rs": "pyo3's feature abi3-py{digits} in Cargo.toml",
    ".i": "", ".pyf": "", ".f90": "", ".f": "",
}  # fmt: skip


class Situation(NamedTuple):
    """The inputs of a plan."""

    request: Request
    evidence: Evidence


Change = Callable[[Situation], Situation]


def identity(situation: Situation) -> Situation:
    """Return the situation unchanged."""
    return situation


class Option(NamedTuple):
    """One possible change: its description, the places that prevent it, and how to make it."""

    name: str
    what: str
    places: tuple[str, ...]
    how: str
    change: Change
    edits: Edits = ()
    base: Change = identity  # what the request must give up first, both before and after
    gives_up: bool = False  # whether it serves fewer cells
    is_known: bool = True  # False: a best case, based on unknown facts


def options(plan: Plan, evidence: Evidence, tree: Tree) -> Iterator[Option]:
    """Yield the possible changes to the source and the request of a plan."""
    source = _Source(plan, evidence, tree)
    yield from _unknown(source)
    yield from _torch(source)
    yield from _python(source)
    yield from _old_pythons(source)
    yield from _cuda_minors(source)
    yield from _needless(source)
    yield from _one_chip(source)


# ---------------------------------------------------------------- what the source shows


class _Source:
    """The source of a plan, with the views that options need."""

    def __init__(self, plan: Plan, evidence: Evidence, tree: Tree) -> None:
        self.plan = plan
        self.request = plan.request
        self.tree = tree
        self.includes = Includes(tree)
        self.project = ProjectFile(plan.request, tree)
        self.platforms = {found.platform: found for found in evidence.platforms}

    @cached_property
    def shown(self) -> tuple[CellEvidence, ...]:
        """The evidence of the cells that get a wheel of their own platform, without duplicates."""
        native = {job.name for job in self.plan.jobs if job.kind is JobKind.NATIVE}
        cells = (item.cell for item in self.plan.covered if item.job in native)
        found = {id(shown): shown for shown in (self.platforms[cell.platform].of(cell) for cell in cells)}
        return tuple(found.values())

    @cached_property
    def native(self) -> tuple[PlatformRequest, ...]:
        """The platforms that have jobs of their own."""
        names = {job.platform for job in self.plan.jobs}
        return tuple(platform for platform in self.request.platforms if platform.platform in names)

    @cached_property
    def compiled(self) -> tuple[str, ...]:
        """The compiled sources: the observed ones, or all that a compiler may see if none was observed."""
        if observed := {one.source for shown in self.shown for built in shown.built for one in built.compiles}:
            return tuple(sorted(observed))
        found: set[str] = set()
        for platform in self.native:
            files = self.platforms[platform.platform].native_files
            found |= {*select_sources(self.tree.files, files, platform.native.exclude)}
        return tuple(sorted(found))

    @cached_property
    def generators(self) -> list[str]:
        """The files that a tool turns into C, the first of each kind."""
        kinds: dict[str, str] = {}
        for name in self.tree.files:
            if PurePosixPath(name).suffix in GENERATED and not self.is_observed_without(name):
                kinds.setdefault(PurePosixPath(name).suffix, name)
        return list(kinds.values())

    def is_observed_without(self, name: str) -> bool:
        """Whether a build was observed and did not compile the file."""
        return any(shown.built for shown in self.shown) and name not in self.compiled

    @cached_property
    def external_includes(self) -> tuple[Include, ...]:
        """Every include of a header that is not the source's own."""
        return self.includes.external_includes(self.compiled)

    @cached_property
    def oldest(self) -> Minor | None:
        """The oldest Python, not free-threaded, that gets a wheel of its own platform, or None."""
        native = [job for job in self.plan.jobs if job.kind is JobKind.NATIVE]
        asked = [cell.python for job in native for cell in job.covers if not cell.python.free_threaded]
        return min((python.version for python in asked), default=None)

    @property
    def has_free_threaded(self) -> bool:
        """Whether the request has a free-threaded Python."""
        return any(python.free_threaded for python in self.request.pythons)

    @property
    def is_setuptools(self) -> bool:
        """Whether setuptools builds the project."""
        return self.project.backend in SETUPTOOLS

    def config(self, edit: Edit) -> Edits:
        """Return an edit of the config, or no edit if the config is not in the source."""
        is_there = isinstance(self.request.source, PathSource) and self.request.config in self.tree.names
        return ((self.request.config, edit),) if is_there else ()

    def build_files(self) -> Iterator[str]:
        """Yield the files of the project that may hold flags, and the config."""
        for name in self.tree.files:
            if PurePosixPath(name).name in {"setup.py", "CMakeLists.txt", "pyproject.toml"} or name.endswith(".cmake"):
                yield name
        if self.request.config in self.tree.names:
            yield self.request.config

    def meson_files(self) -> list[str]:
        """Return the files in which Meson builds an extension module."""
        files = (name for name in self.tree.files if PurePosixPath(name).name == "meson.build")
        return [name for name in files if "extension_module" in self.tree.text(name)]

    def possible(self, wanted: Edits) -> Edits:
        """Return the edits if all can be made and each changes its text, or none of them."""
        texts = [(self.tree.text(file), edit) for file, edit in wanted]
        return wanted if all(edit(text) not in {None, text} for text, edit in texts) else ()


def _change_evidence(change: Callable[[CellEvidence], CellEvidence]) -> Change:
    """Return a Change that applies `change` to the evidence of every cell; shared evidence stays shared."""

    def changed(situation: Situation) -> Situation:
        kept: dict[int, CellEvidence] = {}

        def once(shown: CellEvidence) -> CellEvidence:
            return kept.setdefault(id(shown), change(shown))

        platforms = (
            replace(found, shown=once(found.shown), apart={cell: once(one) for cell, one in found.apart.items()})
            for found in situation.evidence.platforms
        )
        return situation._replace(evidence=replace(situation.evidence, platforms=tuple(platforms)))

    return changed


def _change_platform(platform: Platform, **changes: object) -> Change:
    """Return a Change that replaces fields of one platform's request."""

    def changed(situation: Situation) -> Situation:
        asked = situation.request.platforms
        platforms = tuple(replace(one, **changes) if one.platform is platform else one for one in asked)  # type: ignore[arg-type]  # its own fields
        return situation._replace(request=replace(situation.request, platforms=platforms))

    return changed


def _pluralize(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _keep(number: int) -> str:
    return "keeps" if number == 1 else "keep"


def _describe_include(include: Include) -> str:
    return f"{include.place}: includes {include.header}"


# ---------------------------------------------------------------- unknown builds


def _unknown(source: _Source) -> Iterator[Option]:
    """Yield the best case of builds that are not understood: that they need no ABI of their own."""
    unseen = [shown for shown in source.shown if shown.extensions is Extensions.UNKNOWN]
    if unseen:
        places = tuple(dict.fromkeys(shown.extensions_where for shown in unseen))
        yield Option(
            name="unknown-build",
            what="what the build compiles is not known, which keeps every axis; at best",
            places=places,
            how="let the build say what it compiles where it can be read or run; what is read then decides",
            change=_change_evidence(_assume_no_binding),
            is_known=False,
        )


def _assume_no_binding(shown: CellEvidence) -> CellEvidence:
    if shown.extensions is not Extensions.UNKNOWN:
        return shown
    where = "if it were known"
    return replace(shown, python_api=PythonApi(Binding.NONE, where), torch_abi=TorchAbi(Binding.NONE, where))


# ---------------------------------------------------------------- torch


def _torch(source: _Source) -> Iterator[Option]:
    """Yield the options that remove the torch axis."""
    bound = [one for one in source.shown if one.torch_abi.kind in BOUND and one.extensions is Extensions.SOME]
    cells = [*(item.cell for item in source.plan.covered), *(item.cell for item in source.plan.skipped)]
    versions = sorted({cell.torch for cell in cells if cell.torch})
    served = [torch for torch in versions if torch >= FIRST_STABLE_TORCH]
    if not bound or not served:
        return
    where = tuple(dict.fromkeys(shown.torch_abi.where for shown in bound))
    option = _torch_option(source, where, served[0])
    change = _change_evidence(partial(_stable_torch, target=served[0]))
    if served == versions:
        yield option._replace(change=change)
        return
    older = f"the stable ABI starts at torch {FIRST_STABLE_TORCH}, so older ones cannot be asked for along with it"
    base = partial(_replace_torches, versions=tuple(served))
    what = f"asked for from torch {served[0]} up alone, {option.what}"
    how = f"{option.how}; {older}"
    yield option._replace(what=what, how=how, change=change, edits=(), base=base, gives_up=True)


def _torch_option(source: _Source, where: tuple[str, ...], target: Minor) -> Option:
    torch = [include for include in source.external_includes if include.is_torch]
    unstable = [include for include in torch if not include.is_stable]
    if unstable:
        places = (*where, *(_describe_include(include) for include in unstable))
        return Option(
            name="torch-stable-abi",
            what=f"{_pluralize(len(unstable), 'include')} {_keep(len(unstable))} the torch axis",
            places=tuple(dict.fromkeys(places)),
            how="write what they are for with torch/csrc/stable and torch/headeronly alone, "
            "and set TORCH_TARGET_VERSION; to read: “LibTorch Stable ABI” in PyTorch's notes",
            change=identity,
        )
    if torch and all("nothing sets TORCH_TARGET_VERSION" in one for one in where):
        return _target_option(source, where, target)
    return Option(
        name="torch-unknown",
        is_known=False,
        what="which torch ABI is needed is not known, which keeps the torch axis; if it were only the stable one",
        places=where,
        how="let the sources say what they include where it can be read",
        change=identity,
    )


def _target_option(source: _Source, where: tuple[str, ...], target: Minor) -> Option:
    name = "setup.py" if source.is_setuptools else "CMakeLists.txt"
    edit = partial(edits.set_target if source.is_setuptools else edits.set_cmake_target, target=target)
    return Option(
        name="torch-target-version",
        what="only stable torch headers are included, but the missing TORCH_TARGET_VERSION keeps the torch axis",
        places=where,
        how=f"define TORCH_TARGET_VERSION for torch {target}, the lowest asked for",
        change=identity,
        edits=source.possible(((source.project.path(name), edit),)),
    )


def _stable_torch(shown: CellEvidence, target: Minor) -> CellEvidence:
    if shown.torch_abi.kind not in BOUND:
        return shown
    return replace(shown, torch_abi=TorchAbi(Binding.STABLE, "if it were stable", target, uses_torch=True))


def _replace_torches(situation: Situation, versions: tuple[Minor, ...]) -> Situation:
    return situation._replace(request=replace(situation.request, torch=Torch(versions=versions)))


# ---------------------------------------------------------------- Python


def _python(source: _Source) -> Iterator[Option]:
    """Yield the options that remove the Python axis."""
    bound = [one for one in source.shown if one.python_api.kind in BOUND and one.extensions is Extensions.SOME]
    if not bound or source.oldest is None:
        return
    where = tuple(dict.fromkeys(shown.python_api.where for shown in bound))
    pybind = [include for include in source.external_includes if _is_unlimited(include, source)]
    if pybind:
        yield _pybind(source, pybind, source.oldest)
    elif source.generators or not source.compiled:
        yield from _generator_options(source, where, source.oldest)
    elif any(PYTHON_HEADER.match(include.header) for include in source.external_includes):
        yield _python_api_option(source, where, source.oldest)
    else:
        yield _unbound(source, where, source.oldest)


def _is_unlimited(include: Include, source: _Source) -> bool:
    is_pulled = include.header == PULLS_PYBIND and source.is_setuptools
    return is_pulled or UNLIMITED_HEADER.match(include.header) is not None


def _assume_limited_api(shown: CellEvidence, lowest: Minor, *, builds_older: bool = False) -> CellEvidence:
    if shown.python_api.kind not in BOUND:
        return shown
    api = PythonApi(Binding.STABLE, "if it were limited", lowest, builds_older=builds_older)
    return replace(shown, python_api=api)


def _pybind(source: _Source, pybind: list[Include], oldest: Minor) -> Option:
    uses_torch = any(include.is_torch for include in source.external_includes)
    lowest = oldest if uses_torch else max(oldest, FIRST_STABLE_NANOBIND)
    nanobind = f"nanobind has a stable ABI, from Python {FIRST_STABLE_NANOBIND} on"
    library = "operators registered with TORCH_LIBRARY need no Python symbol at all"
    return Option(
        name="python-bindings",
        what=f"{_pluralize(len(pybind), 'include')} of pybind11 or the like {_keep(len(pybind))} the Python axis",
        places=tuple(f"{_describe_include(one)}{PULLED if one.header == PULLS_PYBIND else ''}" for one in pybind),
        how=f"pybind11 cannot keep to the limited API: {f'{library}; {nanobind}' if uses_torch else nanobind}",
        change=_change_evidence(partial(_assume_limited_api, lowest=lowest, builds_older=True)),
    )


def _generator_options(source: _Source, where: tuple[str, ...], oldest: Minor) -> Iterator[Option]:
    """Yield the option for generated code to use the limited API; no text shows whether the code keeps to it."""
    found = [f"{Place(name, 1)}: {GENERATED[PurePosixPath(name).suffix]}" for name in source.generators]
    ways = [BY_GENERATOR[PurePosixPath(name).suffix] for name in source.generators]
    known = [way.format(digits=oldest.digits) for way in dict.fromkeys(ways) if way]
    if known and all(ways):
        yield Option(
            name="python-limited-api",
            what=f"the limited API of Python {oldest} is not declared, which keeps the Python axis",
            places=(*where, *found),
            how="; ".join(known),
            change=_change_evidence(partial(_assume_limited_api, lowest=oldest, builds_older=True)),
        )


def _python_api_option(source: _Source, where: tuple[str, ...], oldest: Minor) -> Option:
    """Return the option for code that includes Python.h to declare the limited API."""
    lacking = uses(source.includes, source.compiled, oldest)
    never = [use for use in lacking if use.since is None]
    if never:
        return Option(
            name="python-limited-api",
            what=f"{_pluralize(len(never), 'name')} that the limited API lacks {_keep(len(never))} the Python axis",
            places=tuple(f"{use.place}: {use.name}" for use in never),
            how="write them with functions of the limited API; to read: “C API Stability” in Python's documentation",
            change=_change_evidence(partial(_assume_limited_api, lowest=oldest, builds_older=True)),
        )
    floors = [use.since for use in lacking if use.since]
    floors += [FIRST_STABLE_NANOBIND for one in source.external_includes if one.header.startswith("nanobind/")]
    return _declaration_option(source, where, max([oldest, *floors]), oldest)


def _declaration_option(source: _Source, where: tuple[str, ...], lowest: Minor, oldest: Minor) -> Option:
    is_scikit = source.project.backend == SCIKIT_BUILD
    wanted = _limiting(source, lowest) if is_scikit or lowest == oldest else ()
    return Option(
        name="python-limited-api",
        what=f"the limited API of Python {lowest} is not declared, which keeps the Python axis",
        places=(*where, *_extension_places(source)),
        how=_describe_declaration(source, lowest),
        change=_change_evidence(partial(_assume_limited_api, lowest=lowest, builds_older=is_scikit or lowest > oldest)),
        edits=source.possible(wanted),
    )


def _limiting(source: _Source, lowest: Minor) -> Edits:
    """Return the edits that declare the limited API for the project's backend."""
    if source.is_setuptools:
        edit = partial(edits.declare_limited_api, lowest=lowest, free_threaded=source.has_free_threaded)
        return ((source.project.path("setup.py"), edit),)
    if source.project.backend == SCIKIT_BUILD:
        return (
            (source.project.name, partial(edits.set_py_api, tag=f"cp{lowest.digits}")),
            (source.project.path("CMakeLists.txt"), edits.declare_cmake_limited_api),
        )
    # meson-python refuses the limited API for a free-threaded Python that lacks it.
    if source.project.backend == "mesonpy" and not source.has_free_threaded:
        return (
            (source.project.name, edits.tag_meson_limited_api),
            *((name, partial(edits.declare_meson_limited_api, lowest=lowest)) for name in source.meson_files()),
        )
    return ()


def _extension_places(source: _Source) -> Iterator[str]:
    if source.is_setuptools:
        name = source.project.path("setup.py")
        for line in edits.extension_lines(source.tree.text(name)):
            yield f"{Place(name, line)}: an extension without py_limited_api"


def _describe_declaration(source: _Source, lowest: Minor) -> str:
    if source.is_setuptools:
        macro = "Py_LIMITED_API among its macros"
        return f"py_limited_api=True for each extension, {macro}, and bdist_wheel's py_limited_api cp{lowest.digits}"
    if source.project.backend == SCIKIT_BUILD:
        return f'wheel.py-api = "cp{lowest.digits}", and USE_SABI or STABLE_ABI where CMake makes the module'
    if source.project.backend == "mesonpy":
        return f"limited-api = true in [tool.meson-python], and limited_api: '{lowest}' for each extension_module"
    return "declare it by the means of the build backend"


def _unbound(source: _Source, where: tuple[str, ...], oldest: Minor) -> Option:
    """Return the option for a library that includes no Python header to serve every Python."""
    option = _declaration_option(source, where, oldest, oldest)
    what = "nothing that is compiled includes Python.h, but the wheel's tag keeps the Python axis"
    if source.project.backend != SCIKIT_BUILD:
        return option._replace(what=what)
    cmake = source.tree.text(source.project.path("CMakeLists.txt"))
    if re.search(r"Python3?_add_library|pybind11|nanobind|Development", cmake):
        return option._replace(what=what)
    return option._replace(
        what=what,
        how='wheel.py-api = "py3": the library is loaded by path, and needs no Python symbol',
        change=_change_evidence(_assume_no_python),
        edits=source.possible(((source.project.name, partial(edits.set_py_api, tag="py3")),)),
    )


def _assume_no_python(shown: CellEvidence) -> CellEvidence:
    if shown.python_api.kind not in BOUND:
        return shown
    return replace(shown, python_api=PythonApi(Binding.NONE, "if it were declared"))


def _old_pythons(source: _Source) -> Iterator[Option]:
    """Yield the option to drop the Pythons that are older than the declared limited API."""
    limited = [one.python_api for one in source.shown if one.python_api.kind is Binding.STABLE]
    starts = [(api.lowest, api.where) for api in limited if api.lowest]
    if not starts or source.oldest is None or source.oldest >= max(starts)[0]:
        return
    lowest, where = max(starts)
    older = [str(one) for one in source.request.pythons if one.version < lowest and not one.free_threaded]
    edit = partial(edits.raise_requires_python, lowest=lowest)
    yield Option(
        name="requires-python",
        what=f"the limited API starts at {lowest}, below which Python {' and '.join(older)} stay apart; without them",
        places=(where, f"{source.plan.project.where}: requires-python"),
        how=f'requires-python = ">={lowest}" gives up {" and ".join(older)}: their users stay with the last release',
        change=partial(_requiring, lowest=lowest),
        edits=source.possible(((source.project.name, edit),)),
        gives_up=True,
    )


def _requiring(situation: Situation, lowest: Minor) -> Situation:
    project = situation.evidence.project._replace(requires_python=f">={lowest}")
    return situation._replace(evidence=replace(situation.evidence, project=project))


# ---------------------------------------------------------------- the request


def _cuda_minors(source: _Source) -> Iterator[Option]:
    """Yield the platforms on which one wheel for each major version of CUDA would be enough."""
    for platform in source.native:
        versions = [one.version for one in platform.accelerators if one.version]
        majors = [version.major for version in versions]
        if platform.one_per_major or len(set(majors)) == len(majors):
            continue
        shared = [str(version) for version in versions if majors.count(version.major) > 1]
        edit = partial(config_edit.set_platform_key, platform=str(platform.platform), key="one-per-major", value="true")
        yield Option(
            name="one-per-major",
            what=f"CUDA {' and '.join(shared)} have a wheel each on {platform.platform}, not one for each major",
            places=(f"{platform.where}: no `one-per-major`",),
            how="`one-per-major: true`: by CUDA's minor version compatibility the oldest one's wheel serves the newer",
            change=_change_platform(platform.platform, one_per_major=True),
            edits=source.possible(source.config(edit)),
        )


def _needless(source: _Source) -> Iterator[Option]:
    """Yield the platforms that have their own jobs although nothing is compiled for them."""
    for platform in source.native:
        found = source.platforms[platform.platform]
        if any(one.extensions is not Extensions.NONE for one in (found.shown, *found.apart.values())):
            continue
        if found.native_files:
            files = (
                f"{found.native_files[0]}{f' and {len(found.native_files) - 1} more' if found.native_files[1:] else ''}"
            )
            yield Option(
                name="native-globs",
                what=f"the native globs of {platform.platform} match {files}, but nothing is compiled",
                places=(f"{platform.where}: native", found.shown.extensions_where),
                how="let the globs match what is compiled, or compile it: a wheel without it is hollow",
                change=partial(_drop_native_files, platform=platform.platform),
            )
        elif platform.enabled is Enabled.TRUE:
            edit = partial(config_edit.set_platform_key, platform=str(platform.platform), key="enabled", value="auto")
            yield Option(
                name="enabled",
                what=f"`enabled: true` gives {platform.platform} a wheel of its own, though nothing is compiled for it",
                places=(f"{platform.where}: enabled", found.shown.extensions_where),
                how="`enabled: auto`: its users get the pure wheel until there is native code",
                change=_change_platform(platform.platform, enabled=Enabled.AUTO),
                edits=source.possible(source.config(edit)),
            )


def _drop_native_files(situation: Situation, platform: Platform) -> Situation:
    platforms = tuple(
        replace(found, native_files=()) if found.platform is platform else found
        for found in situation.evidence.platforms
    )
    return situation._replace(evidence=replace(situation.evidence, platforms=platforms))


# ---------------------------------------------------------------- architectures


def _one_chip(source: _Source) -> Iterator[Option]:
    """Yield the libraries whose files are all compiled for only one chip, although only some need it."""
    seen: set[str] = set()
    for built in (built for shown in source.shown for built in shown.built if built.member not in seen):
        seen.add(built.member)
        for arch in sorted({arch for one in built.compiles for flag in one.flags for arch in ONE_CHIP.findall(flag)}):
            yield from _chip_options(source, built, arch)


def _chip_options(source: _Source, built: Extension, arch: str) -> Iterator[Option]:
    files = [one.source for one in built.compiles if any(arch in ONE_CHIP.findall(flag) for flag in one.flags)]
    needing = {file: place for file in files if (place := _find_chip_use(source, file))}
    if not 0 < len(needing) < len(files):
        return
    member = built.member.replace(OWN_SUFFIX, "")
    verb = "uses" if len(needing) == 1 else "use"
    yield Option(
        name="one-chip",
        what=f"{len(needing)} of {len(files)} files of {member} {verb} what sm_{arch} alone has, "
        f"and all {len(files)} are compiled for it",
        places=(*needing.values(), *_forcing(source, arch)),
        how=f"give {', '.join(needing)} a library of its own, compiled for sm_{arch}, "
        f"and compile the rest for sm_{arch[:-1]}",
        change=identity,
    )


def _find_chip_use(source: _Source, file: str) -> str:
    """Return where a file or its includes use, or may use, features of only one chip; "" if they do not."""
    for own in closure(source.includes, [file]):
        text = source.includes.text(own)
        if match := OF_ONE_CHIP.search(text):
            return f"{Place(own, text.count(chr(10), 0, match.start()) + 1)}: {match[0]}"
        for include in source.includes.of(own):
            if MAY_USE_IT.match(include.header):
                return _describe_include(include)
    return ""


def _forcing(source: _Source, arch: str) -> Iterator[str]:
    """Yield the places that request an architecture."""
    words = re.compile(rf"(?:sm_|compute_){arch}\b|\b{arch[:-2]}\.{arch[-2:]}")
    for file in source.build_files():
        for number, line in enumerate(source.tree.text(file).splitlines(), 1):
            if match := words.search(line):
                yield f"{Place(file, number)}: {match[0]}"
