"""Mutants of everything that Fatwheel reads: each is read, or refused in one sentence, soon and in little memory.

`python -m tests.proof.fuzzing meson 12 1` reads the mutant of that number again, `python -m tests.proof.fuzzing
meson,cmake 0 1000` the first thousand of two readers. A mutant follows from the reader's name and its number alone.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import hmac
import io
import json
import os
import random
import re
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import tests.servers  # noqa: F401 - before anything imports jsonschema
from ci_tools import catalog
from ci_tools.build.sdist import audit_sdist, unpack_sdist, write_with_date
from ci_tools.cli import pages
from ci_tools.config import loader
from ci_tools.config.project import package_lines, project_of
from ci_tools.errors import FatwheelError
from ci_tools.evidence import backends, collector
from ci_tools.evidence.backends import CellFacts
from ci_tools.evidence.includes import Includes, select_sources, torch_abi
from ci_tools.evidence.limited_api import uses
from ci_tools.evidence.observe import journal, observation
from ci_tools.evidence.project_file import ProjectFile
from ci_tools.evidence.source import Tree
from ci_tools.formats import edits, receipts
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.seals import unseal
from ci_tools.model.evidence import Project
from ci_tools.model.files import Finding, Level, Outcome, Trial, Validated
from ci_tools.model.versions import Minor, Python
from ci_tools.plan import matrix, plan_file, plan_reader
from ci_tools.publish import folder as finished
from ci_tools.publish import release_plan
from ci_tools.publish.folder import Finished
from ci_tools.publish.gathering import gather
from ci_tools.publish.index import directory, manifest, of_releases
from ci_tools.publish.index.foreign import pages as foreign_pages
from ci_tools.publish.units import units_of
from ci_tools.verify.audit import audit
from tests.builders import wheels
from tests.builders.releases import receipt
from tests.builders.sources import CONFIG, demo, plan_of, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ci_tools.model.plan import Plan

MOST_SECONDS = 10.0  # of CPU, for one mutant
MOST_BYTES = 1 << 30  # of memory, in all
MOST_TIMES = 30_000  # how often a mutant may have a part again and again
LIMITS = {"pypi": 1 << 30, "github": 1 << 30}
BACKENDS = ("flit_core.buildapi", "mesonpy", "scikit_build_core.build", "maturin", "hatchling.build")
NUMBERS = (b"0", b"-1", b"9" * 5000, b"1e999", b"0x7fffffffffffffff", b"99999999999999999999")
MARKS = (
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n",
    b"\t",
    b"\xe2\x80\xae",
    b"\x1b[2J",
    b"\\",
    b'"',
    b"'",
    b"'''",
)
BRACKETS = (
    b"(",
    b")",
    b"[",
    b"]",
    b"{",
    b"}",
    b"${",
    b"$<",
    b"/*",
    b"*/",
    b"#",
    b"#[[",
    b"]]",
    b",",
    b":",
    b"=",
    b".",
    b";",
)
WORDS = (
    b"a.", b"[a", b"set(", b"if(\n", b"endif()\n", b"subdir(x)\n", b"\\'", b"set(CMAKE_CUDA_ARCHITECTURES ", b" CACHE ",
    b"#if 1\n", b"#include ", b"#define TORCH_TARGET_VERSION 0x020a000000000000\n", b"&a ", b"*a ", b"<<: ", b"- ",
    b"? ", b"-gencode arch=", b"foreach(", b"PyTypeObject x", b"->", b"//", b"-----BEGIN ", b"Requires-Dist: a ; ",
    b"..  a:: b\n", b"torch/a.h", b"PK\x03\x04", b"\x7fELF", b"-DTORCH_TARGET_VERSION=0x020a000000000000\n", b"Py_X(",
    b'R"(', b"::", b"requires-python = '>=9999999999", b">=" + b"9" * 5000,
)  # fmt: skip
TOKENS = (*NUMBERS, *MARKS, *BRACKETS, *WORDS)
VALUES = (
    None, True, False, 0, -1, 1 << 70, 1e308, -0.5, float("nan"), float("inf"), "", "x", "\0", "\ud800", "../../a",
    "1" * 5000, "\u202e\x1b[2J", "a\nb", [], [[]], {}, {"": ""}, [None], ["x"] * 2000,
)  # fmt: skip
EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)


class TooLong(BaseException):  # not an Exception, so that no reader takes it for a damaged file
    """A mutant took more CPU time than it may."""


class Failure(NamedTuple):
    """A mutant that was neither read nor refused."""

    reader: str
    number: int
    what: str


class Reader(NamedTuple):
    """What reads a mutant, and the good files that mutants are made of."""

    read: Callable[[bytes, Path], object]
    seeds: Callable[[], tuple[bytes, ...]]
    kind: str = "text"  # or binary, or tree: JSON


# ---------------------------------------------------------------- mutants


def mutant(reader: str, number: int) -> bytes:
    """Return the mutant of a number: a good file with one to six changes."""
    chance = random.Random(f"{reader} {number}")  # noqa: S311 - the same each time
    one = READERS[reader]
    content = chance.choice(one.seeds())
    for _ in range(chance.randint(1, 6)):
        content = chance.choice(MUTATORS[one.kind])(content, chance)
    return content


def _span(content: bytes, chance: random.Random, longest: int) -> tuple[int, int]:
    start = chance.randint(0, len(content))
    return start, min(len(content), start + chance.randint(1, longest))


def _flip(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content or b"\0")
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def _delete(content: bytes, chance: random.Random) -> bytes:
    start, end = _span(content, chance, 200)
    return content[:start] + content[end:]


def _copy(content: bytes, chance: random.Random) -> bytes:
    start, end = _span(content, chance, 400)
    at = chance.randint(0, len(content))
    return content[:at] + content[start:end] + content[at:]


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randint(0, len(content))]


def _insert(content: bytes, chance: random.Random) -> bytes:
    at = chance.randint(0, len(content))
    return content[:at] + chance.choice(TOKENS) + content[at:]


def _repeat(content: bytes, chance: random.Random) -> bytes:
    """Put a word, a few words, or a part of the file in so often that what is not linear takes minutes."""
    start, end = _span(content, chance, 20)
    part = chance.choice((chance.choice(TOKENS), b"".join(chance.choices(TOKENS, k=3)), content[start:end])) or b"x"
    times = min(chance.choice((100, 3000, MOST_TIMES)), 300_000 // len(part))
    at = chance.choice((0, len(content), chance.randint(0, len(content))))
    return content[:at] + part * times + content[at:]


def _number(content: bytes, chance: random.Random) -> bytes:
    """Write an extreme number over some bytes."""
    size = chance.choice((1, 2, 4, 8))
    at = chance.randrange(max(1, len(content) - size))
    value = chance.choice(EXTREMES) & ((1 << 8 * size) - 1)
    return content[:at] + value.to_bytes(size, "little") + content[at + size :]


def _header(content: bytes, chance: random.Random) -> bytes:
    """Write an extreme number over a field of a binary file's first header."""
    at, size = 2 * chance.randrange(32), chance.choice((2, 4, 8))
    value = chance.choice(EXTREMES) & ((1 << 8 * size) - 1)
    return content[:at] + value.to_bytes(size, "little") + content[at + size :]


