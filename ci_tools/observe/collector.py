"""Collects evidence from a source tree: what each cell would compile, against which ABI, and the proof for it.

The evidence depends only on the source and the request, never on the machine that reads them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from ci_tools.catalog import Catalog
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.errors import InputError, LabelError
from ci_tools.machine.context import Outside
from ci_tools.model.evidence import PURE_TAG, Binding, CellEvidence, Evidence, Extensions, PlatformEvidence, Project
from ci_tools.model.platforms import Cell
from ci_tools.model.request import Enabled, Globs, PlatformRequest, Request
from ci_tools.model.versions import name_of_required, parse_or_all
from ci_tools.observe.cells import MAX_OBSERVED, Spent, cells_of, is_offered, torches_of
from ci_tools.observe.device_code import select_kernels, warn_of_files
from ci_tools.observe.python_label import REQUIRES
from ci_tools.observe.versions.teller import ASKS_GIT, Teller
from ci_tools.source import backends
from ci_tools.source.backends.cmake_call import read_cmake_call
from ci_tools.source.backends.facts import FORCED, apply_declared_tag, explain_foreign
from ci_tools.source.backends.scikit_build_core import BACKENDS as SCIKIT
from ci_tools.source.backends.scikit_build_core import WITHOUT_SETUPTOOLS, states_limit
from ci_tools.source.files import Tree, matching, whole_of
from ci_tools.source.includes import COMPILED, Includes, find_contradiction, select_sources, torch_abi
from ci_tools.source.project_file import ProjectFile
from ci_tools.source.requirements import (
    build_requirements,
    doubt_torch_abi,
    explain_torch_of_cmake,
    find_lacking,
    torch_requirement,
)
from ci_tools.source.versions import OwnVersion

if TYPE_CHECKING:
    from ci_tools.observe.cmake.witness import CmakeWitness
    from ci_tools.observe.interpretation import Witness

    Metadata = tuple[str, ...]

# Usual file name endings of an accelerator's or a system's sources.
USUAL_ENDINGS = {"cuda": ("cu", "cuh"), "rocm": ("hip",), "xpu": ("sycl",), "macos": ("metal", "mm")}
WITH_PYTHON_2 = {"setuptools": ("bdist_wheel has `universal`", "leave that out")}  # else by what a project admits
MAX_NAMED = 3  # pointers that are warned about
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
# Variables that setuptools asks for by itself.
OF_COMPILERS = ("AR", "CC", "CFLAGS", "CPATH", "CPLUS_INCLUDE_PATH", "CPPFLAGS", "CXX", "LDFLAGS", "LDSHARED")


def gather(
    request: Request, tree: Tree, catalog: Catalog, outside: Outside, tag: str = "", told: OwnVersion | None = None
) -> Evidence:
    """Read the evidence for every platform of the request.

    The version is that of the release's `tag`, if the project takes it from a tag, or what an earlier plan was `told`.
    Raises InputError if the source has no project to build, if its version cannot be determined, or if only running
        the project's own code can answer and this machine cannot confine that code.

    """
    tree = replace(tree, checkout=None) if told and told.hides_git else tree
    project = ProjectFile(request, tree)
    teller = Teller(project, outside, tag, told)
    teller.ask()
    with ExitStack() as stack:
        reader = _Collector(project, catalog, outside, stack)
        if not project.told:
            reader.refuse_local_version()
        platforms: tuple[PlatformEvidence, ...] = ()
        reader.look_at_each()
        for one in request.platforms:
            platforms = (*platforms, reader.platform(one))
            # A mistake is shown before the other platforms' builds, but one of them may tell the version.
            if project.own_version("") or _builds(platforms) or one is request.platforms[-1]:
                reader.ask_again(teller, platforms)
                identity = _identify(project, platforms)
    if identity.hides_git and tree.checkout:
        return gather(request, tree, catalog, outside, tag, project.told)
    builds = _builds(platforms)
    return Evidence(
        project=identity,
        source_sha256=tree.sha256,
        commit=tree.commit,
        platforms=platforms,
        requires_torch=torch_requirement([*project.dependencies()] or _common_dependencies(builds)),
        builds_with_torch=torch_requirement(build_requirements(project)),
        warnings=(
            *_tag_warnings(project, platforms, builds),
            *_unseen(request, tree),
            *_unneeded_drops(project, builds),
            *_lacking_in_trials(project, builds),
            *(f"{name} is a pointer of Git LFS, to be fetched by `git lfs pull`" for name in tree.pointers[:MAX_NAMED]),
        ),
        release_tags=told.tags if (told := project.told) and (told.uses_git or told.tags) else None,
    )


def read_platforms(project: ProjectFile, catalog: Catalog, outside: Outside) -> Generator[PlatformEvidence]:
    """Yield the evidence for one platform of the project's request after another."""
    with ExitStack() as stack:
        reader = _Collector(project, catalog, outside, stack)
        for request in project.request.platforms:
            yield reader.platform(request)


