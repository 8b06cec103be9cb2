"""Chooses what a starter asks for, from a survey: Pythons, torch and platforms, each with the reason."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from packaging.utils import canonicalize_name

from ci_tools.catalog import Catalog
from ci_tools.catalog.accelerators.cuda import CUDA, Cuda
from ci_tools.catalog.providers import redist_facts
from ci_tools.config.project import list_admitted
from ci_tools.config.starter.cibuildwheel import Told
from ci_tools.config.starter.survey import HOST, Survey, Switch, choose_versions
from ci_tools.errors import InputError, close_names
from ci_tools.model.evidence import (
    NO_GPU,
    OWN_SUFFIX,
    Binding,
    CellEvidence,
    Extensions,
    PlatformEvidence,
    explain_false_tag,
)
from ci_tools.model.platforms import Accelerator, AcceleratorKind, Platform
from ci_tools.model.request import Globs, PathSource, ToolchainKind
from ci_tools.model.versions import CudaArch, Minor, Python, name_of_required
from ci_tools.observe.collector import read_metadata
from ci_tools.observe.device_code import SETTING
from ci_tools.observe.images import list_images
from ci_tools.observe.versions.ask import is_setuptools
from ci_tools.source.files import Tree, matching
from ci_tools.source.includes import Includes, SourceLine, uncommented
from ci_tools.source.project_file import ProjectFile
from ci_tools.source.python_api import closure
from ci_tools.source.requirements import Lacking, find_lacking

PACK_ALL = frozenset({"pbr", "setuptools-git", "setuptools-scm"})  # with them, setuptools packs what git tracks
DEPENDS = re.compile(r"\b(depends|headers|setup_requires)\s*=")  # these may have more packed
OPENED = re.compile(r"""\bopen\(\s*["']([\w./-]+)["'](?!\s*,\s*["'][awx])""")  # by setup.py, to read it
FOR_SDIST = re.compile(r"^if [^\n]*\bsdist\b[^\n]*(?:\n(?:[ \t][^\n]*)?)+", re.MULTILINE)  # no wheel needs its files
# What setuptools packs by itself (`sdist.add_defaults`, and the licences of `license_files`).
PACKED = re.compile(r"README(\.(rst|txt|md))?|setup\.(py|cfg)|pyproject\.toml|(LICEN[CS]E|COPYING|NOTICE|AUTHORS).*")
# A project() of CMake that finds no CUDA compiler fails.
NEEDS_CUDA = re.compile(r"^[ \t]*(project|enable_language)\s*\([^)]*\bCUDA\b", re.MULTILINE | re.IGNORECASE)
NO_NVCC = re.compile(".*(Failed to find nvcc|No CMAKE_CUDA_COMPILER could be found)")  # CMake's own words
BRANCH = re.compile(r"^[ \t]*(end)?(?:if|function|macro)\s*\(", re.MULTILINE | re.IGNORECASE)
ARCHIVED = redist_facts().platforms  # by host
MISSING = "ModuleNotFoundError"
SYNTAX = "SyntaxError"
FREE_THREADED = "Programming Language :: Python :: Free Threading"  # one of PyPI's classifiers
ONE_SYSTEM = {"Operating System :: Microsoft": "windows", "Operating System :: MacOS": "macos"}


class TorchChoice(NamedTuple):
    """The torch axis: every release from the first version up, or only the versions; none if nothing needs one."""

    versions: tuple[Minor, ...] = ()
    is_open: bool = False  # whether every later release is asked for as well
    why: str = ""
    tried: str = ""  # the release that wheels are tried with; "" if the package uses no torch


class PlatformChoice(NamedTuple):
    """A platform that is asked for, whether it compiles anything, and the accelerator's versions and architectures."""

    platform: Platform
    is_native: bool
    why: str
    kind: AcceleratorKind | None = None
    versions: tuple[Minor, ...] = ()
    archs: tuple[str, ...] = ()
    toolchain: ToolchainKind = ToolchainKind.AUTO
    arch_env: tuple[str, str] | None = None  # the project's own variable that chooses them, and its notation