def _value(content: bytes, chance: random.Random) -> bytes:
    """Put another value, or a value of another place, in a place of a JSON file, or leave the place out."""
    try:
        table = json.loads(content)
    except (ValueError, RecursionError):
        return _flip(content, chance)
    places = list(_places(table))
    if not places:
        return json.dumps(chance.choice(VALUES)).encode()
    (holder, key), (other, another) = chance.choice(places), chance.choice(places)
    if chance.random() < 0.2:  # every fifth
        del holder[key]
    else:
        holder[key] = json.loads(json.dumps(chance.choice((*VALUES, other[another], [other[another]] * 3))))
    return json.dumps(table).encode()


def _places(table: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - whatever JSON can hold
    """Yield where each value of a JSON file stands."""
    keys = table if isinstance(table, dict) else range(len(table)) if isinstance(table, list) else ()
    for key in keys:
        yield table, key
        yield from _places(table[key])


TEXT = (_flip, _delete, _copy, _cut, _insert, _insert, _repeat, _repeat, _number)
TREE = (*(_value,) * 40, *TEXT)
BINARY = (_flip, _delete, _copy, _cut, _number, _number, _number, _header, _header, _repeat)
MUTATORS = {"text": TEXT, "binary": BINARY, "tree": TREE}


# ---------------------------------------------------------------- readers


def _project(folder: Path, files: Mapping[str, str | bytes]) -> ProjectFile:
    """Return a project of these files, its tree made without asking git."""
    root = write(folder, {"fatwheel.yml": CONFIG, "demo.py": "", **files})
    names = tuple(sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()))
    return ProjectFile(loader.load(root / "fatwheel.yml", catalog.load()), Tree(root, names))


