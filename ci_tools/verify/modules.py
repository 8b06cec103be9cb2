"""The modules that a wheel installs, what to do about a missing one, and whether a package does without a library.

A loader that passes over what it cannot load hides a library that should be loaded. So the others are loaded as well.
"""

from __future__ import annotations

import keyword
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from ci_tools.catalog.providers import distribution_of
from ci_tools.formats.wheel import Wheel, open_wheel
from ci_tools.machine.process import run, tail
from ci_tools.machine.workplace import scratch

# Packages beside the real one, which wheels should not have and often do.
BESIDE = frozenset(
    {"benchmarks", "build", "conftest", "docs", "examples", "scripts", "setup", "test", "tests", "tools"}
)
PACKAGE = re.compile(r"__init__(\.py|\.[\w.-]*(so|pyd))$")
LIBRARY = re.compile(r"((?:\w+/)*(\w+))(\.[\w-]+)?\.(so|pyd)$")
ELSEWHERE = re.compile(r"[^/]+\.data/(purelib|platlib)/")  # PEP 427: its files go to the root as well
# In an error's words, and in those of `python -m`.
MISSING = re.compile(r"(?:ModuleNotFoundError|python[\w.]*): No module named '?([\w.]+)")
# The standard library had them: PEP 594, and what Python 3.12 removed.
REMOVED = frozenset(
    "aifc asynchat asyncore audioop cgi cgitb chunk crypt imghdr imp lib2to3 mailcap msilib nis nntplib ossaudiodev "  # noqa: SIM905 - as words they fit on a page
    "pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib".split()
)
# Libraries that only a driver brings, and torch's own, which `import torch` loads.
OF_DRIVER = re.compile(r"\b(libcuda\.so\.1|libnvidia-ml\.so\.1|nvcuda\.dll|libamdhip64\.so\S*|libze_loader\.so\.1): ")
OF_ACCELERATOR = re.compile(
    r"\blib((c10|torch)_(?P<kind>cuda|hip|xpu)\w*\.so|cudart\.so\.(?P<cuda>\d+)\S*): cannot open shared object file"
)
OF_TORCH = re.compile(r"\b(libc10|libtorch)\w*\.so: cannot open shared object file")
UNLOADABLE = b"no library: as good as one for a newer torch\n"
SECONDS = 600  # as long as a validation may take by default
# The loader of the system resolves every symbol at once (RTLD_NOW), those of torch from the torch that is imported.
LOAD = "import ctypes, sys, torch; [ctypes.CDLL(name) for name in sys.argv[1:]]"
UNRESOLVED = re.compile(r"([^/\s]+\.so): undefined symbol: (\S+)")


def own_imports(wheel: Path) -> tuple[str, ...]:
    """Return the packages and modules at the root of a wheel, and the packages of a namespace without an `__init__`.

    Those of a namespace, tests, examples and private modules count only where there is nothing else.
    """
    found = open_wheel(wheel)
    with found.archive:
        modules = {module for module in _modules(found) if all(map(_is_name, module.split(".")))}
    public = {module for module in modules if module.partition(".")[0] not in BESIDE and not module.startswith("_")}
    return tuple(sorted({module for module in public if "." not in module} or public or modules))


def _is_name(part: str) -> bool:
    return part.isidentifier() and not keyword.iskeyword(part)


def _modules(wheel: Wheel) -> Iterator[str]:
    """Yield a wheel's topmost packages, modules at its root, and libraries with an init function outside of them."""
    paths = {ELSEWHERE.sub("", info.filename): info for info in wheel.infos}
    folders = {path.rpartition("/")[0] for path in paths if PACKAGE.fullmatch(path.rpartition("/")[2])}
    within = tuple(f"{folder}/" for folder in folders - {""})
    yield from (folder.replace("/", ".") for folder in folders - {""} if not folder.startswith(within))
    for path, info in paths.items():
        library = None if path.startswith(within) else LIBRARY.fullmatch(path)
        if library and f"PyInit_{library[2]}".encode() in b"".join(wheel.chunks(info)):
            yield library[1].replace("/", ".")
        elif "/" not in path and path.endswith(".py"):
            yield path.removesuffix(".py")


def explain_missing(said: str, own: Collection[str], project: str) -> str:
    """Return what to write for the module that a trial did not find, or ""; `own` are the wheel's own modules."""
    found = MISSING.findall(said)
    if not found:
        return ""
    top = found[-1].partition(".")[0]  # the last error is the one that ended it
    if top in {module.partition(".")[0] for module in own} or canonicalize_name(top) == canonicalize_name(project):
        return f"the wheel has no module {found[-1]}"
    name = distribution_of(top)
    if name == top and top in sys.stdlib_module_names | REMOVED:
        return f"the standard library of this Python has no module {top}"
    scalar = f'"{name}"' if "<" in name else name
    return (
        f"nothing that the wheel requires brings the module {top}: `validate: {{requires: [{scalar}]}}` "
        f"installs {name} beside it, and the project's dependencies do for its users"
    )


def needs_driver(said: str) -> str:
    """Return the driver's library without which an import failed; "" if it failed for another reason."""
    found = OF_DRIVER.search(said)
    return found[1] if found else ""


def needs_torch(said: str) -> bool:
    """Whether an import failed for a library of torch, which is loaded by `import torch`."""
    return bool(OF_TORCH.search(said))


def needs_accelerator(said: str) -> tuple[str, str]:
    """Return the accelerator of torch whose libraries an import lacked, as torch.version names it, and its release.

    Both are "" if it failed for another reason; the release is, where no library names it.
    """
    found = OF_ACCELERATOR.search(said)
    return (found["kind"] or "cuda", found["cuda"] or "") if found else ("", "")


def explain_failed_import(
    wheel: Path, spared: Collection[str], python: Path, variables: Mapping[str, str], log: Path
) -> str:
    """Return why the wheel's packages cannot be imported without the spared libraries; "" if they can.

    `python` is an interpreter with everything that the packages import besides, above all torch.
    """
    with scratch() as folder:
        found = open_wheel(wheel)
        with found.archive:
            found.archive.extractall(folder)
            libraries = {info.filename.partition(".")[0].replace("/", ".") for info in found.libraries}
        for member in spared:
            (folder / member).write_bytes(UNLOADABLE)
        for module in (module for module in own_imports(wheel) if module not in libraries):
            command: list[str | Path] = [python, "-c", f"import {module}"]
            env = {**variables, "PYTHONPATH": os.fspath(folder)}
            ended = run(command, log=log, cwd=folder, env=env, timeout=SECONDS)
            if ended.status:
                return f"`import {module}` fails without {', '.join(spared)}: {tail(log, 1, ended.start)}"
    return ""


def explain_failed_load(
    wheel: Path, spared: Collection[str], python: Path, variables: Mapping[str, str], log: Path
) -> str | None:
    """Return which symbol a library of the wheel lacks with the torch of an interpreter; "" if all of them load.

    Those that the package does without are left out. None if the machine lacks something else, such as CUDA's own.
    """
    with scratch() as folder:
        found = open_wheel(wheel)
        with found.archive:
            found.archive.extractall(folder)
            names = [info.filename for info in found.libraries if info.filename not in spared]
        command: list[str | Path] = [python, "-c", LOAD, *(folder / name for name in names)]
        ended = run(command, log=log, cwd=folder, env=variables, timeout=SECONDS)
        if not ended.status:
            return ""
        lacking = UNRESOLVED.search(tail(log, 1, ended.start))
        return f"{lacking[1]} cannot be loaded with that torch: it has no {lacking[2]}" if lacking else None
