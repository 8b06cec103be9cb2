"""Platforms and accelerators."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import product
from typing import Any, BinaryIO, ClassVar, NamedTuple, Protocol

from ci_tools.errors import nearest
from ci_tools.model.names import Name
from ci_tools.model.versions import Minor, Python


class Platform(Name):
    """The platforms that a request can name: those that the code knows, and those of an accelerator's own table."""

    LINUX_CUDA = "linux-cuda"
    LINUX_CUDA_AARCH64 = "linux-cuda-aarch64"
    LINUX_ROCM = "linux-rocm"
    LINUX_XPU = "linux-xpu"
    LINUX_CPU = "linux-cpu"
    LINUX_AARCH64 = "linux-aarch64"
    MACOS_ARM64 = "macos-arm64"
    WINDOWS = "windows"
    WINDOWS_CUDA = "windows-cuda"

    @classmethod
    def add(cls, name: str) -> Platform:
        """Return the platform of that name, which is a member from then on: `Platform(name)` finds it."""
        if name not in cls._value2member_map_:
            member = str.__new__(cls, name)
            member._name_, member._value_ = name, name
            cls._value2member_map_[name] = cls._member_map_[name] = member
            cls._member_names_.append(name)
        return cls(name)


class StackRelease(Protocol):
    """One release of an accelerator's software, as its table in the catalog has it."""

    @property
    def version(self) -> Minor:
        """Its minor version."""

    @property
    def architectures(self) -> frozenset[str]:
        """The targets that its compiler knows; empty if it knows them all."""


