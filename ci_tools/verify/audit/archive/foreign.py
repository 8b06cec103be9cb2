"""Rules about other projects: copies of their libraries, and files in their packages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from packaging.utils import canonicalize_name

from ci_tools import catalog
from ci_tools.model.files import Level
from ci_tools.verify.audit.metadata.entry_points import SCRIPTS, read_entry_points
from ci_tools.verify.audit.metadata.labels import requirements
from ci_tools.verify.audit.subject import DATA, Flaw, Subject, abbreviate

# Hashes that repair tools add to a name: auditwheel `libcudart-0123abcd.so.13`, torchvision's
# `libcudart.0123abcd.so.13`, delvewheel `cudart64_13-` and 32 digits.
HASH = re.compile(r"[-.](?=[0-9a-f]*\d)[0-9a-f]{8,64}(?=\.(?:so|dll|dylib)\b)")
TORCH = re.compile(
    r"(?:lib)?(?:torch(?:_cpu|_cuda(?:_linalg|_cpp|_cu)?|_hip|_xpu|_python|_global_deps|_nvshmem)?|c10(?:_cuda|_hip|_xpu)?"
    r"|caffe2\w*|shm)\.(?:dll|dylib|so(?:\.\d+)*)"
)
OF_EVERY_PROCESS = re.compile(
    r"lib(?:c|m|dl|pthread|rt)\.so\.\d+|ld-linux[\w-]*\.so\.\d+|libpython3[\w.]*\.(?:so|dylib)[\d.]*"
)
DRIVER = re.compile(r"lib(?:cuda|nvidia-ml)\.so(?:\.\d+)*|nvcuda\.dll|nvml\.dll")
CUDA_ON_WINDOWS = re.compile(r"(?:cu(?:dart|blas|blasLt|dnn|fft|rand|solver|sparse)|nv(?:rtc|JitLink))\w*64\w*\.dll")
BRINGS_RUNTIMES = re.compile(r"torch|nvidia-.+|cuda-toolkit|rocm(?:-sdk)?(?:-.+)?|intel-(?:sycl|cmplr)-.+|dpcpp-cpp-rt")
# Top-level packages in every environment with torch, with the projects that own them.
OWNERS = {
    **dict.fromkeys(("torch", "torchgen", "functorch"), "torch"),
    **dict.fromkeys(("pip", "setuptools", "packaging", "wheel", "numpy", "triton"), ""),
    **dict.fromkeys(("pkg_resources", "_distutils_hack"), "setuptools"),
}

# Where the files of the scheme `data` get into site-packages as well, and what an environment has itself.
THROUGH_DATA = re.compile(r"^[^/]+\.data/data/(?:lib(?:64)?/python[\d.]+t?|Lib)/site-packages/")
OF_ENVIRONMENT = re.compile(
    r"^[^/]+\.data/(?:data/(?:pyvenv\.cfg$|(?:bin|Scripts)/)|scripts/)"
    r"(?:(?:python|pip|pypy)w?[\d.]*(?:\.exe)?|[Aa]ctivate[\w.]*|deactivate\.bat)?$"
)
COMMAND = re.compile(r"(?:python|pip|pypy)w?[\d.]*")


def bundled(subject: Subject) -> Iterator[Flaw]:
    """No library of the wheel is a copy of one that torch, the driver or a package it requires brings.

    An error: two copies of torch in one process register every operator twice, and the driver's library must match the
    machine's kernel module. The runtimes of CUDA, ROCm and oneAPI count as such copies if the wheel requires torch or
    the packages that install them: the copy that is loaded first serves both, and the versions may differ. A wheel that
    requires neither may contain its own copy. Repair tools copy libraries by default; `--exclude` prevents it.
    """
    own = subject.wheel.named[0] if subject.wheel.named else ""
    required = {canonicalize_name(one.name) for one in requirements(subject.wheel)}
    are_brought = subject.job is not None or any(map(BRINGS_RUNTIMES.fullmatch, required))
    for member in subject.members:
        name = HASH.sub("", member.base)
        is_runtime = are_brought and not BRINGS_RUNTIMES.fullmatch(own) and _is_runtime(name)
        is_torch = bool(TORCH.fullmatch(name)) and own != "torch"
        if member.format and OF_EVERY_PROCESS.fullmatch(name):
            message = f"{member.name} is a copy of what every Python has loaded"
            yield Flaw(message, member.base, "no such library", Level.WARNING)
        if member.format and (is_torch or is_runtime or DRIVER.fullmatch(name)):
            whose = "torch" if TORCH.fullmatch(name) else "the driver" if DRIVER.fullmatch(name) else "another package"
            yield Flaw(f"{member.name} is a copy of what {whose} brings", member.base, "no such library")


def _is_runtime(name: str) -> bool:
    patterns = [one for one in catalog.load().brought if not one.startswith(("libtorch", "libc10", "libshm"))]
    spelled = (name, f"{name}.")  # `lib.so.*` is to fit `lib.so`, too
    is_known = any(fnmatchcase(each, pattern) for pattern in patterns for each in spelled)
    return is_known or CUDA_ON_WINDOWS.fullmatch(name) is not None


def overwritten(subject: Subject) -> Iterator[Flaw]:
    """Members stay out of the top-level packages of other projects.

    An error within torch's packages, and for the `__init__.py` of a package of another project: one that the wheel
    requires, or that installers and torch need. The project that is installed last wins, and removing one breaks the
    other. Any other file in a package of a required project is a warning, since some projects allow others to add
    files.
    """
    own = canonicalize_name(subject.wheel.named[0]) if subject.wheel.named else ""
    required = {canonicalize_name(one.name) for one in requirements(subject.wheel)}
    tops: dict[str, list[str]] = {}
    for member in subject.members:
        name = THROUGH_DATA.sub("", DATA.sub("", member.name))
        tops.setdefault(name.partition("/")[0].removesuffix(".py"), []).append(name)
        if OF_ENVIRONMENT.search(member.name) and not member.name.endswith("/scripts/"):  # the folder itself
            yield Flaw(f"{member.name} takes the place of a file of the environment", member.base, "another name")
    points = read_entry_points(subject.wheel)
    for name in (name for section in SCRIPTS for name in points.get(section, {}) if COMMAND.fullmatch(name.lower())):
        if own not in {"pip", "python"}:
            yield Flaw(f"the command {name} takes the place of the environment's own", name, "another name")
    for top, names in tops.items():
        owner = _owner(top, required)
        if owner and owner != own and not (owner == "triton" and owner in own):  # triton has builds under other names
            is_whole = owner == "torch" or f"{top}/__init__.py" in names or f"{top}.py" in names
            level = Level.ERROR if is_whole else Level.WARNING
            yield Flaw(f"{top} belongs to the project {owner}", abbreviate(names), "a package of its own", level)


def _owner(top: str, required: Collection[str]) -> str:
    """Return the project that is known to own a top-level package, or ""."""
    if top in OWNERS:
        return OWNERS[top] or top
    same = canonicalize_name(top)
    return same if same in required else ""
