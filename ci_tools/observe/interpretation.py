"""Converts a recorded setup.py run into evidence: what it compiles, for which Python and torch, by which switch."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ci_tools.catalog import Catalog
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.machine.context import Outside
from ci_tools.model.evidence import NO_GPU, CellEvidence, LeftOut, TorchAbi
from ci_tools.model.platforms import Cell
from ci_tools.model.request import PlatformRequest
from ci_tools.model.versions import name_of_required
from ci_tools.observe.build import CMAKE, ObservedBuild, find_own_archs, warn_of_unknown_archs
from ci_tools.observe.cells import TOO_MANY, Spent
from ci_tools.observe.device_code import ArchVariables, explain_header, find_cmake_archs, warn_of_files
from ci_tools.observe.observation import Observed
from ci_tools.observe.owned import Owned, TriedWay, decide, describe_question, explain_loss, is_told, make_unknown
from ci_tools.observe.python_label import CYTHON, RAN, explain_platform, name_by_oldest
from ci_tools.observe.setup_py.doubts import keep_axes, keep_torch_out, limit_doubt
from ci_tools.observe.setup_py.run import HARMLESS, PLUGINS, SIMULATED, ObservedProject, Observer
from ci_tools.observe.setup_py.trials import BuildTrials
from ci_tools.observe.switches import explain_local_version, explain_switch, list_off
from ci_tools.observe.views import SUPPOSED, Switches, View, kind_of, list_versions, make_view
from ci_tools.source.backends import list_compiled
from ci_tools.source.files import Tree
from ci_tools.source.includes import Includes
from ci_tools.source.project_file import ProjectFile
from ci_tools.source.requirements import (
    doubt_torch_abi,
    exclude_torch,
    explain_missing_module,
    list_setup_requires,
    list_undeclared,
)

if TYPE_CHECKING:
    from ci_tools.observe.cmake.witness import CmakeWitness

HIPIFIED_ENDINGS = (".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".hpp")  # torch writes each file's translation beside it
FAKED = SIMULATED | PLUGINS.keys()
CAPPED = re.compile(r"\s*setuptools\b[^;]*(<|==|~=)")


class Witness:
    """Observes the project's own build code for one cell after another."""

    def __init__(
        self,
        project: ProjectFile,
        tree: Tree,
        catalog: Catalog,
        outside: Outside,
        cmake: Callable[[Includes], CmakeWitness],
        spent: Spent,
    ) -> None:
        self.project = project
        self.tree = tree
        self.catalog = catalog
        self.includes = Includes(tree)
        self.cmake = cmake
        self.owned = Owned(project.request, tree, catalog)
        self.observer = Observer(self.subject(), outside, spent)
        self.trials = BuildTrials(self.observer, self.owned, tree)
        self.once = functools.cache(self.make_unknown)  # it reads all files
        self.shown: list[tuple[tuple[str, str, str], Observed, Switches, CellEvidence]] = []
        self.arch_variables = ArchVariables(self.build)

    def close(self) -> None:
        """Close the observer, which reports the number of builds if any ran."""
        self.observer.close()

    def count(self, known: int, total: int) -> None:
        """Show how many cells are known."""
        self.observer.count(known, total)

    def subject(self) -> ObservedProject:
        """Return the project to observe."""
        project = self.project
        implied = () if project.list("build-system", "requires") else ("setuptools",)  # PEP 517: without the table
        needs = (*implied, *project.build_requires(), *list_setup_requires(project))
        required = [name_of_required(item) for item in needs]
        provided = sorted({name for name in required if name} - SIMULATED - PLUGINS.keys())
        return ObservedProject(
            tree=self.tree,
            folder=project.request.subdirectory or ".",
            backend=project.backend,
            backend_path=tuple(map(str, project.list("build-system", "backend-path"))),
            provided=tuple((name, self.catalog.find_modules(name, FAKED)) for name in provided),
            plugins=tuple(sorted(PLUGINS.keys() & required)),
            installed=self.catalog.list_installed(required),
            capped=any(map(CAPPED.match, project.build_requires())),
        )

    def of(self, cell: Cell, platform: PlatformRequest) -> CellEvidence:
        """Return the evidence of a cell's build."""
        for name, _ in self.observer.subject.provided:
            if name in HARMLESS:
                continue
            if hook := self.explain_addition(name):
                unseen = self.once(f"{self.project.place('build-system', 'requires')}: {hook}")
                return replace(unseen, warnings=tuple(self.warn_of_files(self.view(cell, platform))))
        found = [self.of_version(each, platform) for each in list_versions(cell, self.catalog)]
        if any(one != found[0] for one in found):
            return self.once("its build depends on the version of the accelerator, and the config names none")
        return found[0]

    @cached_property
    def may_compile(self) -> bool:
        """Whether the source has anything to compile: if not, no hook that the catalog knows does."""
        return any(list_compiled(self.project))

    def explain_addition(self, name: str) -> str:
        """Return why a build requirement may change what its build does, though nothing imports it; "" if it cannot."""
        to = self.project.backend.partition(".")[0]
        hook = self.catalog.find_hook(name, FAKED | HARMLESS)
        if hook is None:
            return f"what {name} adds to {to} is not known"
        return f"{name} adds {hook} to {to}, and what that does is not known" if hook and self.may_compile else ""

    def of_version(self, cell: Cell, platform: PlatformRequest) -> CellEvidence:
        """Return the evidence of the build of a cell, for the one version of its accelerator if that has versions."""
        found = decide(self.view(cell, platform), self.look)
        return self.once(found) if isinstance(found, str) else found

    def look(self, view: View) -> TriedWay:
        """Return the evidence of a view's build and what it asks of its builder, with a GPU and without."""
        evidence = self.of_view(view)
        view = view._replace(env=(*view.env, *evidence.switches))
        seen = self.observer.observe(view)
        asked = {name: at for one in (seen, *self.trials.run_with_gpus(view, seen)) for name, at in one.asked.items()}
        return TriedWay(evidence, {name: at for name, at in asked.items() if name.startswith(SUPPOSED)})

    def of_view(self, view: View) -> CellEvidence:
        """Return the evidence of the build of a view."""
        seen, switches = self.trials.find_build(view)
        for kind, earlier, its_switches, found in self.shown:
            if earlier is seen and (kind, its_switches) == (kind_of(view), switches):
                return found
        found = self.evidence(seen, switches, view)
        self.shown.append((kind_of(view), seen, switches, found))
        return found

    def make_unknown(self, where: str) -> CellEvidence:
        """Return UNKNOWN evidence, without a torch axis if nothing brings torch to the build."""
        return keep_torch_out(make_unknown(where), self.project, self.includes)

    def view(self, cell: Cell, platform: PlatformRequest) -> View:
        """Return the facts and variables that the build would get from the cell's job."""
        view = make_view(self.project.request, platform, cell, self.catalog)
        told = self.project.told
        return view._replace(version=told.public if told else self.project.request.version or "")

    def explain_local_version(self, cell: Cell, platform: PlatformRequest) -> tuple[str, str] | None:
        """Return what makes the version of a cell's build local, and what gives a public one; None if unknown."""
        return explain_local_version(self.observer, self.view(next(list_versions(cell, self.catalog)), platform))

    def evidence(self, observed: Observed, switches: Switches, view: View) -> CellEvidence:
        """Return the evidence of an observed build."""
        told_of = ((describe_question(name), at) for name, at in observed.asked.items() if at and is_told(name))
        told: dict[str, Any] = {
            "asked": tuple(sorted(told_of)),
            "off": tuple(list_off(observed, view, self.tree)),
            "switches": switches,
            "switches_where": explain_switch(self.observer, switches, observed, view),
        }
        unseen = partial(make_unknown, imports_torch="torch" in observed.imports)
        same = (one for kind, seen, _, one in self.shown if kind == kind_of(view) and TOO_MANY not in seen.doubts)
        if TOO_MANY in observed.doubts and (sibling := next(same, None)):
            return keep_axes(sibling, TOO_MANY, self.project, self.includes)
        if observed.doubts:
            what, place = next(iter(observed.doubts.items()))
            found = unseen(f"{place}: it {what}" if place else what)
            named = name_by_oldest(observed, view, self.project.request.pythons, self.observer.observe)
            by_files = tuple(self.warn_of_files(view))
            lacking = by_files or self.owned.warn_of_kernels(self.open_build(observed), view, told["off"])
            found = replace(found, warnings=tuple(lacking), **told)
            return self.limit_doubt(found, named, observed.doubts, view)
        if failure := observed.failure:
            place = failure.place or RAN
            seen = self.trials.run_with_gpus(view, observed)
            ends_elsewhere = any(not one.failure or one.failure.place != failure.place for one in seen)
            without = f", {NO_GPU}" if ends_elsewhere else ""
            said = f"{failure.text}{explain_missing_module(failure.text, self.project)}{without}"
            return replace(unseen(f"{place}: {said}", unsupported=f"{said} ({place})"), **told)
        other = self.open_build(observed).runs_other
        if other and observed.is_pure:
            found = unseen(f"{observed.asked[other]}: it runs {other}, and its wheel is for any machine")
            return replace(keep_torch_out(found, self.project, self.includes, observed), **told)
        with_gpus = self.trials.run_with_gpus(view._replace(env=(*view.env, *switches)), observed)
        if doubts := {what: place for seen in with_gpus for what, place in seen.doubts.items()}:
            what, place = next(iter(doubts.items()))
            found = unseen(f"{place}: with a GPU, it {what}" if place else f"with a GPU, it {what}")
            lacking = self.owned.warn_of_kernels(self.open_build(observed), view, told["off"])
            # The builder, without a GPU, writes that metadata.
            found = replace(found, metadata=observed.metadata, warnings=tuple(lacking), **told)
            return self.limit_doubt(found, observed, doubts, view)
        found = self.understood(observed, view, told)
        return self.follow_cmake(found, observed, view) if CMAKE in observed.asked else found

    def limit_doubt(self, found: CellEvidence, seen: Observed, doubts: Collection[str], view: View) -> CellEvidence:
        """Return the evidence of a doubted build with the axes that the doubts cannot touch."""
        has_all = bool(seen.device_sources) or not (view.accelerator and self.owned.list_kernels(view))
        return limit_doubt(found, self.open_build(seen), doubts, self.project, has_all=has_all)

    def follow_cmake(self, found: CellEvidence, observed: Observed, view: View) -> CellEvidence:
        """Return the evidence of a build that runs cmake, with what its configure step shows."""
        from ci_tools.observe.cmake.calls import CmakeBuild, follow  # noqa: PLC0415 - few builds run cmake

        kernels = self.owned.list_kernels(view) if view.accelerator else ()
        if view.kind not in {None, CUDA} and not observed.device_sources:
            found, kernels = replace(found, warnings=(*found.warnings, *self.warn_of_files(view))), ()
        switched = view._replace(env=(*view.env, *found.switches))
        followed = CmakeBuild(observed, switched, found, kernels, bool(self.project.request.torch))
        return follow(followed, self.observer, self.cmake, self.includes)

    def warn_of_files(self, view: View) -> Iterator[str]:
        """Yield a warning where the files of a build that is not observed leave off what compiles kernels."""
        if view.accelerator:
            kernels = self.owned.list_kernels(view)
            yield from warn_of_files(self.project, kernels, view.accelerator.kind, dict(view.env))

    def understood(self, observed: Observed, view: View, told: dict[str, Any]) -> CellEvidence:
        """Return the evidence of a successful build without doubts."""
        named = name_by_oldest(observed, view, self.project.request.pythons, self.observer.observe)
        build = self.open_build(named)
        if foreign := explain_platform(build, view) or explain_header(build, view):
            return replace(make_unknown(foreign, unsupported=foreign), **told)
        switched = view._replace(env=(*view.env, *told["switches"]))
        place = observed.asked.get("gpu", "setup.py")
        kernels = sorted(self.trials.find_kernels(view, observed) - observed.device_sources)
        lost = tuple(LeftOut(self.owned.in_tree(source), place) for source in kernels)
        of_cmake = find_cmake_archs(observed, view)
        is_of_cargo = "setuptools-rust" in self.observer.subject.plugins and not observed.device_sources
        by_files = tuple(self.warn_of_files(view)) if is_of_cargo else ()
        lacking = by_files or self.owned.warn_of_kernels(build, view, told["off"])
        lacking = (*lacking, *self.owned.warn_of_libraries(build))
        of_archs = (*self.arch_variables.warn(build, switched), *warn_of_unknown_archs(build.built, view, self.catalog))
        told = {**told, "warnings": (*of_archs, *of_cmake.warnings, *lacking)}
        return CellEvidence(
            extensions=build.extensions,
            extensions_where=build.where,
            python_api=build.python_api._replace(built_by_lowest=named is not observed),
            torch_abi=self.torch_abi(build),
            pure_tag=build.pure_tag,
            unsupported=explain_loss(lost) or self.explain_loss_of_cmake(observed, view),
            left_out=lost or tuple(self.find_switched_off(observed, view)),
            build_requires=list_undeclared(self.project, observed.imports),
            built=build.built,
            archs=find_own_archs(build.built, view) or of_cmake.names,
            spared=build.spared,
            members=self.members(build),
            contents=tuple(" ".join(member) for member in observed.members),
            written=build.written,
            configured=build.configured,
            metadata=observed.metadata,
            recipe=build.recipe,
            **told,
        )

    def build(self, view: View) -> ObservedBuild | None:
        """Return the build of a view; None if it fails, or is not understood."""
        seen = self.observer.observe(view)
        return None if seen.failure or seen.doubts else self.open_build(seen)

    def open_build(self, observed: Observed) -> ObservedBuild:
        """Return an observation with the files of the source that it compiles."""
        return ObservedBuild(observed, self.project.request.subdirectory, self.includes)

    def torch_abi(self, build: ObservedBuild) -> TorchAbi:
        """Return the torch ABI that the compiled files need; none where the build has no torch."""
        if build.runs_other:
            return doubt_torch_abi(build.torch_abi, self.project)
        has_torch = "torch" in build.observed.imports
        return build.torch_abi if has_torch else exclude_torch(build.torch_abi, self.project)

    def members(self, build: ObservedBuild) -> tuple[str, ...] | None:
        """Return the wheel's expected members; None if a plugin, hipify or Cython may write a file into it."""
        required = set(map(name_of_required, self.project.build_requires()))
        names = [name for name, _ in build.observed.members]
        if (
            build.runs_other
            or any(command.source.endswith(CYTHON) for command in build.compiles)  # its C file may be package data
            or required & HARMLESS
            or (build.hipify_place and any(name.endswith(HIPIFIED_ENDINGS) for name in names))
        ):
            return None
        return tuple(sorted([*names, *(one.member for one in build.built)]))

    def explain_loss_of_cmake(self, observed: Observed, view: View) -> str | None:
        """Return why the wheel of a build that runs cmake would lack kernels; None if it is not known to."""
        off = self.trials.find_turned_on_by_gpus(view, observed) if CMAKE in observed.asked else ""
        said = f"without a GPU its build gives cmake {off}, and no switch for that is known"
        return f"{said} ({observed.asked.get('gpu', 'setup.py')})" if off else None

    def find_switched_off(self, observed: Observed, view: View) -> Iterator[LeftOut]:
        """Yield the sources that the config names for the platform, and only a build with another variable compiles."""
        missing = self.owned.named(view) - observed.sources
        has_switches = bool(missing) and CMAKE not in observed.asked
        for switches, tried in self.trials.try_switches(view, observed) if has_switches else ():
            for source in sorted(missing & tried.sources) if not tried.failure else ():
                place = observed.asked.get(f"env:{switches[0][0]}", "setup.py")
                yield LeftOut(self.owned.in_tree(source), place, switches)