class AcceleratorKind(str):
    """A vendor's software stack that wheels are compiled for: its name, and the answer to all that differs by it.

    Each is a value in a module of its own in `ci_tools/catalog/accelerators`. The defaults here are those
    of a simple one: it has versions, its compiler is installed on the machine, and an architecture is its own image.
    """

    __slots__ = ()
    known: ClassVar[dict[str, AcceleratorKind]] = {}  # all that there are, by name
    named: ClassVar[str]  # as people write it
    named_in_finder: ClassVar[str] = ""  # where that says too little to somebody who looks for a wheel
    label_start: ClassVar[str] = ""  # the start of a label, if it is not the name
    stack: ClassVar[str]  # the software that has its versions, as people write it
    # -- the config and the catalog
    is_versioned: ClassVar[bool] = True  # whether a request names its versions; else the torch decides on the stack
    is_on_index: ClassVar[bool] = False  # whether the package index itself has torch for it
    has_gpus_in_ci: ClassVar[bool] = False  # whether a trial on a GPU can be required without naming a runner
    arch_form: ClassVar[str]  # of one of `archs` in a config, a regular expression
    arch_told: ClassVar[str]  # such as: an architecture such as "9.0"
    archs_told: ClassVar[str] = "the GPU architectures of the wheel"
    more_keys: ClassVar[Mapping[str, Any]] = {}  # JSON Schema of what else a config says of its platforms
    required: ClassVar[tuple[str, ...]] = ()  # the keys that a config must have
    unfetched: ClassVar[str] = ""  # why a config cannot ask for a fetched compiler, where it is known
    row: ClassVar[Mapping[str, Any]] = {}  # JSON Schema of a release in its table; {}: a version and its `archs`
    row_required: ClassVar[tuple[str, ...]] = ("archs",)  # the keys of a release once all rows are merged
    shipped: ClassVar[Mapping[str, Any]] = {}  # JSON Schema of its key in the row of a torch; {}: versions by machine
    table: ClassVar[str] = ""  # the table itself, as TOML; "" for the file of its name in `ci_tools/catalog`
    # -- the source, and the request that `fatwheel init` writes
    sources: ClassVar[str]  # its sources' names, a regular expression
    mentions: ClassVar[str] = "(?!)"  # the words of a build script that compiles for it, a regular expression
    kernels: ClassVar[str] = "(?!)"  # the endings of its kernels' names, a regular expression
    includes: ClassVar[str] = ""  # what such a file has in it, if its name is not among `sources`
    own_headers: ClassVar[str] = ""  # includes of what no other compiler has, a regular expression
    file_words: ClassVar[str] = ""  # the words of build files that speak of it, if they are not `switches`
    usual_archs: ClassVar[tuple[str, ...]] = ()
    # -- the build
    arch_list: ClassVar[tuple[str, str]]  # the variable by which torch's builds take the GPUs, and what separates them
    homes: ClassVar[tuple[str, ...]]  # the variables that name its compiler's folder; a build gets the first
    places: ClassVar[tuple[str, ...]] = ()  # patterns of folders where it may be installed; `$NAME/` is a variable
    places_told: ClassVar[str] = ""  # the same for people; {version} is the one that is asked for
    compiler: ClassVar[str]  # its program, in `bin` of that folder
    said: ClassVar[str]  # the version in the compiler's answer, a regular expression with two groups
    tools: ClassVar[Mapping[str, str]]  # its programs, and what each of an imagined machine says of {version}
    is_asked_unversioned: ClassVar[bool] = True  # whether a build for no version finds its programs, too
    hides: ClassVar[tuple[str, ...]] = ()  # other programs that a build for something else must not find
    needs_whole_torch: ClassVar[bool] = False  # whether torch's headers are not enough: it translates the sources
    has_parts: ClassVar[bool] = False  # whether the parts of torch that compiling needs are known to be enough
    torch_mib: ClassVar[int] = 1024  # of an installed torch for it, at least
    has_symbols: ClassVar[bool] = False  # whether the tables have the symbols of torch's builds for it
    # -- the imagined machine, and the audit
    has_known_flags: ClassVar[bool] = False  # whether `observe.images` reads what its compiler's flags ask for
    switches: ClassVar[str]  # words in the name of a switch that stands for this hardware, a regular expression
    torch_versions: ClassVar[tuple[str, ...]] = ()  # the names in torch.version that only a torch for it has a value of
    loose: ClassVar[tuple[str, ...]] = ()  # endings of files of device code, often for one architecture each

    @property
    def keys(self) -> dict[str, Any]:
        """JSON Schema of what the tables of its platforms have in a config, beside the keys of every platform."""
        many = {"type": "array", "minItems": 1, "uniqueItems": True}
        minors = {**many, "items": {"$ref": "#/$defs/minor"}, "description": f"the {self.named} versions to serve"}
        one = {"type": "string", "pattern": self.arch_form, "description": self.arch_told}
        archs = {"archs": {**many, "items": one, "description": self.archs_told}}
        return {**({str(self): minors} if self.is_versioned else {}), **archs, **self.more_keys}

    def label(self, version: Minor | None) -> str:
        """Return the label in local versions, in index folders and on torch's index: `rocm7.1`."""
        return f"{self}{version or ''}"

    def read_label(self, label: str) -> Minor | None:
        """Return the version in a label, None for one without; raise ValueError if it is another accelerator's."""
        if not label.startswith(self):
            raise ValueError(label)
        return Minor.parse(label.removeprefix(self)) if label != self else None

    def read_release(self, table: Mapping[str, Any]) -> StackRelease:
        """Return one release of its table."""
        return PlainRelease(Minor.parse(table["version"]), frozenset(table["archs"]))

    def read_shipped(self, table: Mapping[str, Any]) -> dict[str, frozenset[Minor | None]]:
        """Return the versions that upstream ships a torch for, by machine, from its key in the row of a torch."""
        return {host: frozenset(map(Minor.parse, versions)) for host, versions in table.items()}

    def parse_arch(self, text: str) -> str:
        """Return an architecture as requests spell it; raise ValueError for anything else."""
        if not re.fullmatch(self.arch_form, text):
            raise ValueError(f'"{text}" is not {self.arch_told}')
        return text

    def name_target(self, arch: str) -> str:
        """Return the part of an architecture that a release of its compiler has to know."""
        return arch

    def find_arch_mistakes(self, archs: Sequence[str], releases: Sequence[Any]) -> Iterator[tuple[int, str]]:
        """Yield the number of each requested architecture that is wrong, and why; `releases` are those requested."""
        for (number, arch), one in product(enumerate(map(self.name_target, archs)), releases):
            if arch not in one.architectures:
                what = f'{self.compiler} of {self.named} {one.version} does not know the architecture "{arch}"'
                yield number, f"{what}, {nearest(arch, one.architectures)}"

    def choose_archs(self, releases: Sequence[Any]) -> tuple[str, ...]:
        """Return the architectures of a request that names none."""
        return ()

    def choose_usual_archs(self, release: StackRelease) -> tuple[str, ...]:
        """Return those of the usual architectures that a release knows."""
        return tuple(arch for arch in self.usual_archs if self.name_target(arch) in release.architectures)

    def name_archs(self, images: AbstractSet[str]) -> tuple[str, ...]:
        """Return the architectures by which a request names exactly these images; nothing if it cannot."""
        return tuple(sorted(images))

    def name_archs_for_torch(self, archs: Sequence[str]) -> dict[str, str]:
        """Return the variable that names the GPUs to a build."""
        return {self.arch_list[0]: self.arch_list[1].join(archs)} if archs else {}

    def serves(self, found: Minor, wanted: Minor | None, known: Mapping[Minor, Any]) -> bool:
        """Whether a compiler serves where a version of the stack is wanted; None: which one is not known."""
        return found == wanted

    def explain_need(self, torch: str, wanted: Minor | None, known: Mapping[Minor, Any]) -> str:
        """Return what a machine without such a compiler would have to have."""
        return ""

    def variables(self, version: Minor | None) -> Mapping[str, str]:
        """Return variables that fix what a compiler would otherwise choose by the machine."""
        return {}

    def files(self, version: Minor | None) -> Mapping[str, str]:
        """Return the text files in its folder that say its version, which a build may read."""
        return {}

    def name_torch_version(self, version: Minor | None, stack: str) -> str:
        """Return the value of its names in torch.version; "" if the request does not say it."""
        return str(version or "")

    def capability(self, arch: str) -> str:
        """Return what torch reports as the device capability of such a GPU."""
        return "9.0"

    def images(self, archs: Sequence[str]) -> tuple[str, ...]:
        """Return the device images of a library that is compiled for all of the architectures."""
        return tuple(archs)

    def find_images(self, library: BinaryIO) -> frozenset[str]:
        """Return the images in a file in a format that `formats/binaries/fatbinary.py` does not know."""
        return frozenset()

    def name_images(self, found: AbstractSet[str], asked: AbstractSet[str]) -> set[str]:
        """Return the images of a library in the words of a request."""
        return {*found}

    def runs(self, image: str, arch: str) -> bool:
        """Whether a GPU of an architecture runs an image."""
        return image == arch


class PlainRelease(NamedTuple):
    """One release of a stack of which nothing but the architectures matters."""

    version: Minor
    architectures: frozenset[str]


class Accelerator(NamedTuple):
    """An accelerator's software stack and its version, where the stack has one."""

    kind: AcceleratorKind
    version: Minor | None = None

    @property
    def label(self) -> str:
        """The label in local versions and index folders: `cu130`, `rocm7.1`, `xpu`."""
        return self.kind.label(self.version)


def name_archs_for_torch(accelerator: Accelerator | None, archs: Sequence[str]) -> dict[str, str]:
    """Return the variable that names the GPUs to a build."""
    return accelerator.kind.name_archs_for_torch(archs) if accelerator else {}


class Cell(NamedTuple):
    """One combination that a request asks for."""

    platform: Platform
    accelerator: Accelerator | None
    torch: Minor | None
    python: Python

    def __str__(self) -> str:
        """Return `linux-cuda / cu130 / torch2.10 / cp312`."""
        accelerator = f" / {self.accelerator.label}" if self.accelerator else ""
        torch = f" / torch{self.torch}" if self.torch else ""
        return f"{self.platform}{accelerator}{torch} / {self.python.abi_tag}"
