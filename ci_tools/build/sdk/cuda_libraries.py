"""Fetches the headers of CUDA's libraries from the package index, and makes stand-ins of the libraries to link with.

`cuda-toolkit` pins each library's version in its metadata. A library has hundreds of megabytes, its headers a few.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from ci_tools.build.sdk.cuda_windows import WINDOWS, import_names, write_import_library
from ci_tools.build.sdk.installed import choose_msvc
from ci_tools.build.sdk.link_stubs import make_stub
from ci_tools.build.sdk.offers import Parts, find_offers, open_parts
from ci_tools.errors import MachineError
from ci_tools.formats.wheel import read_headers
from ci_tools.machine.context import Outside
from ci_tools.machine.http.policy import explain_unanswered
from ci_tools.machine.process import clean_environment, complaint, run, start_module
from ci_tools.machine.storage import fill_once
from ci_tools.machine.waits import OF_RUN
from ci_tools.model.versions import parse_version

if TYPE_CHECKING:
    from ci_tools.catalog.providers import CudaPart

PREFIX = re.compile(r"nvidia/(?:cu\d+|[a-z_]+)/")  # of CUDA 13's wheels, and of those before
LIBRARY = re.compile(r"lib/(lib(\w+)\.so)\.\d+")
HOME = "home"
DRIVER = "libcuda.so.1"
ARM_TAGS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")  # pip takes just these


class Overlay(NamedTuple):
    """Headers and stand-ins of libraries, to be copied over a toolkit; and their versions."""

    folder: Path
    identity: str


def fetch_libraries(toolkit: str, parts: Iterable[CudaPart], outside: Outside) -> tuple[Overlay, ...]:
    """Return the libraries of one `cuda-toolkit`, fetched unless the cache has them: then no server is asked.

    Raises MachineError if the package index does not have one, or does not answer.
    """
    pins: dict[str, SpecifierSet] = {}
    made = []
    for part in parts:
        folder = outside.cache / "toolchains" / f"cuda-{toolkit}-{part.project}-{outside.host}"

        def fill(target: Path, part: CudaPart = part) -> None:
            pins.update(pins or _pins(toolkit, outside))  # asked once, and only if a part is missing
            _fetch(part, pins, toolkit, target, outside)

        with explain_unanswered(f"the headers of {part.name} cannot be fetched"):
            filled = fill_once(folder, fill, outside.reporter.say)
        made.append(Overlay(filled / HOME, (filled / "version").read_text(encoding="utf-8")))
    return tuple(made)


def install_wheels(wanted: str, what: str, target: Path, outside: Outside, tags: Iterable[str] = ()) -> Path:
    """Install wheels of NVIDIA's into `target`, those for some platform tags or for this machine; return their folder.

    Raises MachineError, which calls them `what`, if they cannot be fetched.
    """
    log = outside.cache / "logs" / f"{re.sub(r'[^a-z0-9.]+', '-', wanted)}.log"
    platforms = [part for tag in tags for part in ("--platform", tag)]
    command = [*start_module("pip"), "install", "--no-compile", "--only-binary=:all:", *platforms]
    env = clean_environment(outside.environ, {})
    with OF_RUN.get().over(f"pip to install {wanted}"):
        ended = run([*command, "--target", target, wanted], log=log, env=env)
    if ended.status:
        msg = f"{what} cannot be fetched: {complaint(ended)}"
        raise MachineError(msg, hint=f"check the network and the disk, then run it again; log: {log}")
    return next(target.glob("nvidia/cu*"))


def fetch_arm_runtime(toolkit: str, outside: Outside) -> Overlay:
    """Return what makes a `cuda-toolkit` for x86-64 compile for Arm as well: the runtime for it, as nvcc looks for it.

    The compiler and the headers are the same for both; the libraries are in `targets/sbsa-linux` (nvcc.profile).
    """

    def fill(target: Path) -> None:
        what = f"the CUDA {toolkit} runtime for Arm"
        with outside.reporter.step(f"fetch {what}"):
            home = install_wheels(f"cuda-toolkit[cudart]=={toolkit}", what, target / "wheels", outside, ARM_TAGS)
            _link_names(home / "lib")
            for name in ("sbsa-linux", "x86_64-linux"):
                (target / HOME / "targets" / name).mkdir(parents=True)
                (target / HOME / "targets" / name / "include").symlink_to("../../include")
            (home / "lib").rename(target / HOME / "targets/sbsa-linux/lib")
            (target / HOME / "targets/x86_64-linux/lib").symlink_to("../../lib")
            shutil.rmtree(target / "wheels")

    folder = outside.cache / "toolchains" / f"cuda-{toolkit}-runtime-linux-aarch64"
    return Overlay(fill_once(folder, fill, outside.reporter.say) / HOME, f"cudart-{toolkit}-aarch64")


def _pins(toolkit: str, outside: Outside) -> dict[str, SpecifierSet]:
    """Return the versions of the libraries that belong to a toolkit, by project."""
    with find_offers("cuda-toolkit", outside.environ) as offers:
        offer = next((one for one in offers.wheels if one.version == parse_version(toolkit)), None)
        if offer is None:
            raise offers.explain_none(MachineError(f"where pip looks there is no cuda-toolkit {toolkit}"))
        with open_parts(offer, offers.session, outside.reporter.say) as parts:
            member = next(name for name in parts.names if name.endswith(".dist-info/METADATA"))
            said = read_headers(parts.read(member).decode(errors="replace"), member).get_all("Requires-Dist") or []
    found = [Requirement(line) for line in said]
    return {canonicalize_name(one.name): one.specifier for one in found}


def _fetch(part: CudaPart, pins: Mapping[str, SpecifierSet], toolkit: str, target: Path, outside: Outside) -> None:
    if part.project not in pins:
        msg = f"cuda-toolkit {toolkit} has no {part.name} ({part.project})"
        raise MachineError(msg, hint="`toolchain: system` takes an installed toolkit")
    with find_offers(part.project, outside.environ) as offers:
        fitting = [
            one for one in offers.wheels if one.is_for(outside.host) and pins[part.project].contains(one.version)
        ]
        if not fitting:
            msg = f"where pip looks there is no {part.project}{pins[part.project]} for {outside.host}"
            raise offers.explain_none(MachineError(msg))
        offer = max(fitting, key=lambda one: one.version)
        with (
            outside.reporter.step(f"fetch the headers of {part.name} {offer.version}") as step,
            open_parts(offer, offers.session, outside.reporter.say) as parts,
        ):
            _write(parts, part, target, outside)
            step.result(f"{parts.fetched / 1e6:.1f} MB in {parts.requests} requests")
    (target / "version").write_text(f"{part.project}-{offer.version}", encoding="utf-8")


def _write(parts: Parts, part: CudaPart, target: Path, outside: Outside) -> None:
    """Write the headers of a library's wheel, and what takes the place of each library in it for a linker."""
    inside = {name: PREFIX.sub("", name, count=1) for name in parts.names if PREFIX.match(name)}
    wanted = [name for name, place in inside.items() if place.startswith("include/") or place.endswith(".lib")]
    parts.copy(wanted, target / "fetched")
    home = target / HOME
    home.mkdir()
    for folder in sorted((target / "fetched/nvidia").iterdir()):
        for kind in sorted(folder.iterdir()):
            kind.rename(home / kind.name)
    shutil.rmtree(target / "fetched")
    log = outside.cache / "logs" / f"{part.project}.log"
    if outside.host == WINDOWS:
        write_import_libraries(home, inside.values(), part, outside)
    else:
        write_stand_ins(home, inside.values(), part, log)