def read_metadata(platforms: Iterable[PlatformEvidence]) -> Metadata:
    """Return the METADATA fields that the first observed build writes; empty if no build was observed."""
    return next(iter(_builds(platforms)), ())


def _identify(project: ProjectFile, platforms: tuple[PlatformEvidence, ...]) -> Project:
    """Return the project's name, version and Pythons, as its files or its observed builds state them."""
    asked = dict(chain.from_iterable(one.shown.asked for one in platforms))
    variables = [f"{name} ({place})" for name, place in asked.items() if place and VARIABLE.fullmatch(name)]
    own = [one for one in variables if not one.startswith(OF_COMPILERS)]
    shown = [platform.shown for platform in platforms]
    return project.project(
        _metadata(_builds(platforms)),
        next((one.extensions_where for one in shown if one.extensions is Extensions.UNKNOWN), ""),
        own,
    )


def _tag_warnings(
    project: ProjectFile, platforms: Iterable[PlatformEvidence], builds: Iterable[Metadata]
) -> Iterator[str]:
    """Yield a warning for each pure tag that includes Python 2, unless the project says that it serves that."""
    tags = {platform.shown.pure_tag for platform in platforms} - {PURE_TAG}
    backend, admitted = project.backend.partition(".")[0], project.text("project", "requires-python")
    if backend == "setuptools":  # by its own setting, whatever the project admits
        lines = [line for build in builds for line in build if line.startswith(REQUIRES)]
        admitted = next((one for one in lines if parse_or_all(one.removeprefix(REQUIRES)).contains("2.7")), "")
    where, mend = WITH_PYTHON_2.get(backend, ("the project does not exclude Python 2", 'say `requires-python = ">=3"`'))
    for tag in sorted(tags) if not admitted else ():
        place = project.place("build-system", "build-backend")
        yield f"{place}: {backend} tags a pure wheel {tag}, not py3, where {where}: {mend}"


def _unseen(request: Request, tree: Tree) -> Iterator[str]:
    """Yield a warning for files that look like native code but match no pattern."""
    for name in tree.list_ways_out():
        path, folder = whole_of(request, tree)
        said = f"{name} is a link to a folder outside the source, where nothing is read"
        yield f"{said}: `source: {{path: {path}, subdirectory: {folder}}}` has it inside"
    seen = {name for platform in request.platforms for name in matching(tree.files, platform.native)}
    for platform in request.platforms:
        endings = (end for word in platform.platform.value.split("-") for end in USUAL_ENDINGS.get(word, ()))
        usual = Globs(tuple(f"*.{end}" for end in endings), platform.native.exclude)
        unseen = [name for name in matching(tree.files, usual) if name not in seen]
        if unseen and platform.native.include and not matching(tree.files, platform.native):
            yield f"{platform.platform}: its native globs match no file, although the source has {unseen[0]}"


def _unneeded_drops(project: ProjectFile, builds: Iterable[Metadata]) -> Iterator[str]:
    """Yield a warning for each dropped requirement that nothing asks for (any more)."""
    fields = (line.partition(": ") for build in builds for line in build)
    asked = [value for name, _, value in fields if name == "Requires-Dist"]
    asked += [text for text, _ in (*build_requirements(project), *project.dependencies())]
    names = {name_of_required(text) for text in asked}
    for drop in project.request.build.drop:
        if canonicalize_name(drop.name) not in names:
            yield f"build.drop: neither the project nor its build requires {drop.name}, so nothing has to drop it"


