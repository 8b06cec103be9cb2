"""Puts the launchers into a build, and answers them while it runs."""

from __future__ import annotations

import json
import math
import os
import py_compile
import re
import shlex
import shutil
import socketserver
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.build.folders import base_folder, own_compilers
from ci_tools.build.sdk.link_stubs import TRIPLE
from ci_tools.build.shards.listing import ListedBuild
from ci_tools.build.units.calls import NVCC
from ci_tools.build.units.desk import Desk
from ci_tools.build.units.gate import Gate
from ci_tools.build.units.manifests import Digests, name_folders
from ci_tools.build.units.passes import LAST_STEP, Preprocessor
from ci_tools.build.units.report import UnitReport
from ci_tools.build.units.seeds import Seeds, Shims
from ci_tools.build.units.store import UnitStore
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.targets import KINDS, kind_of
from ci_tools.errors import InputError
from ci_tools.github import step as steps
from ci_tools.machine.context import Outside
from ci_tools.machine.process import output, run
from ci_tools.machine.runner import GIB
from ci_tools.model.plan import Job, JobKind

if TYPE_CHECKING:
    from socket import socket


HOST_COMPILERS = (*("cc", "c++", "gcc", "g++", "clang", "clang++"), *(f"{TRIPLE}-{name}" for name in ("gcc", "g++")))
LAUNCHER = Path(__file__).with_name("launcher.py")
TRACER = Path(__file__).with_name("trace.c")
SCRIPT = '#!/bin/sh\nexec {words} "$0" "$@"\n'
PLACES = """\
import json, sysconfig
includes = [sysconfig.get_path(name) for name in ("include", "platinclude")]
print(json.dumps([sysconfig.get_path("purelib", vars={"base": ""}), *includes]))
"""
HOME = CUDA.homes[0]  # the variable that names the folder of links
TOOLKIT = "toolkit"  # the folder of the build's CUDA
PROGRAMS = "programs"  # the name in the store of what is known of compilers
SOCKET, LONGEST_ADDRESS = "socket", 107  # characters (unix(7))
SWITCH, OFF = "FATWHEEL_UNITS", "off"
BETWEEN = rf"\s+(?=(?:{'|'.join(KINDS)}):)"  # a folder may have a blank in its name
# nvcc would call what it generates after the object (see `CUDA.variables`), beside it. A project that looks for ccache
# would take objects from the user's, which is wrong about headers of one architecture.
NO_OTHERS = {"NVCC_PREPEND_FLAGS": "", "CCACHE_DISABLE": "1"}


class Launchers(NamedTuple):
    """The launchers of a build: the folder of the host compilers', and its units so far."""

    links: Path
    report: UnitReport
    programs: Mapping[str, Path]
    files: Digests
    gate: Gate
    shims: Shims

    def take_over(self, told: Mapping[str, str]) -> dict[str, str]:
        """Return a build's variables with the launchers first on PATH; in place of its CUDA toolkit, links to it."""
        folders, changed = [str(self.links), told["PATH"]], {**NO_OTHERS}
        if HOME in told:
            home = self._put_links(Path(told[HOME]), self.links.parents[1] / HOME.lower())
            folders, changed = [f"{home}/bin", *folders], {HOME: str(home), **changed}
        return {**told, **changed, "PATH": os.pathsep.join(folders)}

    def identify(self, told: Mapping[str, str], *, toolkit: bool) -> str:
        """Return a digest of the content of the build's C++ compiler, or of its CUDA toolkit; "" if it has none."""
        name = NVCC if toolkit else (shlex.split(told.get("CXX", "")) or ["c++"])[0]
        program = self.programs.get(Path(name).name) or Path(shutil.which(name, path=told["PATH"]) or name)
        return self.files.identify_program(program, told) if program.exists() else ""

    def _put_links(self, toolkit: Path, home: Path) -> Path:
        (home / "bin").mkdir(parents=True)
        for path in (*toolkit.iterdir(), *(toolkit / "bin").iterdir()):
            place = home / path.relative_to(toolkit)
            if not place.exists():
                place.symlink_to(self.links.with_name(LAUNCHER.stem) if place == home / "bin" / NVCC else path)
        return home


def has_launchers(job: Job, outside: Outside) -> bool:
    """Whether a job's build calls its compilers by launchers: one that compiles, on Linux."""
    return job.kind is JobKind.NATIVE and outside.host.startswith("linux")


def name_place(variable: str, job: Job, outside: Outside) -> str:
    """Return the name of the folder for a toolkit: another one than that of the links to it, where there are any."""
    return TOOLKIT if variable == HOME and has_launchers(job, outside) else variable.lower()


