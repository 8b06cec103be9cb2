"""An observed build without doubts: the extensions it compiles, and the Python and torch ABI that they need."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.model.evidence import (
    OWN_SUFFIX,
    PURE_TAG,
    Binding,
    Compile,
    Extension,
    Extensions,
    PythonApi,
    Spared,
    TorchAbi,
)
from ci_tools.observe.images import list_images, read_command_images
from ci_tools.observe.observation import BUILDERS, Observed
from ci_tools.observe.python_label import RAN, judge_tag
from ci_tools.observe.views import View
from ci_tools.source.includes import Includes, abi_of_commands, select_sources, torch_abi
from ci_tools.source.loaders import Loader, find_loaders

if TYPE_CHECKING:
    from ci_tools.catalog import Catalog

CMAKE, MAKE = BUILDERS


def list_request_archs(view: View) -> Iterator[str]:
    """Yield the requested architectures; values in the config's variables that only torch understands are skipped."""
    if (kind := view.kind) is None:
        return
    for arch in re.split("[;, ]", dict(view.env).get(kind.arch_list[0], "")):
        with suppress(ValueError):
            yield kind.parse_arch(arch)


class ObservedBuild:
    """One observed build without doubts."""

    def __init__(self, observed: Observed, folder: str, includes: Includes) -> None:
        self.observed = observed
        self.folder = folder or "."
        self.includes = includes.with_generated(observed.generated)
        # The other build system that compiles, of which only the files are known; "" if there is none.
        self.runs_other = next((name for name in BUILDERS if name in observed.asked), "")
        # The place where the project has its sources translated for ROCm, or "".
        self.hipify_place = observed.asked.get("hipify", "")
        self.configured = tuple(map(" ".join, observed.configured))  # the calls of cmake

    @cached_property
    def built(self) -> tuple[Extension, ...]:
        """The libraries that the build links."""
        return tuple(
            one._replace(compiles=tuple(map(self.compile, one.compiles)), images=read_command_images(one.compiles))
            for one in self.observed.libraries
        )

    def compile(self, command: Compile) -> Compile:
        """Return a command whose source is named as in the tree; for code that Cython writes, its `.pyx`."""
        name = posixpath.normpath(posixpath.join(self.folder, command.source))
        cython = [str(PurePosixPath(name).with_suffix(ending)) for ending in (".pyx", ".py")]
        names = (*cython, name) if name in self.observed.generated else (name, *cython)  # Cython may have written it
        return command._replace(source=next(filter(None, map(self.includes.find, names)), name))

    @cached_property
    def compiles(self) -> tuple[Compile, ...]:
        """Every call of a compiler, with its source as it is named in the tree."""
        return tuple(map(self.compile, self.observed.kept_commands))

    @cached_property
    def sources(self) -> list[str]:
        """Every file that another build system may compile, of the source or written by the build."""
        return select_sources((*self.includes.tree.files, *self.observed.generated), (), ())

    @cached_property
    def extensions(self) -> Extensions:
        """Whether the build compiles anything."""
        observed = self.observed
        is_compiled = observed.libraries or observed.kept_commands or observed.shipped or not observed.is_pure
        return Extensions.SOME if is_compiled else Extensions.NONE

    @cached_property
    def where(self) -> str:
        """The result of the observation, in words."""
        observed = self.observed
        if (other := self.runs_other) and not (other == MAKE and self.built):
            return f"{observed.asked[other] or RAN}: its build runs {other}"
        if self.built:
            first = self.built[0]
            count = sum(len(one.compiles) for one in self.built)
            more = f" and {len(self.built) - 1} more" if len(self.built) > 1 else ""
            files = f"{count} file{'' if count == 1 else 's'}"
            return f"{RAN}: compiles {files} into {first.member.replace(OWN_SUFFIX, '')}{more}{self.hipify_note}"
        if observed.shipped:
            return f"{RAN}: ships {observed.shipped[0]}, which is compiled"
        if observed.kept_commands:
            return f"{RAN}: compiles {observed.kept_commands[0].source}"
        if not observed.is_pure:
            return f"{RAN}: its wheel is for one platform, though nothing is compiled"
        members = len(observed.members)
        return f"{RAN}: compiles nothing; its wheel has {members} file{'' if members == 1 else 's'}"

    @property
    def hipify_note(self) -> str:
        """The note about sources that torch translates for ROCm, or ""."""
        written = self.observed.generated
        of_cuda = [one.source for one in self.compiles if one.source.endswith(".cu") or one.source in written]
        return f", {of_cuda[0]} translated by hipify ({self.hipify_place})" if self.hipify_place and of_cuda else ""

    @property
    def pure_tag(self) -> str:
        """The interpreter tag of a wheel that binds to no Python ABI."""
        tag = self.observed.tag
        return tag.removesuffix("-none") if re.fullmatch(r"py[\w.]+-none", tag) else PURE_TAG

    @cached_property
    def python_api(self) -> PythonApi:
        """The Python API that the wheel's tag declares, and what contradicts the tag."""
        return judge_tag(self)

    def find_loader(self, member: str) -> Loader | None:
        """Return what loads a library by a pattern of its file name, if anything does."""
        return next((loader for loader in self.loaders if loader.takes(member)), None)

    @cached_property
    def loaders(self) -> tuple[Loader, ...]:
        """The places where the package loads libraries by a pattern of their file names."""
        return find_loaders(self.includes.tree, self.observed.members)

    @cached_property
    def spared(self) -> tuple[Spared, ...]:
        """The libraries of torch's stable ABI that the package does without where they cannot be loaded."""
        found = []
        for library in self.built:
            abi = abi_of_commands(self.includes, library.compiles)
            loader = self.find_loader(library.member)
            if loader and loader.is_tolerant and abi.target:
                found.append(Spared(library.member, abi.target, str(loader.place)))
        return tuple(found)

    @cached_property
    def torch_abi(self) -> TorchAbi:
        """The torch ABI that the compiled files need."""
        if self.observed.shipped:
            where = f"{self.observed.shipped[0]} is compiled already"
            return TorchAbi(Binding.UNKNOWN, where, uses_torch="torch" in self.observed.imports)
        is_unseen = self.runs_other or not all(one.compiles for one in self.built)  # from a copy of the source
        found = self.torch_abi_of_files() if is_unseen else abi_of_commands(self.includes, self.compiles)
        is_used = found.uses_torch or (found.kind is Binding.UNKNOWN and "torch" in self.observed.imports)
        return found._replace(uses_torch=is_used)

    def torch_abi_of_files(self) -> TorchAbi:
        """Return the torch ABI that the files of the source need, all of which another build system may compile."""
        found = torch_abi(self.includes, self.sources, self.folder)
        if found.kind is Binding.NONE and (place := self.observed.imports.get("torch")) is not None:
            where = f"{place or RAN}: it imports torch, but no file includes one of its headers"
            return TorchAbi(Binding.UNKNOWN, where, uses_torch=True)
        return found

    @cached_property
    def recipe(self) -> str:
        """A hash of everything that the build does."""
        seen = self.observed
        parts = (seen.tag, seen.is_pure, seen.members, seen.shipped, seen.metadata, self.built, seen.kept_commands)
        return hashlib.sha256(repr((*parts, self.configured, self.written)).encode()).hexdigest()

    @cached_property
    def written(self) -> tuple[str, ...]:
        """The sources that the build writes or changes, by name and hash, without copies of others.

        Their folders are left out: a build folder is named for the Python that builds, another on each host.
        """
        written = {(PurePosixPath(name).name, text) for name, text in self.observed.generated.items()}
        names, tree = {name for name, _ in written}, self.includes.tree
        own = {(last, tree.text(name)) for name in tree.files if (last := name.rpartition("/")[2]) in names}
        return tuple(
            f"{name} sha256={hashlib.sha256(text.encode()).hexdigest()}" for name, text in sorted(written - own)
        )