class LeftPlatform(NamedTuple):
    """A platform that is left out, and the reason."""

    platform: Platform
    why: str


class Starter(NamedTuple):
    """All that a starter says of a package; `version` is "" if the source states it."""

    name: str
    folder: str
    version: str
    pythons: tuple[Python, ...]
    torch: TorchChoice
    platforms: tuple[PlatformChoice, ...]
    left: tuple[LeftPlatform, ...]
    imports: tuple[str, ...]
    backend: str
    lacking: tuple[Lacking, ...] = ()  # what these imports need and is not installed with the package
    env: tuple[tuple[str, str], ...] = ()
    told: Told = Told()  # its options of cibuildwheel
    path: str = "."  # of the source, from the config's folder
    untold: str = ""  # why its tool tells no version
    says_version: bool = False  # whether the config states the version, as nothing else does
    manifest: str = ""  # the lines of a MANIFEST.in without which its sdist would lack what builds read
    is_per_python: bool = False  # whether a wheel with native code serves one Python only, or may do so

    @property
    def is_native(self) -> bool:
        """Whether a platform compiles anything."""
        return any(one.is_native for one in self.platforms)


def choose(found: Survey, catalog: Catalog, torch: Minor | None = None) -> Starter:
    """Return what a config for the package asks for; `torch` is the version to begin with, if a person names one.

    Raises InputError if no platform could be built, or no torch serves.
    """
    kept, left = _sort_platforms(found)
    native = [one for one in kept if one.shown.extensions is not Extensions.NONE]
    is_per_python = any(one.shown.python_api.kind in {Binding.FULL, Binding.UNKNOWN} for one in native)
    pythons = _choose_pythons(found, native, catalog, is_per_python=is_per_python)
    choice = _choose_torch(found, native, pythons, catalog, torch)
    imports = find_imports(found.name, found.project, kept)
    source = found.project.request.source
    lacking = find_lacking(found.project, imports, read_metadata(found.platforms))
    shipped = {python for version in _served(choice, catalog) for python in catalog.torch[version].pythons[HOST]}
    return Starter(
        name=found.name,
        folder=found.project.request.subdirectory,
        version=found.version,
        pythons=tuple(python for python in pythons if not shipped or python in shipped),
        torch=choice,
        platforms=tuple(_platform(one, choice, found, catalog) for one in kept),
        left=tuple(left),
        imports=imports,
        lacking=tuple(one for one in lacking if one.requirement != "torch" or not choice.tried),
        backend=found.project.backend,
        env=found.env,
        told=found.told,
        untold=found.project.untold,
        path=source.path if isinstance(source, PathSource) else ".",
        manifest="; ".join(_write_manifest(found.project, native)),
        is_per_python=is_per_python,
    )


# ---------------------------------------------------------------- platforms


def _sort_platforms(found: Survey) -> tuple[list[PlatformEvidence], list[LeftPlatform]]:
    """Return the platforms that the package can have, and those it cannot; raise InputError if there is none."""
    judged = [(one, _why_not(one, found)) for one in found.platforms]
    kept = [one for one, why in judged if not why]
    left = [LeftPlatform(one.platform, why) for one, why in judged if why]
    if not kept:
        reasons: dict[str, list[str]] = {}
        for one in left:
            reasons.setdefault(one.why, []).append(one.platform)
        told = "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())
        msg = f"no platform can be built: {told}"
        key = "requires: […]}` names the packages" if MISSING in told else "env: {…}}` has the variables"
        is_of_line = SYNTAX in told or all(explain_false_tag(one.shown.python_api) for one in found.platforms)
        hint = f"write a fatwheel.yml whose `build: {{{key} that the build needs"
        if NO_GPU in told:
            hint = "let its setup.py take the architectures from TORCH_CUDA_ARCH_LIST, and ask for no GPU"
        raise InputError(msg, hint="mend that line" if is_of_line else hint)
    return kept, left