def read_switch(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the places that are shared with other machines: where to take from, and where to put, if that differs.

    Raises InputError for another value than their addresses and "off".
    """
    told = [word for word in re.split(BETWEEN, environ.get(SWITCH, "").strip()) if word]
    if told == [OFF]:
        return ()
    kinds = [kind_of(word) for word in told]
    if len(told) > 2 or not all(kind and kind.is_index for kind in kinds):  # noqa: PLR2004 - see above
        msg = f"{SWITCH} is {environ[SWITCH]!r}, expected {OFF}, {', '.join(list_forms())}, or an empty value"
        raise InputError(msg)
    return tuple(told)


def list_forms() -> list[str]:
    """Return the forms of the addresses of such places."""
    return [kind.form for kind in KINDS.values() if kind.is_index]


def find_store(outside: Outside) -> UnitStore:
    """Return this machine's store."""
    return UnitStore(folder=outside.cache / "units")


def open_store(job: Job, outside: Outside) -> UnitStore | None:
    """Return the store of a job's units; None if it is off, or if nobody would read what is stored.

    A runner of GitHub ends with its store, so that only a batch has a use for one there, and what shares it elsewhere.
    """
    is_shared = bool(read_switch(outside.environ)) or bool(job.batch) or not steps.is_on(outside.environ)
    return find_store(outside) if is_shared and outside.environ.get(SWITCH, "").strip() != OFF else None


def open_gate(job: Job, store: UnitStore | None, deadline: float) -> Gate:
    """Return the gate of a job's compilers. Without a store nothing is gained by stopping before the time limit."""
    memory, end = (job.care.job_memory_gib or 0) * GIB, deadline if store else math.inf
    return Gate(folder=own_compilers(base_folder()), store=store, deadline=end, memory=memory)


@contextmanager
def open_launchers(
    scratch: Path, path: str, python: Path, project: str, gate: Gate, listing: ListedBuild | None = None
) -> Iterator[Launchers]:
    """Put the launchers of the compilers on `path` into a build's folder, and answer them while the body runs.

    `python` is that of the build's environment. With a `listing`, only its own units are compiled. At the end, however
    it ends, the store is as small as it should be.
    """
    folder = scratch / "units"
    links = folder / "compilers"
    links.mkdir(parents=True)
    store = gate.store
    found = {name: shutil.which(name, path=path) for name in HOST_COMPILERS}
    programs = {name: Path(place) for name, place in found.items() if place}
    with _find_address(folder) as address:
        launcher = folder / LAUNCHER.stem
        compiled = py_compile.compile(str(LAUNCHER), str(folder / "launcher.pyc"), doraise=True)
        script = SCRIPT.format(words=shlex.join([sys.executable, "-I", "-S", str(compiled), str(address)]))
        launcher.write_text(script, encoding="utf-8")
        launcher.chmod(0o755)
        for name in programs:
            (links / name).symlink_to(launcher)
        desk = _open_desk(links, {**programs, NVCC: scratch / TOOLKIT / "bin" / NVCC}, scratch, python, project, gate)
        try:
            with _serve(address, replace(desk, listing=listing)):
                yield Launchers(links, desk.report, desk.programs, desk.files, gate, desk.shims)
        finally:
            if listing:
                listing.read_ran(folder)
            if store:
                store.write(PROGRAMS, desk.files.dump())
                store.evict()


@contextmanager
def _find_address(folder: Path) -> Iterator[Path]:
    """Yield a path for a socket: in the folder, or in a temporary one if that path is too long."""
    if len(bytes(folder / SOCKET)) <= LONGEST_ADDRESS:
        yield folder / SOCKET
        return
    with tempfile.TemporaryDirectory(prefix="fatwheel-units-", dir=base_folder(), ignore_cleanup_errors=True) as short:
        yield Path(short) / SOCKET


@contextmanager
def _serve(address: Path, desk: Desk) -> Iterator[None]:
    """Answer launchers at an address while the body runs."""

    class Handler(socketserver.BaseRequestHandler):
        request: socket

        def handle(self) -> None:
            with suppress(EOFError, ConnectionError):  # the launcher was killed
                desk.answer(self.request)

    with _Server(str(address), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def _open_desk(
    links: Path, programs: Mapping[str, Path], scratch: Path, python: Path, project: str, gate: Gate
) -> Desk:
    store, folder, last_step = gate.store, links.parent, links.with_name("last_step.cpp")
    last_step.write_text(LAST_STEP, encoding="utf-8")
    said = output([python, "-I", "-c", PLACES])
    packages, *includes = json.loads(said) if said else ("", "", "")
    site = scratch / "env" / packages.lstrip("/")
    folders = {"site": site, "source": scratch / "source", "toolkit": scratch / TOOLKIT, "build": scratch}
    folders |= {"environment": scratch / "env", "include": Path(includes[0]), "platinclude": Path(includes[1])}
    # A comma would end an option of nvcc's, and an equals sign the folder.
    headers = {one: Path(one).name for one in includes if Path(one).is_absolute() and not {*",="} & {*one}}
    moved = {str(site): "site-packages", **headers}
    return Desk(
        links=links,
        programs=programs,
        seeds=Seeds(project=project, names=name_folders(folders), site=str(site), moved=moved),
        store=store,
        files=Digests(store.read(PROGRAMS) if store else None),
        preprocessor=Preprocessor(moved, last_step, {}),
        tracer=_compile_tracer(programs, folder) if store else None,
        folder=folder,
        report=UnitReport(scratch / "source", troubles=store.troubles if store else set()),  # one set, shown at the end
        gate=gate,
        shims=Shims(scratch / "shims", scratch / "shims.log"),
    )


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128  # launchers that start at a time


def _compile_tracer(programs: Mapping[str, Path], folder: Path) -> Path | None:
    """Compile trace.c; None where that fails, and where there is nothing like it: each unit is then preprocessed."""
    compiler = next((program for name, program in programs.items() if name in HOST_COMPILERS), None)
    if compiler is None or sys.platform != "linux":
        return None
    library = folder / "trace.so"
    words = ("-x", "c", "-shared", "-fPIC", "-O0", "-U_FORTIFY_SOURCE", TRACER, "-o", library, "-ldl")
    return library if run([compiler, *words], log=folder / "trace.log").status == 0 else None
