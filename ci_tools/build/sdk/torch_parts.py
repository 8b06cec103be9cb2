"""The build torch: the parts of one build of torch that compiling an extension needs, as an importable package.

From its own wheel come the headers, the CMake files, and the Python files that builds run: `torch.utils.cpp_extension`
and what that imports. The other modules answer what builds ask, as that build of torch does on a machine without a
GPU: they are the same files that answer when a setup.py is observed (`ci_tools.observe.inside.fakes.torch`),
with other facts. Instead of its libraries there are stand-ins for the linker. None of it depends on the Python.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.requirements import Requirement

from ci_tools.build.sdk.cuda_windows import WINDOWS
from ci_tools.build.sdk.link_stubs import exports_of, is_data, make_stub
from ci_tools.catalog.symbols import records, tables
from ci_tools.errors import InputError
from ci_tools.formats.wheel import read_headers
from ci_tools.machine.context import Outside
from ci_tools.model.versions import Minor
from ci_tools.observe.inside import fakes

if TYPE_CHECKING:
    from ci_tools.build.sdk.offers import Parts

CPU = "cpu"
SITE, SAID = "site", "said.json"
WANTED = re.compile(
    r"torch/(include/|share/cmake/|_vendor/.*\.py$|utils/hipify/.*\.py$"
    r"|(version|torch_version|_appdirs|utils/(cpp_extension|_cpp_extension_versioner|file_baton))\.py$"
    r"|lib/\w+\.lib$)"  # import libraries: Windows links with them, and needs no stand-ins
)
LIBRARY = re.compile(r"torch/lib/(lib\w+\.so)")
LIBRARIES_OF_CUDA = frozenset({"libc10_cuda.so", "libtorch_cuda.so"})  # a CUDAExtension links with them
READ = ("libc10.so", "libc10_cuda.so", "libtorch_python.so")  # small enough to read their symbols
ANSWERS = Path(fakes.__file__).parent / "torch"
INSIDE = Path(__file__).parent / "inside"
# Our own modules in place of some that need torch's libraries, by their place in the package.
OWN = {"_fatwheel.py": "_fatwheel.py", "_filelock.py": "utils/_filelock.py", "_utils_internal.py": "_utils_internal.py"}
THEIR_FACTS = "from ci_tools.observe.inside.facts import FACTS"
OUR_FACTS = "from torch._fatwheel import FACTS"
# As the finder of the fakes gives it to those without one.
LATE = f"\n{OUR_FACTS}\n\n\ndef __getattr__(name):\n    return FACTS.unknown(f'{{__name__}}.{{name}}')\n"
# What torch.utils.cpp_extension imports; the other requirements of torch are for computing.
REQUIRED = frozenset({"setuptools", "typing-extensions"})
CONSTANT = re.compile(r"^(\w+)(?::[^=\n]+)? = '([^'\n]*)'$", re.MULTILINE)
# How pybind11 names what its modules share (PYBIND11_INTERNALS_ID) up to torch 2.8: by compiler, library and ABI.
INTERNALS = re.compile(rb"__pybind11_internals_v\d+(_[a-z]+)?(_lib[a-z]+)?(_cxxabi\d+)")


class TorchParts(NamedTuple):
    """A build torch on this machine."""

    site: Path  # the folder that holds `torch` and its dist-info
    version: str  # with the local part: 2.13.0+cu130
    label: str  # cpu, cu130
    wheel: str
    record: str  # the sha256 of the wheel's RECORD
    pythons: tuple[str, ...]  # cp311, cp313t: those that upstream has this torch for
    requires: tuple[str, ...]
    fetched: int  # bytes
    requests: int


def label_of(version_file: bytes) -> tuple[str, str]:
    """Return a torch's version with its local part, and the label of its accelerator, from its version.py.

    Raises InputError if the file states no version.
    """
    text = version_file.decode("utf-8").replace("\r\n", "\n")  # as the wheels for Windows have it
    said = dict(CONSTANT.findall(text))
    version = said.get("__version__", "")
    if not version:
        raise InputError(f"torch/version.py states no version: {text[:200]!r}")
    return version, name_accelerator(said, version.partition("+")[2]) or CPU


def name_accelerator(said: Mapping[str, str], local: str) -> str:
    """Return the label of the accelerator that a torch's version.py states, of a known local version; "" if none is."""
    if cuda := said.get("cuda"):
        return f"cu{''.join(cuda.split('.')[:2])}"  # 13.0.2, say, is cu130
    if hip := said.get("hip"):
        return local if local.startswith("rocm") else f"rocm{'.'.join(hip.split('.')[:2])}"
    return "xpu" if said.get("xpu") else ""


def make_torch(parts: Parts, pythons: Iterable[str], folder: Path, outside: Outside) -> None:
    """Fetch the parts of a wheel into `folder` and complete them to a build torch.

    Raises InputError if they are not what RECORD says, or RECORD is not what the catalog says of a known wheel.
    """
    site = folder / SITE
    libraries = [name for name in parts.names if LIBRARY.fullmatch(name)]
    read = [name for name in libraries if name.rpartition("/")[2] in READ]
    with outside.reporter.step(f"fetch the build parts of {parts.offer.file}") as step:
        content = parts.read("torch/version.py")  # first: the wheel may not be the one that the catalog knows
        refuse_record(parts, outside)
        parts.copy([*filter(WANTED.match, parts.names), *read], site, step.progress if parts.remote else None)
        requires = _write_metadata(parts, site)
        fetched = f"{parts.fetched / 1e6:.1f} MB in {parts.requests} requests"
        step.result(fetched if parts.requests else "read from this machine")
    version, label = label_of(content)
    log = outside.cache / "logs" / f"torch-{version}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    facts = _facts_of(site, version, label, outside.host) | {"modules": sorted(_modules_of(parts.names))}
    _write_answers(site / "torch", facts)
    if outside.host != WINDOWS:
        write_stubs(site / "torch/lib", [name.rpartition("/")[2] for name in libraries], version, log)
    said = TorchParts(
        Path(),
        version,
        label,
        parts.offer.file,
        parts.record_sha256,
        tuple(sorted(pythons)),
        requires,
        parts.fetched,
        parts.requests,
    )
    (folder / SAID).write_text(json.dumps({**said._asdict(), "site": ""}, indent=1), encoding="utf-8")