def _why_not(one: PlatformEvidence, found: Survey) -> str:
    """Return why a package is not served on a platform by wheels of its own; "" if it is."""
    shown = one.shown
    if why := found.told.explain_left_out(one.platform):
        return why
    if left := next((left for left in shown.left_out if left.pattern and left.switches), None):
        name, value = left.switches[0]
        return f'no kernel is compiled for it by default; with `env: {{{name}: "{value}"}}` ({left.where}) some are'
    if shown.unsupported:
        return f"its {'wheel would lack kernels' if shown.is_hollow else 'build fails there'}: {shown.unsupported}"
    if why := explain_false_tag(shown.python_api):
        return f"{shown.python_api.tagged_at}: {why}"
    if one.platform.endswith(("cuda", "rocm", "xpu")):
        plain = next((other.shown for other in found.platforms if other.platform is Platform.LINUX_CPU), None)
        switch = next((it for it in found.switches if it.platform == one.platform), None)
        return _why_no_accelerator(shown, plain, switch)
    systems = {" :: ".join(text.split(" :: ")[:2]) for text in found.classifiers if text.startswith("Operating System")}
    only = next(iter(systems)) if len(systems) == 1 else ""
    other = "" if one.platform.startswith(ONE_SYSTEM.get(only, "")) else f"the project's classifiers name only {only}"
    missed = (said[0] for one in shown.warnings if (said := NO_NVCC.match(one)))
    return (other or _needs_cuda(found.project) or next(missed, "")) if shown.extensions is not Extensions.NONE else ""


def _why_no_accelerator(shown: CellEvidence, plain: CellEvidence | None, switch: Switch | None) -> str:
    if switch:
        value = f'`build: {{env: {{{switch.name}: "{switch.value}"}}}}`'
        return f"nothing is compiled for it by default; with {value} ({switch.place}) there is"
    if shown.extensions is Extensions.NONE:  # after the switch, which says more
        return f"nothing is compiled for it ({explain(shown)})"
    if plain and shown.built and shown.built == plain.built:
        return "its build compiles the same there as for linux-cpu"
    return ""


def _needs_cuda(project: ProjectFile) -> str:
    """Return why a build cannot be without a CUDA compiler; "" if it can."""
    name = project.path("CMakeLists.txt")
    text = uncommented(name, project.tree.text(name))
    for found in NEEDS_CUDA.finditer(text):
        branches = BRANCH.findall(text, 0, found.start())  # "" for an if(), "end" for its end
        if branches.count("") == len(branches) - branches.count(""):  # else it is in one, which may not be taken
            return f"{SourceLine.at(name, text, found.start())}: {found[1]}() needs a CUDA compiler"
    return ""


def _write_manifest(project: ProjectFile, native: Iterable[PlatformEvidence]) -> Iterator[str]:
    """Yield the lines that a MANIFEST.in lacks by which setuptools packs what builds read: headers, and files by name.

    It packs what a plugin or package data names as well (its guide: "Controlling files in the distribution").
    """
    tree, start = project.tree, project.path("x").removesuffix("x")
    setup = FOR_SDIST.sub("\n", tree.text(project.path("setup.py")))
    packs_more = DEPENDS.search(setup) or PACK_ALL & {*map(name_of_required, project.build_requires())}
    if packs_more or not is_setuptools(project):
        return
    shown, includes = [one.shown for one in native], Includes(tree)
    sources = {call.source for one in shown for library in one.built for call in library.compiles}
    packed = tuple(f"/{name}" for name in (*sources, *(name for one in shown for name in one.members or ())))
    opened = {f"{start}{name}" for name in OPENED.findall(setup) if not PACKED.fullmatch(name)} & {*tree.files}
    read = {*closure(includes, filter(includes.has, sources)), *opened} - _list_told(tree, start)
    found = sorted(name for name in read if name.startswith(start) and not f"/{name}".endswith(packed))
    lacking = [name.removeprefix(start) for name in found]
    for folder in sorted({name.partition("/")[0] for name in lacking}):
        names = {f"*{posixpath.splitext(name)[1]}" for name in lacking if name.startswith(f"{folder}/")}
        yield " ".join(["recursive-include", folder, *sorted(names)] if names else ["include", folder])