def write_import_libraries(home: Path, members: Iterable[str], part: CudaPart, outside: Outside) -> None:
    """Write an import library for each DLL among the members of a wheel that has none: its headers are in `home`."""
    found = import_names(members)
    if not found:
        return
    names, log = _list_functions(home, part), outside.cache / "logs" / f"{part.project}.log"
    lib = choose_msvc(outside.environ).programs / "lib.exe"
    for dll, stem in found.items():
        own = [name for name in names if _library_of(name, found.values()) == stem]
        write_import_library(home / "lib/x64" / f"{stem}.lib", dll, own, lib, log)


def write_stand_ins(home: Path, members: Iterable[str], part: CudaPart, log: Path) -> None:
    """Write a stand-in for each library among the members of a wheel or an archive: its headers are in `home`."""
    names = _list_functions(home, part)
    sonames = {place.removeprefix("lib/"): found[2] for place in members if (found := LIBRARY.fullmatch(place))}
    log.parent.mkdir(parents=True, exist_ok=True)
    for soname, stem in sonames.items():
        own = {name: False for name in names if _library_of(name, sonames.values()) == stem}
        make_stub(home / "lib" / soname, own, log)
        (home / "lib" / f"lib{stem}.so").symlink_to(soname)


def _list_functions(home: Path, part: CudaPart) -> list[str]:
    """Return the names of a library's functions that its headers declare."""
    text = "\n".join(_text(path) for path in sorted((home / "include").rglob("*")) if path.is_file())
    return sorted(set(re.findall(rf"\b((?:{part.symbols})\w*)\s*\(", text)))


def _library_of(name: str, stems: Iterable[str]) -> str:
    """Return the library of a function: the one whose name begins the function's, the longest one first."""
    ordered = sorted(stems, key=len)
    return next((stem for stem in reversed(ordered) if name.startswith(stem)), ordered[0])


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def complete_links(home: Path, log: Path) -> None:
    """Add to a fetched toolkit what linkers and CMake look for: lib64, link names, the driver's stub."""
    if not (home / "lib64").exists():
        (home / "lib64").symlink_to("lib")  # nvcc links with -L$CUDA_HOME/lib64
    _link_names(home / "lib")
    text = _text(home / "include/cuda.h") if (home / "include/cuda.h").is_file() else ""
    driver = home / "lib/stubs" / DRIVER
    if text and not driver.parent.exists():
        make_stub(driver, dict.fromkeys(re.findall(r"\b(cu[A-Z]\w*)\s*\(", text), False), log)
        driver.with_name("libcuda.so").symlink_to(DRIVER)


def _link_names(folder: Path) -> None:
    """Add the names that linkers look for to a folder of libraries: libcudart.so beside libcudart.so.13."""
    for path in sorted(folder.glob("lib*.so.*")):
        link = path.with_name(path.name.partition(".so.")[0] + ".so")
        if not os.path.lexists(link):  # a link whose target is missing counts
            link.symlink_to(path.name)
