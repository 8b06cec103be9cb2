"""Surveys a package: reads, by the evidence of a plan, what its build is for one cell of each platform it may have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from itertools import product
from pathlib import PurePath
from typing import NamedTuple

from ci_tools.catalog import Catalog, PlatformFacts, TorchRelease
from ci_tools.config.project import Package, list_admitted
from ci_tools.config.starter.cibuildwheel import Told, read_cibuildwheel
from ci_tools.errors import InputError, LabelError
from ci_tools.machine.context import Outside
from ci_tools.model.evidence import Extensions, PlatformEvidence, Requirement
from ci_tools.model.names import CONFIG_FILE
from ci_tools.model.platforms import Accelerator, AcceleratorKind, Platform
from ci_tools.model.request import Build, PlatformRequest, Request, Torch
from ci_tools.model.versions import Minor, Python, admits, parse_specifiers
from ci_tools.observe.collector import read_metadata, read_platforms
from ci_tools.observe.switches import MAX_TRIED, VALUES
from ci_tools.observe.versions.ask import WITHOUT_LABEL
from ci_tools.observe.versions.teller import Teller
from ci_tools.source.files import Tree
from ci_tools.source.includes import find_unconditional, uncommented
from ci_tools.source.project_file import ProjectFile
from ci_tools.source.requirements import build_requirements, torch_requirement

HOST = "linux-x86_64"  # the machine whose torch builds decide what is asked for
EVERYWHERE = (Platform.LINUX_CPU, Platform.LINUX_AARCH64, Platform.MACOS_ARM64, Platform.WINDOWS)
BUILD_SCRIPT = re.compile(r"(^|/)(setup\.py|CMakeLists\.txt|meson\.build)$|\.cmake$")
PKG_RESOURCES = "No module named 'pkg_resources'"
OLD_SETUPTOOLS = "setuptools<82"  # of those that have it, the newest serves


# A version may have no label where a variable of the first kind is empty, or one of the second kind is set.
OF_LABELS = re.compile(r"[A-Z][A-Z0-9_]*(LABEL|LOCAL|SUFFIX|VERSION)[A-Z0-9_]*")
OF_RELEASES = re.compile(r"[A-Z0-9_]*(PUBLISH|PYPI|RELEASE)[A-Z0-9_]*")


class Switch(NamedTuple):
    """A variable that is off by default, and with whose value a build compiles something for a platform."""

    platform: Platform
    name: str
    value: str
    place: str  # FILE:LINE that asks for it


class Survey(NamedTuple):
    """The facts about a package: its metadata, its requirements of torch, and the evidence for each platform."""

    project: ProjectFile
    name: str
    version: str  # "" if neither the source, its tool nor an observed build states it
    requires_python: str
    requires_torch: Requirement
    builds_with_torch: Requirement
    classifiers: tuple[str, ...]
    platforms: tuple[PlatformEvidence, ...]
    told: Told = Told()  # its options of cibuildwheel
    env: tuple[tuple[str, str], ...] = ()  # variables without which its version has a label
    switches: tuple[Switch, ...] = ()  # at most one for each platform for which nothing is compiled by default


def survey(blank: Request, tree: Tree, package: Package, catalog: Catalog, outside: Outside) -> Survey:
    """Return what the package's files say, and what its build does for one Python and torch on each platform.

    `blank` is a request for the source and nothing of it. Raises InputError if the package cannot be read, or only a
    person can say what its build needs.
    """
    blank = replace(blank, subdirectory=package.folder)
    cibuildwheel = read_cibuildwheel(ProjectFile(blank, tree))
    blank = replace(blank, build=Build(env=cibuildwheel.env_of_all, requires=cibuildwheel.requires))
    told = ProjectFile(blank, tree)
    builds_with = torch_requirement(build_requirements(told))
    torch = choose_versions((builds_with, torch_requirement(told.dependencies())), catalog)[-1]
    asked = replace(
        blank,
        pythons=(_choose_python(told, catalog.torch[torch], catalog),),
        torch=Torch(versions=(torch,)),
        platforms=tuple(
            replace(_request(platform, torch, catalog), env=cibuildwheel.env_of(platform))
            for platform in _candidates(tree, torch, catalog)
        ),
    )

    def observe(request: Request) -> tuple[PlatformEvidence, ...]:
        hides_git = project.told and project.told.hides_git
        observed = ProjectFile(request, replace(tree, checkout=None) if hides_git else tree)
        observed.told = project.told
        with closing(read_platforms(observed, catalog, outside)) as read:
            return tuple(read)

    project = ProjectFile(asked, tree)
    teller = Teller(project, outside)
    teller.ask()
    asked = project.request
    platforms = observe(asked)
    if any(PKG_RESOURCES in str(one.shown.unsupported) for one in platforms):
        cibuildwheel = cibuildwheel._replace(requires=(*cibuildwheel.requires, OLD_SETUPTOOLS))
        asked = project.request = replace(asked, build=asked.build._replace(requires=cibuildwheel.requires))
        platforms = observe(asked)
    with suppress(LabelError):  # a variable may leave the label out
        teller.ask_again(platforms)  # an observed build may have told what was missing
    if project.told and project.told.hides_git:
        platforms = observe(asked)
    found = _summarise(project, package, platforms, builds_with)
    found = found._replace(switches=tuple(_find_switches(found, observe)), told=cibuildwheel)
    return _make_public(found, observe) if "+" in found.version else found


def _find_switches(found: Survey, observe: Callable[[Request], tuple[PlatformEvidence, ...]]) -> Iterator[Switch]:
    """Yield the switch that makes the build compile something, for each accelerator for which it compiles nothing."""
    told = found.project.request
    for one in found.platforms:
        only = tuple(platform for platform in told.platforms if platform.platform == one.platform)
        if not only[0].accelerators or one.shown.extensions is not Extensions.NONE:
            continue
        for (name, place), value in product(one.shown.off[:MAX_TRIED], VALUES):  # each try runs the build
            (seen,) = observe(replace(told, build=_add_variable(told.build, name, value), platforms=only))
            if seen.shown.extensions is Extensions.SOME:
                yield Switch(one.platform, name, value, place)
                break


def _add_variable(build: Build, name: str, value: str) -> Build:
    return build._replace(env=(*build.env, (name, value)))


def _make_public(found: Survey, observe: Callable[[Request], tuple[PlatformEvidence, ...]]) -> Survey:
    """Return a survey whose version has no label, by a variable; raise InputError if it has one then.

    Projects put a commit or a CUDA version there; each wheel of a release gets a label of its own.
    """
    first = next((one for one in found.platforms if one.shown.metadata), None)
    asked = dict.fromkeys(name for one in found.platforms for name, _ in one.shown.asked)
    tries = [(name, "") for name in asked if OF_LABELS.fullmatch(name)]  # empty first: it says least
    tries += [(name, "1") for name in asked if OF_RELEASES.fullmatch(name)]
    told = found.project.request
    for env in tries if first else ():
        only = tuple(one for one in told.platforms if first and one.platform == first.platform)
        read = observe(replace(told, build=_add_variable(told.build, *env), platforms=only))
        seen = dict(line.partition(": ")[::2] for line in read_metadata(read))
        version = seen.get("Version", "+")  # a build that fails with it has none
        if "+" not in version:
            return found._replace(version=version, env=(env,))
    said = [f"{name}={value}" if value else f"an empty {name}" for name, value in tries]
    tried = f"; with {' or '.join(said)} it stays the same" if tries else ""
    msg = f"the version of the project is {found.version}, expected one without a label: each wheel gets its own{tried}"
    by_variable = "write a fatwheel.yml with `build: {env: …}` that decides the label"
    raise InputError(msg, hint=found.project.find_label(found.version) or (by_variable if tries else WITHOUT_LABEL))


def _choose_python(told: ProjectFile, torch: TorchRelease, catalog: Catalog) -> Python:
    """Return an admitted Python that is neither the oldest nor one that is too new for the project."""
    said, where = told.own_pythons({})
    pythons = list_admitted(said, where, (one for one in catalog.pythons if not one.free_threaded))
    shipped = [python for python in pythons if python in torch.pythons[HOST]] or pythons  # or the newest ones
    return shipped[len(shipped) // 2]


def _summarise(
    project: ProjectFile, package: Package, platforms: tuple[PlatformEvidence, ...], builds_with: Requirement
) -> Survey:
    fields = read_metadata(platforms)
    observed = dict(line.partition(": ")[::2] for line in fields)
    required = [(line.partition(": ")[2], "METADATA") for line in fields if line.startswith("Requires-Dist: ")]
    asked = {name for one in platforms for name, _ in one.shown.asked}
    if project.request.torch and "the version of torch" in asked:  # then it may require the torch of its builder
        own = re.compile(rf"^(torch)\s*[~>=]=\s*{project.request.torch.versions[0]}\b.*")
        required = [(own.sub(r"\1", text), at) for text, at in required]
    classifiers = [line.partition(": ")[2] for line in fields if line.startswith("Classifier: ")]
    return Survey(
        project=project,
        name=project.own_name(observed.get("Name", ""))
        or project.read_pkg_info("Name")
        or PurePath(package.folder or project.tree.root).name,  # nothing that is read says another
        version=project.own_version(observed.get("Version", "")),
        requires_python=project.own_pythons(observed)[0],
        requires_torch=torch_requirement([*project.dependencies()] or required),
        builds_with_torch=builds_with,
        classifiers=tuple(map(str, project.list("project", "classifiers"))) or tuple(classifiers),
        platforms=platforms,
    )


def choose_versions(required: Iterable[Requirement], catalog: Catalog) -> list[Minor]:
    """Return the published torch versions of the catalog that every requirement admits; raise InputError if none is."""
    known = [version for version, release in sorted(catalog.torch.items()) if release.headers]  # else not published
    found = known
    for one in required:
        found = [version for version in found if admits(parse_specifiers(one.specifier or ""), version)]
        if not found:
            what = f"{one.where}: torch {one.specifier} is required, and the catalog has {known[0]} to {known[-1]}"
            hint = "allow one of these, or add the torch to the catalog with `fatwheel catalog update`"
            raise InputError(what, hint=hint)
    return found


def _candidates(tree: Tree, torch: Minor, catalog: Catalog) -> Iterator[Platform]:
    """Yield the platforms that the package may have code for: accelerators only where something speaks of them."""
    for platform, facts in catalog.platforms.items():
        if (kind := facts.accelerator) and facts.host == HOST and _has_code(tree, kind):
            is_shipped = (facts.host, kind) in catalog.torch[torch].accelerators
            if is_shipped or not kind.is_on_index:  # of the newest torch they may not have been seen
                yield platform
    yield from EVERYWHERE


def _has_code(tree: Tree, kind: AcceleratorKind) -> bool:
    """Whether a project may compile for an accelerator; the evidence of the platform then says whether it does."""
    kernels = [tree.text(name) for name in tree.files if kind.own_headers and re.search(rf"{kind.kernels}$", name)]
    if any(find_unconditional(kind.own_headers, text) for text in kernels):
        return True
    if any(re.search(kind.sources, name) for name in tree.files):
        return True
    scripts = filter(BUILD_SCRIPT.search, tree.files)
    return any(re.search(kind.mentions, uncommented(script, tree.text(script))) for script in scripts)


def _request(platform: Platform, torch: Minor, catalog: Catalog) -> PlatformRequest:
    """Return a platform as a config would name it, for the newest accelerator that upstream's torch has."""
    facts = catalog.platforms[platform]
    kind, version = facts.accelerator, _newest_version(facts, catalog.torch[torch], catalog)
    return PlatformRequest(
        platform=platform,
        where=CONFIG_FILE,
        wheel_platform=facts.wheel_platform,
        accelerators=(Accelerator(kind, version),) if kind else (),
        archs=kind.choose_usual_archs(catalog.stacks[kind][version]) if kind and version else (),
    )


def _newest_version(facts: PlatformFacts, torch: TorchRelease, catalog: Catalog) -> Minor | None:
    """Return the newest version of a platform's accelerator that a torch has, else that the catalog has."""
    kind = facts.accelerator
    known = catalog.stacks[kind] if kind and kind.is_versioned else ()
    shipped = torch.accelerators.get((facts.host, kind), ()) if kind else ()
    return max((version for version in known if version in shipped), default=max(known, default=None))