def _list_told(tree: Tree, start: str) -> set[str]:
    """Return the files that the lines of a MANIFEST.in have packed, each in turn."""
    told: set[str] = set()
    for line in tree.text(f"{start}MANIFEST.in").replace("\\\n", " ").splitlines():
        action, *words = line.partition("#")[0].split() or [""]
        below = f"{words.pop(0).strip('/')}/**/" if action.startswith("recursive-") and words else ""
        ends = "/**" if action in {"graft", "prune"} else ""
        anywhere = "**/" if action.startswith("global-") else below
        patterns = tuple(f"/{start}{anywhere}{word.strip('/')}{ends}" for word in words)
        found = {*matching(tree.files, Globs(patterns))} if patterns else set()
        told = told - found if action == "prune" or action.endswith("exclude") else told | found
    return told


def explain(shown: CellEvidence) -> str:
    """Return the evidence about extensions in words for people."""
    return shown.extensions_where.replace(OWN_SUFFIX, "")


def _platform(found: PlatformEvidence, torch: TorchChoice, survey: Survey, catalog: Catalog) -> PlatformChoice:
    facts = catalog.platforms[found.platform]
    kind, shown = facts.accelerator, found.shown
    is_native = shown.extensions is not Extensions.NONE
    why = f"{'' if is_native else 'no '}native code: {explain(shown)}"
    asked = next(one.archs for one in survey.project.request.platforms if one.platform is found.platform)
    own = choose_archs(shown, asked, kind) if kind else Archs()
    if kind == CUDA:
        version = _cuda_version(_served(torch, catalog), facts.host, own.names, catalog)
        archs, variable = _cuda_archs(own, catalog.cuda[version])
        # No index has the compiler of CUDA 12: without this, only a machine with that very toolkit could build.
        is_archived = not catalog.cuda[version].pypi and catalog.cuda[version].redist and facts.host in ARCHIVED
        toolchain = ToolchainKind.REDIST if is_archived else ToolchainKind.AUTO
        return PlatformChoice(found.platform, is_native, why, kind, (version,), archs, toolchain, variable)
    if kind and kind.is_versioned:
        newest = max(catalog.stacks[kind])
        archs = own.names or kind.choose_usual_archs(catalog.stacks[kind][newest])
        return PlatformChoice(found.platform, is_native, why, kind, (newest,), archs)
    return PlatformChoice(found.platform, is_native, why, kind)


def _cuda_archs(own: Archs, cuda: Cuda) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    """Return the architectures to ask a release of CUDA for, and the variable that tells the project of them, if any.

    A project's own variable names machine code only.
    """
    known = tuple(arch for arch in own.names if cuda.knows(CudaArch.parse(arch)))
    usual = CUDA.choose_usual_archs(cuda)
    if known == own.names or own.variable is None:
        return known or usual, None
    return tuple(arch.removesuffix("+PTX") for arch in usual), own.variable


def _cuda_version(torches: Iterable[Minor], host: str, archs: Iterable[str], catalog: Catalog) -> Minor:
    """Return the CUDA version that most of the torches have and that a compiler on the index has.

    Where some compile for all of a project's own architectures, it is one of them. Of several, that of the torch on the
    index is taken, which users install and which builds get without another index.
    """
    key = (host, CUDA)
    served = [*torches] or [catalog.newest_torch]  # device code without torch
    shipped = Counter(
        version
        for torch in served
        for version in catalog.torch[torch].accelerators.get(key, ())
        if version and version in catalog.cuda
    )
    own = [CudaArch.parse(arch) for arch in archs]
    fit = [version for version in shipped if all(map(catalog.cuda[version].knows, own))] or [*shipped]
    able = [version for version in fit if catalog.cuda[version].pypi]
    usual = Counter(version for torch in served for version in catalog.torch[torch].nccl)  # of the wheels on the index
    rated = {version: (shipped[version], usual[version], version) for version in able or fit}  # then the newest
    return max(rated, key=rated.__getitem__, default=max(catalog.cuda))


# ---------------------------------------------------------------- Pythons and torch


