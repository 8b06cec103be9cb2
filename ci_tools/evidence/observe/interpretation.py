"""Converts a recorded setup.py run into evidence: what it compiles, for which Python and torch, by which switch."""

from __future__ import annotations

import hashlib
import posixpath
import re
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from ci_tools.evidence.includes import (
    Include,
    Includes,
    Place,
    abi_of_commands,
    find_contradiction,
    is_defined,
    list_forced_includes,
)
from ci_tools.evidence.observe.run import (
    HARMLESS,
    SIMULATED,
    Observer,
    Subject,
    View,
)
from ci_tools.model.evidence import (
    OWN_SUFFIX,
    PURE_TAG,
    Binding,
    CellEvidence,
    Compile,
    Extension,
    Extensions,
    PythonApi,
    TorchAbi,
)
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.model.versions import CudaArch, GfxArch, Minor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.catalog import Catalog
    from ci_tools.evidence.observe.run import Observed
    from ci_tools.evidence.project_file import ProjectFile
    from ci_tools.evidence.source import Tree
    from ci_tools.machine.context import Outside
    from ci_tools.model.cell import Cell
    from ci_tools.model.request import PlatformRequest

    Switches = tuple[tuple[str, str], ...]

__all__ = ["Witness"]

RAN = "observed by running setup.py"
IMPORTED = {"Cython": "cython", "ninja": "ninja", "numpy": "numpy", "packaging": "packaging", "psutil": "psutil",
            "pybind11": "pybind11", "torch": "torch"}  # fmt: skip