def _pyproject(backend: str, more: str = "") -> str:
    return f'[build-system]\nbuild-backend = "{backend}"\n[project]\nname = "demo"\nversion = "1"\n{more}'


def _shown(project: ProjectFile) -> None:
    """Read all that a project shows where none of its code has to run."""
    for python in ("3.10", "3.14t"):
        backends.read(project, {}, CellFacts("linux", "x86_64", Python.parse(python)))
    project.project(())
    list(project.dependencies())
    includes = Includes(project.tree)
    files = select_sources(project.tree.files, (), ())
    torch_abi(includes, files, "")
    uses(includes, files, Minor(3, 10))


def _config(content: bytes, folder: Path) -> None:
    loader.load(write(folder, {"fatwheel.yml": content}) / "fatwheel.yml", catalog.load())


def _toml(content: bytes, folder: Path) -> None:
    project = _project(folder, {"pyproject.toml": content})
    package_lines(project_of(project.tree))
    edits.set_toml_version(content.decode(errors="replace"), "2.0")
    _shown(project)


def _ini(content: bytes, folder: Path) -> None:
    project = _project(folder, {"pyproject.toml": _pyproject("flit_core.buildapi"), "setup.cfg": content})
    project.place_of_setting("install_requires")
    _shown(project)


def _meson(content: bytes, folder: Path) -> None:
    _shown(_project(folder, {"pyproject.toml": _pyproject("mesonpy"), "meson.build": content}))


def _cmake(content: bytes, folder: Path) -> None:
    files = {"pyproject.toml": _pyproject("scikit_build_core.build"), "CMakeLists.txt": content, "a.cpp": "int x;"}
    _shown(_project(folder, files))


def _cpp(content: bytes, folder: Path) -> None:
    _shown(
        _project(folder, {"pyproject.toml": _pyproject("scikit_build_core.build"), "a.cpp": content, "b.h": content})
    )


def _cargo(content: bytes, folder: Path) -> None:
    _shown(_project(folder, {"pyproject.toml": _pyproject("maturin"), "Cargo.toml": content}))


def _setup(content: bytes, folder: Path) -> None:
    del folder
    edits.set_version(content.decode(errors="replace"), "2.0")


def _plan(content: bytes, folder: Path) -> None:
    plan_file.read(write(folder, {"plan.json": content}) / "plan.json")


def _whole_plan(content: bytes, folder: Path) -> None:
    """Read a plan.json as a workflow's steps, gathering, publishing and the summary do, whatever another refuses."""
    path = write(folder, {"plan.json": content}) / "plan.json"
    readers: tuple[Callable[[], object], ...] = (
        lambda: release_plan.read(path),
        lambda: _rows(plan_reader.read(path)),
        lambda: pages.release_page(finished.read(folder)),
    )
    if refusals := list(filter(None, map(_refusal, readers))):
        raise refusals[0]


def _refusal(read: Callable[[], object]) -> FatwheelError | None:
    try:
        read()
    except FatwheelError as error:
        return error
    return None


def _rows(plan: Plan) -> None:
    """Make the rows of every workflow that builds a part of a plan."""
    for part in (plan_file.together(plan), *(plan_file.own(plan, one.platform) for one in plan.request.platforms)):
        matrix.trials(part, frozenset(Finished(plan, {}).files), plan)
        matrix.outputs(part)