def _choose_pythons(
    found: Survey, native: Sequence[PlatformEvidence], catalog: Catalog, *, is_per_python: bool
) -> tuple[Python, ...]:
    """Return the Pythons that the package admits: without free-threaded ones if its native code does not name them."""
    bound = [one for one in native if one.shown.python_api.kind is not Binding.NONE]  # others need nothing of a Python
    declared = any(text.startswith(FREE_THREADED) for text in found.classifiers)
    some = list_admitted(found.requires_python, found.project.name, catalog.pythons)
    chosen = tuple(python for python in some if not python.free_threaded or declared or not bound)
    named = tuple(filter(found.told.builds, chosen)) if is_per_python else ()
    is_meant = bool(named[1:]) or any(one.shown.python_api.kind is Binding.FULL for one in native)
    return (named if is_meant else ()) or chosen  # where only one Python is named, a limited API may be meant


def _served(torch: TorchChoice, catalog: Catalog) -> list[Minor]:
    """Return the torch versions that a choice asks for; empty if it asks for none."""
    if not torch.is_open:
        return [*torch.versions]
    return [version for version in catalog.torch if version >= torch.versions[0]]


def _rate_torch(
    torch: Minor, native: Sequence[PlatformEvidence], pythons: Sequence[Python], catalog: Catalog
) -> tuple[int, int, Minor]:
    """Return the sort key of a torch: by the native platforms that upstream ships it for, then by the Pythons."""
    kinds = [(one.platform, catalog.platforms[one.platform].accelerator) for one in native]
    shipped = sum(catalog.ships(torch, platform, Accelerator(kind)) for platform, kind in kinds if kind)
    return shipped, len({*pythons} & catalog.torch[torch].pythons[HOST]), torch


def _choose_torch(
    found: Survey, native: Sequence[PlatformEvidence], pythons: Sequence[Python], catalog: Catalog, named: Minor | None
) -> TorchChoice:
    """Return the torch axis that native code needs, and the torch that wheels are tried with."""
    asked = (found.builds_with_torch, found.requires_torch)
    abis = [one.shown.torch_abi for one in native]
    uses = [abi for abi in abis if abi.uses_torch or abi.kind in {Binding.FULL, Binding.STABLE}]
    if not uses and found.requires_torch.specifier is None and not (native and found.builds_with_torch.specifier):
        return TorchChoice()
    versions = choose_versions(asked, catalog)
    if named and named not in versions:
        msg = f"--torch: {named} is not one that the project admits, expected one of {', '.join(map(str, versions))}"
        raise InputError(msg)
    if not uses and all(abi.kind is Binding.NONE for abi in abis):
        return TorchChoice(tried=catalog.torch[named or versions[-1]].patch)
    doubted = [abi for abi in abis if abi.kind in {Binding.FULL, Binding.UNKNOWN}]
    if not doubted:
        lowest = max(*filter(None, (abi.target for abi in uses)), versions[0])  # no wheel serves an older one
        tried = named if named and named >= lowest else max(lowest, versions[-1])
        return TorchChoice((lowest,), is_open=True, why=uses[0].where, tried=catalog.torch[tried].patch)
    best = named or max(versions, key=lambda one: _rate_torch(one, native, pythons, catalog))
    why = f"a wheel for each torch ({doubted[0].where})"
    if versions[1:]:
        why += f": of {versions[0]} to {versions[-1]}, only this; list each that you serve"
    return TorchChoice((best,), why=why, tried=catalog.torch[best].patch)


class Archs(NamedTuple):
    """The architectures that a project chooses itself, if any, and the variable of its own that would choose others."""

    names: tuple[str, ...] = ()
    variable: tuple[str, str] | None = None  # with the notation of `arch-env`


def choose_archs(shown: CellEvidence, asked: Sequence[str], kind: AcceleratorKind) -> Archs:
    """Return what a build is for that was asked for some architectures, as PyTorch's own builds are."""
    images = {image for one in shown.built for image in one.images or ()}
    if not shown.archs and (not images or images == list_images(kind, asked)):  # it compiles what it is asked for
        return Archs()
    # A build that compiles for 9.0a may have been asked for 9.0, and not know the other name.
    names = shown.archs or kind.name_archs(images)
    told = {arch.removesuffix("+PTX") for arch in asked} - {*names}
    own = tuple(one[:-1] if one[:-1] in told else one for one in names)
    found = next(filter(None, map(SETTING.search, shown.warnings)), None)
    return Archs(own, (found["name"], found["notation"]) if found else None)