def find_arch_warnings(built: Iterable[Extension], view: View) -> Iterator[str]:
    """Yield warnings about requested architectures that the project does not build, and others that it does."""
    asked = list(list_request_archs(view))
    with_device_code = [one for one in built if one.images != ()]
    unknown = [one.member for one in with_device_code if one.images is None]
    if unknown and asked:
        yield f"{RAN}: its compiler decides which architectures {unknown[0].replace(OWN_SUFFIX, '')} is for"
    exact = {*view.kind.images(asked)} if view.kind else set()
    found = {image for one in with_device_code for image in one.images or ()}
    # A GPU of 9.0 runs what is compiled for 9.0a.
    plain = {image.rstrip("af") for image in found - exact} & exact
    served = {image for image in found if image.rstrip("af") not in plain} | plain
    missing = [arch for arch in asked if not unknown and served and not served >= {*list_images(view.kind, [arch])}]
    chooses = f"the project chooses {' '.join(sorted(found))}"
    if missing:
        yield f"{RAN}: no library is for {' '.join(missing)}, which the request names: {chooses}"
    elif asked and view.kind and not served <= exact:
        yield f"{RAN}: it compiles for more than the request names, which takes longer: {chooses}"


def warn_of_unknown_archs(built: Iterable[Extension], view: View, catalog: Catalog) -> Iterator[str]:
    """Yield a warning about architectures that the project compiles for, and the cell's nvcc does not."""
    version = view.accelerator.version if view.accelerator and view.kind == CUDA else None
    images = {image for one in built for image in one.images or ()}
    lacking = {release: one.list_unknown(images) for release, one in catalog.cuda.items()}
    if version and (unknown := lacking.get(version)):
        able = max((release for release, lacks in lacking.items() if not lacks), default=None)
        expected = f', expected `cuda: ["{able}"]`' if able else ""
        yield f"{RAN}: it compiles for {' '.join(unknown)}, which nvcc of CUDA {version} refuses{expected}"


def find_own_archs(built: Iterable[Extension], view: View) -> tuple[str, ...]:
    """Return the architectures that all libraries with device code are for, where those are not the request's."""
    wanted = list_images(view.kind, [*list_request_archs(view)])
    kinds = {one.images and frozenset(one.images) for one in built if one.images != ()}
    images = kinds.pop() if len(kinds) == 1 else None
    return CUDA.name_archs(images) if images and wanted and images != wanted else ()