def _lacking_in_trials(project: ProjectFile, builds: Iterable[Metadata]) -> Iterator[str]:
    """Yield what the trials will lack to import the project; a wheel for one torch requires that by itself."""
    named = project.request.validate.imports
    modules = (re.sub(r"[-_.]+", "_", project.request.name),) if named is None else named
    for one in find_lacking(project, modules, next(iter(builds), ())):
        if one.requirement != "torch" or project.request.torch is None:
            key = f"`validate: {{requires: [{one.requirement}]}}`"
            yield f"{one}: {key} installs it for the trials, and the project's dependencies for its users"


# ---------------------------------------------------------------- one platform


class _Collector:
    """Collects a project's evidence, from its backend's configuration or by running its own code.

    The witnesses that it starts are closed with `stack`.
    """

    def __init__(self, project: ProjectFile, catalog: Catalog, outside: Outside, stack: ExitStack) -> None:
        self.project = project
        self.catalog = catalog
        self.outside = outside
        self.stack = stack
        self.spent = Spent()
        self.includes = Includes(project.tree)
        self.cmake = functools.cache(self.open_cmake)
        # The torch ABI of sources is the same for every cell of a platform, and what the backend's configuration says
        # of a cell for all platforms on one system.
        self.torch_abi = functools.cache(lambda names: torch_abi(self.includes, names, project.request.subdirectory))
        self.configuration = functools.cache(lambda env, of_cell: backends.read(project, dict(env), of_cell))
        self.known = 0  # cells

    @functools.cached_property
    def witness(self) -> Witness:
        """The witness that runs the project's own code."""
        from ci_tools.observe.interpretation import Witness  # noqa: PLC0415 - a plan without it takes a tenth less

        made = Witness(self.project, self.project.tree, self.catalog, self.outside, self.cmake, self.spent)
        return self.stack.enter_context(closing(made))

    def open_cmake(self, includes: Includes) -> CmakeWitness:
        """Return the witness that runs the project's configure step."""
        from ci_tools.observe.cmake.run import Configurer  # noqa: PLC0415 - see above
        from ci_tools.observe.cmake.witness import CmakeWitness  # noqa: PLC0415 - see above

        configurer = Configurer(self.project.tree, self.project.request.subdirectory or ".", self.outside, self.spent)
        return self.stack.enter_context(closing(CmakeWitness(configurer, includes)))

    def refuse_local_version(self) -> None:
        """Raise InputError if the first observed build makes a local version: said before all others run."""
        request = self.project.request.platforms[0]
        cell = self.cells(request)[0]
        if self.read_configuration(cell, request, self.sources(request)) is not None:
            return
        if any(name == ASKS_GIT for name, _ in self.witness.of(cell, request).asked):
            return  # its label may name the commit: it is asked for later
        self.explain_local_version()

    def ask_again(self, teller: Teller, platforms: tuple[PlatformEvidence, ...]) -> None:
        """Ask for the version; raise InputError that names the variable that leaves its label out, if one does."""
        try:
            teller.ask_again(platforms)
        except LabelError:
            self.explain_local_version()
            raise

    def explain_local_version(self) -> None:
        """Raise InputError if a variable leaves the label of the version out."""
        request = self.project.request.platforms[0]
        if said := self.witness.explain_local_version(self.cells(request)[0], request):
            msg, hint = said
            raise InputError(msg, hint=hint)

    def look_at_each(self) -> None:
        """Observe one cell of each platform before the others, while there are runs left for it."""
        for request in self.project.request.platforms[1:] if self.total > MAX_OBSERVED else ():
            cell = self.cells(request)[0]
            if self.read_configuration(cell, request, self.sources(request)) is None:
                self.witness.of(cell, request)

    def sources(self, request: PlatformRequest) -> tuple[str, ...]:
        """Return every source that a compiler may see on a platform."""
        native = matching(self.includes.tree.files, request.native)
        return tuple(select_sources(self.includes.tree.files, native, request.native.exclude))

    def platform(self, request: PlatformRequest) -> PlatformEvidence:
        """Return the evidence for every cell of a platform."""
        native = matching(self.includes.tree.files, request.native)
        sources = self.sources(request)
        cells = self.cells(request)
        read: dict[object, CellEvidence] = {}
        shown = {cell: self.refuse_torch(self.cell(cell, request, sources, read), cell) for cell in cells}
        common = shown[cells[0]]
        apart = {cell: one for cell, one in shown.items() if one != common}
        compiled = () if native else tuple(name for name in self.includes.tree.files if COMPILED.search(name))
        return PlatformEvidence(
            platform=request.platform, native_files=native, compiled_files=compiled, shown=common, apart=apart
        )

    def cells(self, request: PlatformRequest) -> list[Cell]:
        """Return the cells of a platform that need evidence: those that may get a wheel, or build one for another cell.

        At least the first: the platform has evidence also where it is switched off.
        """
        asked = self.project.request
        cells = list(cells_of(asked, request, torches_of(asked, self.catalog)))
        if request.enabled is Enabled.FALSE:
            return cells[:1]
        if request.one_per_major:
            return cells
        return [cell for cell in cells if is_offered(cell, self.catalog)] or cells[:1]

    def refuse_torch(self, found: CellEvidence, cell: Cell) -> CellEvidence:
        """Return the evidence of a cell, whose build fails if it requires a torch with another accelerator's label."""
        asked = torch_requirement(build_requirements(self.project))
        labels = re.findall(r"==[^,+]+\+([\w.]+)", asked.specifier or "")
        own = cell.accelerator.label if cell.accelerator else "cpu"
        if not labels or own in labels or found.extensions is Extensions.NONE:
            return found
        return replace(found, unsupported=f"it requires torch {asked.specifier} ({asked.where})")

    @functools.cached_property
    def total(self) -> int:
        """The number of cells that need evidence."""
        return sum(len(self.cells(request)) for request in self.project.request.platforms)

    def cell(
        self, cell: Cell, request: PlatformRequest, sources: tuple[str, ...], read: dict[object, CellEvidence]
    ) -> CellEvidence:
        """Return the evidence for one cell; that of the backend's configuration depends only on the cell's Python."""
        if cell.python in read:
            return self.configured(read[cell.python], cell, request, sources)
        found = self.read_configuration(cell, request, sources)
        if found is None:
            self.witness.count(self.known, self.total)
            self.known += 1
            return apply_declared_tag(self.witness.of(cell, request), cell, self.project)
        read[cell.python] = found
        return self.configured(read[cell.python], cell, request, sources)

    def configured(
        self, files: CellEvidence, cell: Cell, request: PlatformRequest, sources: tuple[str, ...]
    ) -> CellEvidence:
        """Return the evidence of the files, refined by cmake's configure step for what they leave open."""
        if files.extensions is not Extensions.SOME or self.project.backend not in SCIKIT:
            return files
        is_whole = self.project.backend == WITHOUT_SETUPTOOLS  # else its setup.py may compile, too
        is_unknown = files.torch_abi.kind in {Binding.FULL, Binding.UNKNOWN}
        is_open = is_whole and self.project.request.torch and is_unknown
        is_for_gpus = cell.accelerator and request.archs
        kernels = tuple(name for name in sources if name.endswith(".cu")) if is_for_gpus else ()
        lowest, python = files.python_api.lowest, cell.python
        is_labelled = lowest and python.version >= lowest and not python.free_threaded
        is_claimed = bool(is_labelled) and not states_limit(self.project)
        if not is_open and not kernels and not is_claimed:
            return files
        from ci_tools.observe.cmake.witness import Ask, OpenFacts  # noqa: PLC0415 - few plans need them
        from ci_tools.observe.views import list_versions, make_view  # noqa: PLC0415 - see above

        facts = self.catalog.platforms[cell.platform]
        of_cell = backends.CellFacts(facts.os, facts.machine, cell.python)
        versions = list_versions(cell, self.catalog)
        views = [make_view(self.project.request, request, each, self.catalog) for each in versions]
        asks = [Ask(view, read_cmake_call(self.project, dict(view.env), of_cell)) for view in views]
        open_ = OpenFacts(bool(is_open), bool(kernels) and is_whole, kernels, is_claimed)
        return self.cmake(self.includes).refine(files, asks, cell, open_)

    @functools.cached_property
    def torch_of_cmake(self) -> str:
        """Where cmake looks for a torch that nothing declares; "" if it does not."""
        return explain_torch_of_cmake(self.project)

    def read_configuration(self, cell: Cell, request: PlatformRequest, sources: tuple[str, ...]) -> CellEvidence | None:
        """Return the evidence in the backend's configuration, or None if only the project's own code can answer."""
        env = {**dict(self.project.request.build.env), **dict(request.env)}
        facts = self.catalog.platforms[cell.platform]
        found = self.configuration(tuple(env.items()), backends.CellFacts(facts.os, facts.machine, cell.python))
        if found is None:
            return None
        api = found.python_api
        outside = tuple(f"{folder}/" for folder in found.outside)
        sources = tuple(name for name in sources if not name.startswith(outside)) if outside else sources
        abi = found.torch or self.torch_abi(sources)
        takes_torch = abi.uses_torch and self.project.request.torch and found.extensions is not Extensions.NONE
        of_cmake = self.torch_of_cmake if takes_torch else ""
        forced = (f"{one.where}: its build is for {one.archs}, {FORCED}" for one in found.archs)
        return CellEvidence(
            extensions=found.extensions,
            extensions_where="; ".join(filter(None, (found.where, of_cmake))),
            build_requires=("torch",) if of_cmake else (),
            python_api=find_contradiction(api, self.includes.external_includes(sources)) or api,
            torch_abi=doubt_torch_abi(abi, self.project),
            pure_tag=found.pure_tag,
            unsupported=found.unsupported or explain_foreign(self.project.tree, found, facts) or None,
            warnings=(
                *found.warnings,
                *(forced if facts.accelerator == CUDA else ()),
                *self.warn_of_device_code(cell, request, env),
            ),
        )

    def warn_of_device_code(self, cell: Cell, request: PlatformRequest, env: dict[str, str]) -> Iterator[str]:
        """Yield a warning where a build that is only read leaves off what compiles for a cell's accelerator."""
        kind = self.catalog.platforms[cell.platform].accelerator
        if kind and not (kind == CUDA and self.project.backend in SCIKIT):  # that one is configured
            kernels = select_kernels(self.includes.tree, kind, str(self.project.folder), request.native)
            yield from warn_of_files(self.project, kernels, kind, env)