EXTENSION = re.compile(r"\.(cpython-[\w-]+|abi3t?)\.so$|(\.[\w-]+)?\.pyd$")  # a plain .so may be loaded by its path
# Packages beside the real one, which wheels should not have and often do.
BESIDE = frozenset({"benchmarks", "build", "docs", "examples", "scripts", "test", "tests", "tools"})
SAYS_A_PROJECT = frozenset({"pyproject.toml", "setup.py"})
DEEPEST = 2  # folders between a package's root and the folder of its modules: src, bindings/python


def find_imports(name: str, project: ProjectFile, platforms: Iterable[PlatformEvidence]) -> tuple[str, ...]:
    """Return the module that a project of this name installs, and extensions beside it; empty if nothing is known."""
    wanted = canonicalize_name(name)
    known = filter(None, (one.shown.members or one.shown.contents for one in platforms))
    packed = [{line.partition(" sha256=")[0] for line in lines} for lines in known]
    observed = set.intersection(*({*_top_modules(members)} for members in packed)) if packed else set()
    stated = project.text("tool", "maturin", "module-name").partition(".")[0]
    # A folder with the name of what the project requires is its part for that, in a namespace.
    required = {name_of_required(text).replace("-", "_") for text, _ in project.dependencies()}
    found = sorted(observed or {stated} - {""} or set(_modules_in(project, wanted)) - required)
    same = [module for module in found if wanted in map(canonicalize_name, (module, module.rpartition(".")[0]))]
    named = same or [one for one in found if one.partition(".")[0] not in BESIDE | {"src"} and not one.startswith("_")]
    # the whole of a name before its parts: "fast_transformers" for pytorch-fast-transformers
    chosen = close_names(wanted.replace("-", "_"), named) if len(named) > 1 and not same else named
    beside = {EXTENSION.sub("", member) for members in packed for member in members if EXTENSION.search(member)}
    return (*chosen, *sorted(beside & observed - {*chosen, *BESIDE}))


def _top_modules(members: Collection[str]) -> Iterator[str]:
    """Yield the topmost packages of a wheel with these members, modules at its root, and extensions in neither."""
    for member in members:
        folders = member.split("/")[:-1]
        paths = ("/".join(folders[:depth]) for depth in range(1, len(folders) + 1))
        top = next((path for path in paths if f"{path}/__init__.py" in members), "")
        ending = EXTENSION if folders else r"(\.[\w-]+)?\.(so|pyd)$|\.py$"  # _C.abi3.so, _C.pyd, mod.py
        module = top or re.sub(ending, "", member).removesuffix("/__init__")
        if all(part.isidentifier() for part in module.split("/")):
            yield module.replace("/", ".")


def _modules_in(project: ProjectFile, wanted: str) -> Iterator[str]:
    """Yield the packages near the top of a project, with the namespace that is wanted, but those of another project."""
    prefix = project.path("pyproject.toml").removesuffix("pyproject.toml")
    others = {file.rpartition("/")[0] for file in project.tree.files if file.rpartition("/")[2] in SAYS_A_PROJECT}
    for file in project.tree.files:
        *folders, last = file.removeprefix(prefix).split("/") if file.startswith(prefix) else ("",)
        if last == "__init__.py" and folders and len(folders) - 1 <= DEEPEST and not BESIDE & {*folders}:
            above = "/".join((*folders[:-1], "__init__.py"))
            within = {f"{prefix}{'/'.join(folders[:depth])}" for depth in range(1, len(folders))}
            if f"{prefix}{above}" not in project.tree.names and folders[-1].isidentifier() and not within & others:
                paths = (".".join(folders[depth:]) for depth in range(len(folders)))
                yield next((path for path in paths if canonicalize_name(path) == wanted), folders[-1])