def _receipt(content: bytes, folder: Path) -> None:
    """Read a receipt beside its file, as publishing and the summary do, and one without, as gathering does."""
    own = write(folder, {"plan.json": _plan_and_receipt()[0], f"receipts/{wheels.PURE}.json": content})
    write(folder, {f"tried/receipts/{wheels.PURE}.json": content, wheels.PURE: b"a wheel"})
    found = finished.read(own)
    pages.release_page(found)
    receipts.load_trials(folder / wheels.PURE, "key")
    plan, outside = plan_reader.read(own / "plan.json"), Outside(environ={}, cache=folder / "cache", reporter=Silent())
    units_of(release_plan.read(own / "plan.json"), {name: (folder / name, one) for name, one in found.receipts.items()})
    gather([folder], plan, folder / "dist", outside)


def _journal(content: bytes, folder: Path) -> None:
    """Read what an observed build wrote, and the answer that stands in it, whatever that says."""
    del folder
    seal = hmac.new(WORD.encode(), content, hashlib.sha256).hexdigest().encode()
    journal.read(content, WORD)
    answer = journal.read(content + b"\nanswer " + seal + b" " + content, WORD)
    observation.parse_answer({**(answer or {}), "wheel": None})  # what a project's code had in its hands
    unseal("name", content, WORD.encode())


def _read_or_refuse(read: Callable[[bytes], object], content: bytes) -> None:
    """Read a file of an index, which says by one of these errors that it is none, as those who read it know."""
    with suppress(ValueError, KeyError, TypeError):
        read(content)


def _manifest(content: bytes, folder: Path) -> None:
    del folder
    for read in (lambda data: manifest.parse_manifest(data, "demo"), directory.parse_directory):
        _read_or_refuse(read, content)
    with suppress(ValueError):
        manifest.parse_staged_keys(content)
    manifest.parse_offers(content)
    manifest.generation_of(content)


def _listing(content: bytes, folder: Path) -> None:
    del folder
    _read_or_refuse(lambda data: of_releases.read_listing(data, "2026-01-01T00:00:00Z"), content)


def _page(content: bytes, folder: Path) -> None:
    del folder
    for key in ("demo/index.html", "simple/demo/index.json", "index.html"):
        _read_or_refuse(functools.partial(foreign_pages.parse_project_page, key=key), content)
        _read_or_refuse(functools.partial(foreign_pages.projects_on, key=key), content)
        _read_or_refuse(functools.partial(foreign_pages.add_projects, key=key, projects=["a", "demo"]), content)


def _sdist(content: bytes, folder: Path) -> None:
    path = write(folder, {"demo-1.0.tar.gz": gzip.compress(content, 1)}) / "demo-1.0.tar.gz"
    audit_sdist(path, Project(name="demo", version="1.0", requires_python="", backend="", where=""))
    with (folder / "dated").open("wb") as sink, suppress(FatwheelError):
        write_with_date(path, sink, 315532800)
    unpack_sdist(path, folder / "unpacked")


def _observed(content: bytes, folder: Path) -> None:
    """Let a setup.py run where it is observed; what lies beside its source has to stay as it was."""
    project = _project(folder / "project", {"setup.py": content, "a.cpp": "int x;", "a.cu": "int x;"})
    outside = Outside(
        environ={"HOME": str(folder), "PATH": os.environ["PATH"]}, cache=folder / "cache", reporter=Silent()
    )
    before = sorted(path for path in folder.rglob("*") if "cache" not in path.parts)
    collector.gather(project.request, project.tree, catalog.load(), outside)
    after = sorted(path for path in folder.rglob("*") if not {"cache", ".local"} & {*path.relative_to(folder).parts})
    if before != after:
        msg = f"it changed {set(before) ^ set(after)}"
        raise AssertionError(msg)


def _audited(wheel: Path, folder: Path) -> None:
    audit(wheel, job=None, limits=LIMITS, work=folder / "work")


def _wheel(content: bytes, folder: Path) -> None:
    _audited(write(folder, {wheels.PURE: content}) / wheels.PURE, folder)


def _member(name: str) -> Callable[[bytes, Path], object]:
    """Return what audits a good wheel with a member of that name that is a mutant."""

    def read(content: bytes, folder: Path) -> None:
        info = "demo-1.0.dist-info"
        if name == "RECORD":
            _audited(wheels.edited(wheels.make(folder), {f"{info}/RECORD": content}, record=False), folder)
        elif name.startswith("demo/"):
            wheel = WINDOWS if name.endswith(".pyd") else wheels.LINUX
            _audited(wheels.make(folder, wheel, {"demo/__init__.py": b"", name: content}), folder)
        else:
            _audited(wheels.edited(wheels.make(folder), {f"{info}/{name}": content}), folder)

    return read