DEVICE_ENDINGS = (".cu", ".hip", ".sycl")
HIPIFIED_ENDINGS = (".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".hpp")  # torch writes each file's translation beside it
# Variables that may switch kernels on, and words in variables that switch something off.
SWITCH = re.compile(r"CUDA|GPU|ROCM|HIP|FORCE|WITH|USE|BUILD|ENABLE|KERNEL|EXT")
NO_SWITCH = re.compile(r"SKIP|NO_|DISABLE|CPU|_HOME|_PATH|_DIR|ARCH|JOBS|VERSION|FLAGS")
VALUES = ("1", "TRUE", "ON")
OWN_ARCHS = re.compile(r"(CUDA|GPU|NVCC|HIP|ROCM).*ARCH")
ARCH_LISTS = {AcceleratorKind.CUDA: "TORCH_CUDA_ARCH_LIST", AcceleratorKind.ROCM: "PYTORCH_ROCM_ARCH"}
STARTS_A_BUILD = ("runs cmake", "runs make", "compiles by a command of its own")
UNTOLD = frozenset({"chance", "free_threaded", "hipify"})  # questions that make no difference to evidence by themselves
MOST_TRIED = 8  # switches of one build
OFFLOAD = re.compile(r"--(?:offload-arch|cuda-gpu-arch|amdgpu-target)=(\S+)")  # one or several, separated by commas
GFX = re.compile(r"gfx[0-9a-f]{3,4}(:[a-z]+[+-])*")
NATIVE = "native"  # the GPU of the builder
GENCODE = re.compile(r"arch=compute_(\w+),code=(?:\[([\w,]+)\]|([\w,]+))")
CAPPED = re.compile(r"\s*setuptools\b[^;]*(<|==|~=)")
LIMITED_FLAGS = ("-DPy_LIMITED_API", "/DPy_LIMITED_API", "-DCYTHON_LIMITED_API")
UNLIMITED_FLAGS = ("-UPy_LIMITED_API", "/UPy_LIMITED_API")
LIMITED_VERSION = re.compile(r"=0x03([0-9a-fA-F]{2})[0-9a-fA-F]{4}$")
LIMITED_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+Py_LIMITED_API", re.MULTILINE)
CYTHON = (".pyx", ".py")
PULLS_PYBIND = frozenset({"torch/torch.h"})  # with the macro that torch's BuildExtension defines


class Witness:
    """Observes the project's own build code for one cell after another."""

    def __init__(self, project: ProjectFile, tree: Tree, catalog: Catalog, outside: Outside) -> None:
        self.project = project
        self.tree = tree
        self.catalog = catalog
        self.includes = Includes(tree)
        self.observer = Observer(self.subject(), outside)
        self.unknown: dict[str, CellEvidence] = {}
        self.shown: dict[tuple[int, Switches], CellEvidence] = {}
        self.remedies: dict[tuple[str, str, str], tuple[Switches, object]] = {}

    def close(self) -> None:
        """Close the observer, which reports the number of builds if any ran."""
        self.observer.close()

    def subject(self) -> Subject:
        """Return the project to observe."""
        project = self.project
        required = [_name(str(item)) for item in project.list("build-system", "requires")]
        return Subject(
            tree=self.tree,
            folder=project.request.subdirectory or ".",
            backend=project.backend,
            backend_path=tuple(map(str, project.list("build-system", "backend-path"))),
            provided=tuple(sorted({name for name in required if name} - SIMULATED - HARMLESS)),
            capped=any(CAPPED.match(str(item)) for item in project.list("build-system", "requires")),
        )

    def of(self, cell: Cell, platform: PlatformRequest) -> CellEvidence:
        """Return the evidence of a cell's build."""
        if provided := self.observer.subject.provided:
            place = self.project.place("build-system", "requires")
            return self.once(
                f"{place}: what {provided[0]} adds to {self.project.backend.partition('.')[0]} is not known"
            )
        view = self.view(cell, platform)
        seen, switches = self.try_remedy(view) or self.mended(view, self.observer.observe(view))
        if switches:
            self.remedies[_kind(view)] = switches, _gist(seen)
        key = id(seen), switches
        if key not in self.shown:
            found = self.evidence(seen, switches, view)
            self.shown[key] = next((one for one in self.shown.values() if one == found), found)
        return self.shown[key]

    @cached_property
    def has_kernels(self) -> bool:
        """Whether the source has GPU sources."""
        return any(name.endswith(DEVICE_ENDINGS) for name in self.tree.files)

    def once(self, where: str) -> CellEvidence:
        """Return UNKNOWN evidence, the same object for every cell with the same `where`."""
        return self.unknown.setdefault(where, _unseen(where))

    def view(self, cell: Cell, platform: PlatformRequest) -> View:
        """Return the facts and variables that the build would get from the cell's job."""
        facts = self.catalog.platforms[cell.platform]
        name = ARCH_LISTS.get(cell.accelerator.kind) if cell.accelerator and platform.archs else None
        told = {name: ";".join(platform.archs)} if name else {}
        env = {**told, **dict(self.project.request.build.env), **dict(platform.env)}
        return View(facts.os, facts.machine, cell.python, self.torch(cell), cell.accelerator, "", tuple(env.items()))

    def torch(self, cell: Cell) -> str:
        """Return the version string of torch on the cell's builder, such as `2.10.0+cu130`."""
        release = self.catalog.torch[cell.torch or max(self.catalog.torch)]
        facts = self.catalog.platforms[cell.platform]
        label = cell.accelerator.label if cell.accelerator else "cpu"
        return release.patch if facts.os == "macos" else f"{release.patch}+{label}"

    # -- wheels that would lack their kernels

    def try_remedy(self, view: View) -> tuple[Observed, Switches] | None:
        """Return the build with the switch that a cell of the same kind needed, if it has the same effect; else None.

        To find a switch takes many builds, and few projects have different switches for each Python or torch.
        """
        if _kind(view) not in self.remedies:
            return None
        switches, gist = self.remedies[_kind(view)]
        tried = self.observer.observe(view._replace(env=(*view.env, *switches)))
        return (tried, switches) if _gist(tried) == gist else None

    def mended(self, view: View, observed: Observed) -> tuple[Observed, Switches]:
        """Return the build with the switch that it needs, if it needs one.

        A build needs a switch if it leaves its kernels out on a builder without a GPU, or looks for a wheel online.
        """
        wanted = self.find_kernels(view, observed)
        if not wanted - _device_sources(observed) and not observed.opens_network:
            return self.hidden(view, observed) or (observed, ())
        for switch, tried in self.tried(view, observed):
            if wanted <= _device_sources(tried) and not tried.doubts and not tried.failure:
                return tried, (switch,)
        return observed, ()

    def hidden(self, view: View, observed: Observed) -> tuple[Observed, Switches] | None:
        """Return the build whose switch starts another build system, if the build compiles nothing without a switch."""
        is_empty = view.accelerator and not observed.commands and not observed.doubts and not observed.failure
        if not is_empty or not self.has_kernels:
            return None
        for switch, tried in self.tried(view, observed):
            if any(what.startswith(STARTS_A_BUILD) for what in tried.doubts):
                return tried, (switch,)
        return None

    def find_kernels(self, view: View, observed: Observed) -> frozenset[str]:
        """Return the kernels that the build compiles with a GPU present, or with a switch if it compiles none then."""
        if view.accelerator is None:
            return frozenset()
        seen = observed
        if "gpu" in observed.asked:
            seen = self.observer.observe(view._replace(gpu=True, capability=_capability(view)))
        if _device_sources(seen) or not self.has_kernels:
            return _device_sources(seen)
        switched = (_device_sources(tried) for _, tried in self.tried(view, observed))
        return next(filter(None, switched), frozenset())

    def tried(self, view: View, observed: Observed) -> Iterator[tuple[tuple[str, str], Observed]]:
        """Yield the build with each variable that may switch kernels on, the likeliest first.

        First all variables are set together: if that changes nothing, none of them is tried by itself.
        """
        names = list(_switches(observed, view))[:MOST_TRIED]
        archs = ";".join(arch.removesuffix("+PTX") for arch in _request_archs(view))
        sets = [[(name, value) for name in names] for value in VALUES if names]
        sets += [[(name, archs)] for name in _arch_variables(observed, view) if archs]
        for switches in sets:
            together = self.observer.observe(view._replace(env=(*view.env, *switches)))
            if _gist(together) == _gist(observed):
                continue
            for switch in switches:
                yield switch, self.observer.observe(view._replace(env=(*view.env, switch)))

    # -- evidence

    def evidence(self, observed: Observed, switches: Switches, view: View) -> CellEvidence:
        """Return the evidence of an observed build."""
        asked = tuple(sorted((_question(name), at) for name, at in observed.asked.items() if at and name not in UNTOLD))
        told: dict[str, Any] = {
            "asked": asked,
            "switches": switches,
            "switches_where": self.explain_switch(switches, observed, view),
        }
        if observed.doubts:
            what, place = next(iter(observed.doubts.items()))
            return replace(_unseen(f"{place}: it {what}" if place else what), **told)
        if failure := observed.failure:
            place = failure.place or RAN
            return replace(_unseen(f"{place}: {failure.text}", unsupported=f"{failure.text} ({place})"), **told)
        return self.understood(observed, view, told)

    def explain_switch(self, switches: Switches, observed: Observed, view: View) -> str:
        """Return in words the switch that was set and the effect of a build without it; "" if none was set."""
        if not switches:
            return ""
        name, value = switches[0]
        place = observed.asked.get(f"env:{name}", "setup.py")
        return f"built with {name}={value}, without which {self.without(view)} ({place})"

    def without(self, view: View) -> str:
        """Return in words the effect of a build without a GPU and without a switch."""
        bare = self.observer.observe(view)
        return "it would look for a wheel on the network" if bare.opens_network else "it would leave kernels out"

    def understood(self, observed: Observed, view: View, told: dict[str, Any]) -> CellEvidence:
        """Return the evidence of a successful build without doubts."""
        build = _Build(observed, self.project.request.subdirectory, self.includes)
        api = build.python_api
        lost = self.lost(observed, view)
        told = {**told, "warnings": tuple(_arch_warnings(build.built, view))}
        return CellEvidence(
            extensions=build.extensions,
            extensions_where=build.where,
            python_api=api,
            torch_abi=build.torch_abi,
            pure_tag=build.pure_tag,
            unsupported=lost or None,
            build_requires=self.unsaid(observed),
            built=build.built,
            members=self.members(build),
            contents=tuple(" ".join(member) for member in observed.members),
            metadata=observed.metadata,
            recipe=build.recipe,
            **told,
        )

    def members(self, build: _Build) -> tuple[str, ...] | None:
        """Return the wheel's expected members; None if unknown, as a plugin or hipify may write a file into it."""
        required = {_name(str(item)) for item in self.project.list("build-system", "requires")}
        names = [name for name, _ in build.observed.members]
        if required & HARMLESS or (build.hipify_place and any(name.endswith(HIPIFIED_ENDINGS) for name in names)):
            return None
        return tuple(sorted([*names, *(one.member for one in build.built)]))

    def lost(self, observed: Observed, view: View) -> str:
        """Return why the wheel would lack its kernels, or "" if it has them or a switch helps."""
        missing = sorted(self.find_kernels(view, observed) - _device_sources(observed))
        if not missing:
            return ""
        place = observed.asked.get("gpu", "setup.py")
        return f"without a GPU its build leaves {missing[0]} out, and no switch for that is known ({place})"

    def unsaid(self, observed: Observed) -> tuple[str, ...]:
        """Return the packages that the build imports but the project does not list in `build-system.requires`."""
        required = {_name(str(item)) for item in self.project.list("build-system", "requires")}
        imported = {IMPORTED[module] for module in observed.imports if module in IMPORTED}
        return tuple(sorted(imported - required))


def _name(requirement: str) -> str:
    match = re.match(r"\s*([A-Za-z0-9._-]+)", requirement)
    return canonicalize_name(match[1]) if match else ""


def _question(name: str) -> str:
    """Return a readable name for a question."""
    words = {"gpu": "whether there is a GPU", "os": "the system", "machine": "the processor", "env": "the environment",
             "python": "the version of Python",
             "torch": "the version of torch", "accelerator": "the accelerator of torch"}  # fmt: skip
    return words.get(name) or name.removeprefix("env:")


def _unseen(where: str, unsupported: str = "") -> CellEvidence:
    """Return evidence of a build that is not understood, so that nothing collapses, or of an unsupported one."""
    return CellEvidence(
        extensions=Extensions.UNKNOWN,
        extensions_where=where,
        python_api=PythonApi(Binding.UNKNOWN, where),
        torch_abi=TorchAbi(Binding.UNKNOWN, where),
        unsupported=unsupported,
    )


def _kind(view: View) -> tuple[str, str, str]:
    """Return the kind of a cell: cells of one kind need the same switches."""
    return view.os, view.machine, str(view.accelerator.kind) if view.accelerator else ""


def _device_sources(observed: Observed) -> frozenset[str]:
    return frozenset(one.source for one in observed.commands if one.source.endswith(DEVICE_ENDINGS))


def _switches(observed: Observed, view: View) -> Iterator[str]:
    """Yield the unset variables that the build reads and that may switch kernels on, the likeliest first."""
    names = (name.removeprefix("env:") for name, place in observed.asked.items() if name.startswith("env:") and place)
    fit = (name for name in names if SWITCH.search(name) and not NO_SWITCH.search(name) and name not in dict(view.env))
    yield from sorted(fit, key=lambda name: ("FORCE" not in name, "CUDA" not in name, name))


def _arch_variables(observed: Observed, view: View) -> Iterator[str]:
    """Yield the project's own variables for architectures that the build reads and that are not set."""
    for name, place in observed.asked.items():
        variable = name.removeprefix("env:")
        if place and variable != name and variable not in dict(view.env) and OWN_ARCHS.search(variable):
            yield variable


def _request_archs(view: View) -> Iterator[str]:
    """Yield the requested architectures; values in the config's variables that only torch understands are skipped."""
    wanted = ARCH_LISTS.get(view.accelerator.kind) if view.accelerator else None
    for name, text in view.env:
        for arch in re.split("[; ]", text) if name == wanted else ():
            with suppress(ValueError):
                yield str((GfxArch if wanted == "PYTORCH_ROCM_ARCH" else CudaArch).parse(arch))


def _capability(view: View) -> str:
    """Return the compute capability, in torch's notation, of a GPU that the view's build is for."""
    first = next(_request_archs(view), "9.0")
    return str((GfxArch if first.startswith("gfx") else CudaArch).parse(first).capability)


def _gist(observed: Observed) -> tuple[object, ...]:
    """Return the parts of an observation that a switch may change."""
    return observed.commands, observed.members, observed.libraries, dict(observed.doubts), observed.failure


class _Build:
    """One observed build without doubts."""

    def __init__(self, observed: Observed, folder: str, includes: Includes) -> None:
        self.observed = observed
        self.folder = folder or "."
        self.includes = Includes(includes.tree, observed.generated) if observed.generated else includes

    @cached_property
    def built(self) -> tuple[Extension, ...]:
        return tuple(
            Extension(one.member, tuple(map(self.compile, one.commands)), one.links, _images(one.commands))
            for one in self.observed.libraries
        )

    def compile(self, command: Compile) -> Compile:
        """Return a command whose source is named as in the tree; for code that Cython writes, its `.pyx`."""
        name = posixpath.normpath(posixpath.join(self.folder, command.source))
        cython = [str(PurePosixPath(name).with_suffix(ending)) for ending in (".pyx", ".py")]
        found = [one for one in (name, *cython) if self.includes.has(one)]
        return command._replace(source=found[0] if found else name)

    @cached_property
    def compiles(self) -> tuple[Compile, ...]:
        return tuple(map(self.compile, self.observed.commands))

    @cached_property
    def extensions(self) -> Extensions:
        observed = self.observed
        is_compiled = observed.libraries or observed.commands or observed.shipped or not observed.is_pure
        return Extensions.SOME if is_compiled else Extensions.NONE

    @cached_property
    def where(self) -> str:
        observed = self.observed
        if self.built:
            first = self.built[0]
            count = sum(len(one.compiles) for one in self.built)
            more = f" and {len(self.built) - 1} more" if len(self.built) > 1 else ""
            files = f"{count} file{'' if count == 1 else 's'}"
            return f"{RAN}: compiles {files} into {first.member.replace(OWN_SUFFIX, '')}{more}{self.hipify_note}"
        if observed.shipped:
            return f"{RAN}: ships {observed.shipped[0]}, which is compiled"
        if observed.commands:
            return f"{RAN}: compiles {observed.commands[0].source}"
        if not observed.is_pure:
            return f"{RAN}: its wheel is for one platform, though nothing is compiled"
        return f"{RAN}: compiles nothing, {len(observed.members)} members"

    @property
    def hipify_place(self) -> str:
        """The place where the project has its sources translated for ROCm, or ""."""
        return self.observed.asked.get("hipify", "")

    @property
    def hipify_note(self) -> str:
        """The note about sources that torch translates for ROCm, or ""."""
        written = self.observed.generated
        translated = [one.source for one in self.compiles if one.source.endswith(".cu") or one.source in written]
        return (
            f", {translated[0]} translated by hipify ({self.hipify_place})" if self.hipify_place and translated else ""
        )

    @property
    def pure_tag(self) -> str:
        tag = self.observed.tag
        return tag.removesuffix("-none") if re.fullmatch(r"py[\w.]+-none", tag) else PURE_TAG

    @cached_property
    def python_api(self) -> PythonApi:
        tag = self.observed.tag
        where = f"{RAN}: its wheel is tagged {tag or 'for the Python that builds it'}"
        if not tag:
            return PythonApi(Binding.FULL, where)
        if tag.endswith("-none") and tag.startswith("py"):
            return self.agreeing(PythonApi(Binding.NONE, where))
        match = re.fullmatch(r"cp3(\d{1,2})-abi3", tag)
        if match is None:
            return PythonApi(Binding.UNKNOWN, where)
        return self.agreeing(PythonApi(Binding.STABLE, where, Minor(3, int(match[1]))))

    def agreeing(self, api: PythonApi) -> PythonApi:
        """Return the API that the tag declares, or UNKNOWN if a library or a command contradicts the tag."""
        own = next((one.member for one in self.built if one.member.endswith(OWN_SUFFIX)), "")
        if own:
            what = f"{own.removesuffix(OWN_SUFFIX)} is compiled for one Python"
            return PythonApi(Binding.UNKNOWN, f"{what}, against {api.where}")
        for command in self.compiles:
            if why := self.explain_excess(command, api):
                return PythonApi(Binding.UNKNOWN, f"{why}, against {api.where}")
        return api

    def explain_excess(self, command: Compile, api: PythonApi) -> str:
        """Return why one command goes beyond the API that the tag declares, or ""."""
        if not self.includes.has(command.source):
            return f"{command.source} is compiled, and is not in the source"
        reached = (*self.includes.external_includes([command.source]), *self.list_forced_includes(command))
        if command.source.endswith(CYTHON):
            reached = (*reached, Include("Python.h", Place(command.source, 1)))
        if contradiction := find_contradiction(api, reached):
            return contradiction.where.partition(", against")[0]
        if api.kind is not Binding.STABLE:
            return ""
        if "-DTORCH_API_INCLUDE_EXTENSION_H" in command.flags:
            for header, place in reached:
                if header in PULLS_PYBIND:
                    return f"{place}: {header} includes pybind11, as torch's BuildExtension compiles it"
        python = next((place for header, place in reached if header == "Python.h"), None)
        return self.explain_full_api(command, python, api) if python else ""

    def list_forced_includes(self, command: Compile) -> tuple[Include, ...]:
        """Return the headers that a command's flags include, and the headers that these include in turn."""
        return tuple(list_forced_includes(command, self.includes))

    def explain_full_api(self, command: Compile, python: Place, api: PythonApi) -> str:
        """Return why a command that includes Python.h goes beyond the limited API of the tag, or ""."""
        last = [flag for flag in command.flags if flag.startswith((*LIMITED_FLAGS, *UNLIMITED_FLAGS))][-1:]
        if last and last[0].startswith(LIMITED_FLAGS):
            match = LIMITED_VERSION.search(last[0])
            beyond = match and api.lowest and Minor(3, int(match[1], 16)) > api.lowest
            return f"{command.source} is compiled with {last[0]}" if beyond else ""
        files = {python.file, command.source}
        if last or not any(is_defined(self.includes.text(file), LIMITED_DEFINE) for file in files):
            return f"{python}: includes Python.h, and nothing defines Py_LIMITED_API"
        return ""

    @cached_property
    def torch_abi(self) -> TorchAbi:
        if self.observed.shipped:
            where = f"{self.observed.shipped[0]} is compiled already"
            return TorchAbi(Binding.UNKNOWN, where, uses_torch="torch" in self.observed.imports)
        return abi_of_commands(self.includes, self.compiles)

    @cached_property
    def recipe(self) -> str:
        seen = self.observed
        parts = (seen.tag, seen.is_pure, seen.members, seen.shipped, seen.metadata, self.built, seen.commands)
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def _images(commands: Iterable[Compile]) -> tuple[str, ...] | None:
    """Return the device images of a library's commands, or None if the compiler chooses them itself."""
    images: dict[str, None] = {}
    for command in commands:
        if command.source.endswith((".cu", ".hip")):
            found = [image for flag in command.flags for image in (*_gencode(flag), *_offload_targets(flag))]
            if not found or NATIVE in found:
                return None
            images.update(dict.fromkeys(found))
    return tuple(images)


def _gencode(flag: str) -> Iterator[str]:
    """Yield the images that one nvcc flag requests."""
    for match in GENCODE.finditer(flag):
        yield from (match[2] or match[3]).split(",")
    if short := re.fullmatch(r"(?:-arch|--gpu-architecture)=sm_(\w+)", flag):
        yield from (f"sm_{short[1]}", f"compute_{short[1]}")


def _offload_targets(flag: str) -> Iterator[str]:
    """Yield the targets that one hipcc flag requests, spelt as in device bundles."""
    match = OFFLOAD.fullmatch(flag)
    for text in match[1].split(",") if match else ():
        yield str(GfxArch.parse(text)) if GFX.fullmatch(text) else text


def _arch_warnings(built: Iterable[Extension], view: View) -> Iterator[str]:
    """Yield warnings about requested architectures that the project does not build."""
    asked = list(_request_archs(view))
    with_device_code = [one for one in built if one.images != ()]
    unknown = [one.member for one in with_device_code if one.images is None]
    if unknown and asked:
        yield f"{RAN}: which architectures {unknown[0].replace(OWN_SUFFIX, '')} is for, its compiler decides"
    served = {image for one in with_device_code for image in one.images or ()}
    missing = [arch for arch in asked if not unknown and served and not _serves(served, arch)]
    if missing:
        found = " ".join(sorted(served))
        yield f"{RAN}: no library is for {' '.join(missing)}, which was asked for: the project itself chooses {found}"


def _serves(images: set[str], arch: str) -> bool:
    if arch.startswith("gfx"):
        return arch in images
    parsed = CudaArch.parse(arch)
    return parsed.sm in images and (not parsed.ptx or parsed.compute in images)