def read_torch(folder: Path) -> TorchParts:
    """Return the build torch in a folder."""
    said = json.loads((folder / SAID).read_text(encoding="utf-8"))
    lists = {name: tuple(said[name]) for name in ("pythons", "requires")}
    return TorchParts(**{**said, **lists, "site": folder / SITE})


def refuse_record(parts: Parts, outside: Outside) -> None:
    """Raise InputError if a wheel of the catalog has another RECORD; say so if only TLS vouches for it."""
    known = records().get(parts.offer.file)
    if known is None:
        how = "this machine's own file" if parts.offer.url.startswith("file:") else "TLS alone"
        outside.reporter.say(f"{parts.offer.file} is not in the catalog: {how} vouches for its RECORD")
    elif known != parts.record_sha256:
        msg = f"{parts.offer.file} has a RECORD with the sha256 {parts.record_sha256}, the catalog says {known}"
        raise InputError(msg, hint="the index has another file under this name: nothing was kept")


def _write_metadata(parts: Parts, site: Path) -> tuple[str, ...]:
    """Write a dist-info that requires only what a build needs, and return its requirements."""
    project, version, *_ = parts.offer.file.split("-")
    info = f"{project}-{version}.dist-info"
    said = read_headers(parts.read(f"{info}/METADATA").decode(errors="replace"), f"{parts.offer.file}: METADATA")
    found = map(Requirement, said.get_all("Requires-Dist") or ())
    requires = tuple(str(one) for one in found if one.name.lower().replace("_", "-") in REQUIRED)
    lines = ["Metadata-Version: 2.1", f"Name: {said['Name']}", f"Version: {said['Version']}"]
    lines += [f"Requires-Dist: {one}" for one in requires]
    (site / info).mkdir()
    (site / info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (site / info / "INSTALLER").write_text("fatwheel\n", encoding="utf-8")
    return requires


def _facts_of(site: Path, version: str, label: str, host: str) -> dict[str, object]:
    """Return the answers of this build: they have the names of the facts that an observation knows."""
    said = dict(CONSTANT.findall((site / "torch/version.py").read_text(encoding="utf-8")))
    config = site / "torch/share/cmake/Torch/TorchConfig.cmake"
    text = config.read_text(encoding="utf-8") if config.is_file() else ""
    binding = site / "torch/lib/libtorch_python.so"
    internals = INTERNALS.search(binding.read_bytes()) if binding.is_file() else None
    parts = [part.decode() if part else None for part in internals.groups()] if internals else []
    return {
        "torch": version,
        "os": host.partition("-")[0],
        "gpu": False,
        "accelerator": {"kind": "cuda" if said.get("cuda") else label, "version": said.get("cuda")},
        "cxx11_abi": host != WINDOWS and "_GLIBCXX_USE_CXX11_ABI=0" not in text,  # Windows has no such ABI
        "pybind11": dict(zip(("COMPILER_TYPE", "STDLIB", "BUILD_ABI"), parts, strict=False)),
    }


def _modules_of(names: Iterable[str]) -> Iterator[str]:
    """Yield the modules of the whole torch, to tell what was not fetched from what torch never had."""
    for name in names:
        if name.endswith((".py", ".so", ".pyd")) and not name.startswith(("torch/include/", "torch/lib/")):
            stem = re.sub(r"(/__init__)?\.(py|[\w-]*\.?(so|pyd))$", "", name)
            yield stem.replace("/", ".")


def _write_answers(package: Path, facts: Mapping[str, object]) -> None:
    """Add the modules that answer for torch, except those that came from the wheel."""
    for source in sorted(ANSWERS.rglob("*.py")):
        path = package / source.relative_to(ANSWERS)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            text = source.read_text(encoding="utf-8").replace(THEIR_FACTS, OUR_FACTS)
            path.write_text(text if "\ndef __getattr__" in text else text + LATE, encoding="utf-8")
    for name, place in OWN.items():
        shutil.copy(INSIDE / name, package / place)
    (package / "_fatwheel.json").write_text(json.dumps(facts), encoding="utf-8")


def write_stubs(folder: Path, libraries: Iterable[str], version: str, log: Path) -> None:
    """Put stand-ins in place of the libraries: with the symbols of those that were fetched, and the catalog's."""
    own = {path.name: exports_of(path) for path in folder.glob("*.so")}
    table = tables()
    minor = Minor.parse(".".join(version.split(".")[:2]))
    shown = max((one for one in table.releases if one <= minor), default=table.releases[0])
    others = {name for symbols in own.values() for name in symbols}
    for library, known in (
        ("libtorch_cpu.so", table.every_build.items() | table.standard.items()),
        ("libtorch_cuda.so", table.cuda_builds.items()),
    ):
        own[library] = {name: is_data(name) for name, found in known if shown in found and name not in others}
    for name in libraries:
        (folder / name).unlink(missing_ok=True)
        make_stub(folder / name, own.get(name, {}), log)