# ---------------------------------------------------------------- the project, as its build was observed


def _builds(platforms: Iterable[PlatformEvidence]) -> tuple[Metadata, ...]:
    """Return the METADATA fields that the observed builds write, without duplicates."""
    seen = [shown.metadata for platform in platforms for shown in (platform.shown, *platform.apart.values())]
    return tuple(metadata for metadata in dict.fromkeys(seen) if metadata)


def _common_dependencies(builds: Iterable[Metadata]) -> list[tuple[str, str]]:
    """Return the requirements shared by every observed build; those of only some builds are not the project's."""
    required = [{line.partition(": ")[2] for line in build if line.startswith("Requires-Dist: ")} for build in builds]
    common = set.intersection(*required) if required else set()
    return [(text, "METADATA as its build writes it") for text in sorted(common)]


def _metadata(known: tuple[Metadata, ...]) -> Metadata:
    """Return the METADATA fields of the first observed build; raise InputError if builds write different versions."""
    versions = {line for metadata in known for line in metadata if re.match("Version: ", line)}
    if len(versions) > 1:
        said = " and ".join(sorted(line.partition(": ")[2] for line in versions))
        msg = f"setup.py gives its project more than one version, {said}, depending on the machine that builds it"
        raise InputError(msg, hint="one release has one version; what differs between wheels goes into a local version")
    return known[0] if known else ()