def _pure(name: str) -> Callable[[bytes, Path], object]:
    def read(content: bytes, folder: Path) -> None:
        _audited(wheels.make(folder, files={"demo/__init__.py": b"", name: content}), folder)

    return read


# ---------------------------------------------------------------- what they are made of

WINDOWS = "demo-1.0-py3-none-win_amd64.whl"
YAML = """\
package: demo
version: "1.0"
python: ["3.10", "3.14t"]
torch: {lowest: "2.10"}
source: {include: ["*"]}
build: {env: {A: "1"}}
platforms:
  linux-cuda: {owner: "@demo", cuda: ["13.0"], archs: ["9.0", "10.0+PTX"], native: ["**/*.cu"]}
  windows:
publish: [dir:dist]
"""
TOML = _pyproject(
    "scikit_build_core.build",
    """\
requires-python = ">=3.10"
dependencies = ["torch>=2.10", 'numpy; python_version < "3.12"']
[tool.scikit-build]
wheel.py-api = "cp310"
cmake.define.CMAKE_CUDA_ARCHITECTURES = "90"
[[tool.scikit-build.overrides]]
if.platform-system = "linux"
if.any = {env.A = true, python-version = ">=3.11"}
wheel.cmake = false
""",
)
INI = "[metadata]\nname = demo\nversion = attr: demo.x\n[options]\ninstall_requires =\n    torch>=2\n    numpy\n"
MESON = """\
project('demo', 'c', version: '1.0', default_options: ['buildtype=release'])
py = import('python').find_installation(pure: false)
py.extension_module('a', 'a.c', install: true, limited_api: '3.11', c_args: ['-DX', '-gencode=arch=compute_90'])
foreach name : ['a', 'b']
  py.install_sources('demo.py', subdir: 'demo' / name) # text's
endforeach
message('''long
text''')
subdir('src')
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.26)
project(demo LANGUAGES CXX CUDA)
set(CMAKE_CUDA_ARCHITECTURES 80 90 CACHE STRING "of GPUs")
find_package(Torch REQUIRED) # comment
#[[ a long
comment ]]
if(WIN32)
  add_compile_definitions(TORCH_TARGET_VERSION=0x020a000000000000)
endif()
python_add_library(_C MODULE a.cpp USE_SABI 3.10 WITH_SOABI)
target_compile_options(_C PRIVATE -DTORCH_TARGET_VERSION=0x020a000000000000 "-gencode=arch=compute_90,code=sm_90")
"""
CPP = """\
// a comment
#ifndef GUARD
#define GUARD
#define TORCH_TARGET_VERSION 0x020a000000000000
#include <torch/csrc/stable/library.h>
#include "b.h"
#endif
/* long
comment */
static PyTypeObject type = {0};
PyObject *f(void) { return PyLong_FromLong(PyUnicode_GET_LENGTH(0) + type->tp_name); }
"""
CARGO = """\
[package]
name = "demo"
version = "1.0"
[lib]
crate-type = ["cdylib"]
[features]
default = ["x"]
x = ["pyo3/abi3-py310", "y?/z"]
[dependencies]
pyo3 = { version = "0.25", features = ["abi3"] }
[target.'cfg(unix)'.dependencies]
y = { workspace = true, optional = true }
[workspace]
dependencies = { y = "1" }
"""
WORD = "the word of an observer"
ANSWER = {
    "asked": {"python": "setup.py:1", "env:A": ""},
    "doubts": {"runs x": "setup.py:2"},
    "imports": {"torch": "setup.py:3"},
    "compiles": [{"source": "a.c", "object": "a.o", "compiler": "cc", "flags": ["-c", "-DX"]}],
    "links": [{"output": "a.so", "objects": ["a.o"], "libraries": ["m"], "flags": ["-s"], "compiled": 1}],
    "error": {"kind": "E", "text": "no", "place": "setup.py:1"}, "generated": {"b.c": "int x;"},
}  # fmt: skip
JOURNAL = (
    '{"asked": {"os": "setup.py:1"}, "by": 3}\n{"began": true, "by": 4}\n{"compiled": "a.c", "by": 4}\n'
    '{"linked": "a.so", "by": 3}\n{"ended": true, "by": 4}\ngcc -c a.c\n'
)
SHA256 = "0" * 64
FILE = (
    f'{{"name": "demo-1.0-py3-none-any.whl", "folder": "cu130", "sha256": "{SHA256}", "size": 3, "also": ["cu126"], '
    f'"requires_python": ">=3.10", "metadata_sha256": "{SHA256}", "uploaded": "2026-01-01T00:00:00Z", "yanked": "bad", '
    f'"candidate": 2, "job": "pure", "platform": "linux-cuda", "archs": ["9.0"], "commit": "{SHA256[:40]}"}}'
)
MANIFEST = (
    f'{{"generation": 3, "files": [{FILE}], "offers": [["1.0", "{SHA256}"]], "links": [["a", "b", []]], '
    '"place": "demo"}'
)
DIRECTORY = '{"generation": 2, "projects": ["demo"], "folders": ["cu130"], "filling": [], "root": "shared"}'
STAGED = '{"generation": 0, "keys": ["demo/demo-1.0-py3-none-any.whl"]}'
LISTING = (
    f'{{"project": "demo", "version": "1.0", "commit": "{SHA256[:40]}", "files": [{FILE}], '
    '"offers": [["linux", "cu130", "2.10", "3.12", "a", ""]]}'
)
PAGE = f"""\
<!DOCTYPE html>
<html><head><base href="../"><title>demo</title></head><body>
<!-- a comment -->
<a href="demo-1.0-py3-none-any.whl#sha256={SHA256}" data-requires-python="&gt;=3.10">demo-1.0-py3-none-any.whl</a><br>
<a href='https://localhost/demo%2B1.0.tar.gz' data-yanked="bad">demo</a> <a name=x>y</a>
</body></html>
"""
PAGE_JSON = f"""\
{{"meta": {{"api-version": "1.1"}}, "name": "demo", "projects": [{{"name": "demo"}}],
 "files": [{{"filename": "demo-1.0-py3-none-any.whl", "url": "a.whl", "hashes": {{"sha256": "{SHA256}"}}, "size": 3,
 "requires-python": ">=3.10", "yanked": false, "core-metadata": {{"sha256": "{SHA256}"}},
 "upload-time": "2026-01-01"}}]}}
"""
EXTENSION = """\
import os, sys, subprocess
from setuptools import Extension, find_packages, setup
macros = [("A", os.environ.get("A", "1"))]
if sys.platform == "win32" or os.path.exists("/usr/local/cuda"):
    macros += [("B", None)]
with open("README.md", "w") as file:
    file.write(subprocess.check_output([sys.executable, "-c", "print(1)"], text=True))
native = Extension("_demo", ["a.cpp"], define_macros=macros)
setup(name="demo", version="1.0", py_modules=["demo"], ext_modules=[native])
"""
TORCH = """\
import torch
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension
kind, sources = (CUDAExtension, ["a.cu"]) if torch.cuda.is_available() or CUDA_HOME else (CppExtension, ["a.cpp"])
setup(name="demo", version="1.0", ext_modules=[kind("_demo", sources, extra_compile_args={"cxx": ["-O3"], "nvcc": []})],
      cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)})
"""
SETUP = "import os\nfrom setuptools import setup\n__version__ = '1.0'\nsetup(name='demo', version=__version__)\n"
EDITION = '{"channel": "stable", "candidate": null, "date": null}'
PLAN = f'{{"schema": 1, "pins": {{"commit": null}}, "edition": {EDITION}, "jobs": []}}'
METADATA = """\
Metadata-Version: 2.4
Name: demo
Version: 1.0
Summary: a
Requires-Python: >=3.10
Requires-Dist: torch>=2.10; extra == "a"
Requires-Dist: b @ https://localhost/b.whl
Provides-Extra: a
License-Expression: MIT OR Apache-2.0
License-File: LICENSE
Classifier: Programming Language :: Python :: 3
Project-URL: Home, https://localhost
Description-Content-Type: text/x-rst

Title
=====

.. note:: a `link <https://localhost>`_ and ``code``

* a list

+---+---+
| a | b |
+---+---+
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
ENTRY_POINTS = "[console_scripts]\ndemo = demo:main [extra]\n[a.b]\nc = demo.d:E.f\n"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEA\n"
PYTHON = (
    "# coding: utf-8\nimport os\n\n\nclass A(list[int]):\n    def f(self, x=1):\n        return f'{x!r}' + (x := 2)\n"
)


def _texts(*texts: str) -> Callable[[], tuple[bytes, ...]]:
    return lambda: tuple(text.encode() for text in texts)


@functools.cache
def _libraries() -> tuple[bytes, ...]:
    device = wheels.unit(wheels.entry(wheels.SASS, 90), wheels.entry(wheels.PTX, 90))
    source = "int getpid(void); extern int aoti_torch_x(void); int ours(void) { return getpid() + aoti_torch_x(); }"
    return (
        wheels.linked(source),
        wheels.linked(source, "-g", "-Wl,-rpath,$ORIGIN/lib"),
        wheels.with_section(".nv_fatbin", device),
        wheels.with_section(".hip_fatbin", BUNDLE),
    )


BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__" + (1).to_bytes(8, "little") + b"".join(
    number.to_bytes(8, "little") for number in (4096, 8, 40)
) + b"hipv4-amdgcn-amd-amdhsa--gfx942".ljust(40, b"\0").ljust(4096 - 56, b"\0") + bytes(8)  # fmt: skip


@functools.cache
def _plan_and_receipt() -> tuple[bytes, bytes]:
    """Return a plan.json, and a receipt of its wheel that says all that one can say."""
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_of(demo(Path(folder) / "a"))
        wheel = write(Path(folder), {wheels.PURE: b"a wheel"}) / wheels.PURE
        finding = Finding(wheel.name, "tags", Level.WARNING, "a message", "found", "expected")
        tried = Validated(plan.sites[0].name, "key", (Trial("import demo", Outcome.PASSED, "well"),))
        of_it = {"source": plan.pins.source_sha256, "findings": (finding,), "validated": (tried,)}
        receipts.save(wheel, replace(receipt(wheel, "pure"), **of_it))  # type: ignore[arg-type]
        return plan_file.dumps(plan).encode(), receipts.path_of(wheel).read_bytes()


def _sdists() -> tuple[bytes, ...]:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in {"PKG-INFO": METADATA.encode(), "demo.py": b"", "a" * 120: b"x" * 2000}.items():
            info = tarfile.TarInfo(f"demo-1.0/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return (content.getvalue(),)


def _fatbinaries() -> tuple[bytes, ...]:
    device = wheels.unit(wheels.entry(wheels.SASS, 90), wheels.entry(wheels.PTX, 90, 0x2000))
    return (device, BUNDLE, b"!<arch>\n" + b"a.o/".ljust(48) + b"40        `\n" + device[:40])


def _windows() -> tuple[bytes, ...]:
    head = b"MZ".ljust(0x3C, b"\0") + b"\x40\0\0\0" + b"PE\0\0\x64\x86" + b"\2\0" + bytes(12) + bytes(4)
    section = b".nv_fatb" + b"".join(number.to_bytes(4, "little") for number in (200, 0, 200, 256)) + bytes(16)
    device = wheels.unit(wheels.entry(wheels.SASS, 90))
    return ((head + section + b".text\0\0\0" + section[8:]).ljust(256, b"\0") + device.ljust(256, b"\0"),)


@functools.cache
def _archives() -> tuple[bytes, ...]:
    with tempfile.TemporaryDirectory() as folder:
        files = {**wheels.PACKAGE, "demo/data.bin": b"x" * 3000, "demo/inner.zip": _nested()}
        return (wheels.make(Path(folder), files=files).read_bytes(), wheels.make(Path(folder)).read_bytes())


@functools.cache
def _nested() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b.so", wheels.linked("int ours;"))
        archive.writestr("c.zip", b"PK\x03\x04")
    return content.getvalue()


READERS: Mapping[str, Reader] = {
    "config": Reader(_config, _texts(YAML, CONFIG)),
    "toml": Reader(_toml, _texts(TOML, *map(_pyproject, BACKENDS))),
    "ini": Reader(_ini, _texts(INI)),
    "meson": Reader(_meson, _texts(MESON)),
    "cmake": Reader(_cmake, _texts(CMAKE)),
    "cpp": Reader(_cpp, _texts(CPP)),
    "cargo": Reader(_cargo, _texts(CARGO)),
    "setup": Reader(_setup, _texts(SETUP)),
    "plan": Reader(_plan, _texts(PLAN)),
    "whole-plan": Reader(_whole_plan, lambda: _plan_and_receipt()[:1], kind="tree"),
    "receipt": Reader(_receipt, lambda: _plan_and_receipt()[1:], kind="tree"),
    "journal": Reader(_journal, _texts(JOURNAL, json.dumps(ANSWER)), kind="tree"),
    "manifest": Reader(_manifest, _texts(MANIFEST, DIRECTORY, STAGED), kind="tree"),
    "listing": Reader(_listing, _texts(LISTING), kind="tree"),
    "page": Reader(_page, _texts(PAGE, PAGE_JSON), kind="tree"),
    "sdist": Reader(_sdist, _sdists, kind="binary"),
    "wheel": Reader(_wheel, _archives, kind="binary"),
    "metadata": Reader(_member("METADATA"), _texts(METADATA)),
    "wheel-file": Reader(_member("WHEEL"), _texts(WHEEL)),
    "record": Reader(_member("RECORD"), _texts("demo/__init__.py,sha256=abc,1\ndemo-1.0.dist-info/RECORD,,\n")),
    "entry-points": Reader(_member("entry_points.txt"), _texts(ENTRY_POINTS)),
    "key": Reader(_pure("demo/a.pem"), _texts(KEY)),
    "pth": Reader(_pure("demo.pth"), _texts("import os; exec('x')\n/home/ann/src\n")),
    "python": Reader(_pure("demo/a.py"), _texts(PYTHON)),
    "archive": Reader(_pure("demo/a.zip"), lambda: (_nested(),), kind="binary"),
    "elf": Reader(_member("demo/_C.so"), _libraries, kind="binary"),
    "pe": Reader(_member("demo/_C.pyd"), _windows, kind="binary"),
    "fatbinary": Reader(_member("demo/a.fatbin"), _fatbinaries, kind="binary"),
    "observed": Reader(_observed, _texts(SETUP, EXTENSION, TORCH)),  # each starts a confined Python, or several
}


# ---------------------------------------------------------------- all of them


def failures(reader: str, first: int, count: int) -> Iterator[Failure]:
    """Yield the mutants of a reader that are neither read nor refused in one sentence, in time and in little memory."""
    signal.signal(signal.SIGVTALRM, _end)
    for number in range(first, first + count):
        content = mutant(reader, number)
        with tempfile.TemporaryDirectory() as folder:
            what = _read(reader, content, Path(folder))
        if what:
            yield Failure(reader, number, what)
        if peak() > MOST_BYTES:
            yield Failure(reader, number, f"after it, {peak():,} bytes of memory were taken")
            return


def _read(reader: str, content: bytes, folder: Path) -> str:
    """Read a mutant; return what went wrong."""
    started = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    try:
        READERS[reader].read(content, folder)
    except FatwheelError as error:
        return "" if re.search(r"\w", str(error)) else "an error that says nothing"
    except TooLong:
        return f"over {time.process_time() - started:.0f} s in {traceback.format_exc(-4)}"
    except BaseException:  # noqa: BLE001 - whatever it is, it is a defect
        return traceback.format_exc(-4)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ""


def _end(*_: object) -> None:
    raise TooLong


def peak() -> int:
    """Return the most memory that this process had, in bytes."""
    # Not `ru_maxrss`: a process inherits that from the one that started it, which may be large.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) << 10


def main(arguments: list[str]) -> int:
    """Read the mutants that the command line names; print what fails."""
    readers, first, count = arguments[0].split(","), int(arguments[1]), int(arguments[2])
    found = [one for reader in readers for one in failures(reader, first, count)]
    for one in found:
        sys.stdout.write(f"{one.reader} {one.number}: {one.what}\n")
    sys.stdout.write(f"{count} mutants of each, {len(found)} failures, {peak() >> 20} MiB\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
