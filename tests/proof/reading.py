"""What reads each kind of file, and the good files of that kind."""

from __future__ import annotations

import functools
import gzip
import hashlib
import hmac
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import tests.servers  # noqa: F401 - before anything imports jsonschema
from ci_tools import catalog
from ci_tools.addresses import redact
from ci_tools.build.sdist import audit_sdist, unpack_sdist, write_with_date
from ci_tools.cli import pages
from ci_tools.config import loader
from ci_tools.config.project import package_lines, project_of
from ci_tools.errors import FatwheelError, nearest
from ci_tools.formats import edits, receipts
from ci_tools.formats.path_patterns import is_pattern, matcher_of
from ci_tools.index import manifest, of_releases
from ci_tools.index.foreign import pages as foreign_pages
from ci_tools.index.units import units_of
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.seals import unseal
from ci_tools.model.evidence import Project
from ci_tools.model.plan import Plan
from ci_tools.model.versions import Minor, Python
from ci_tools.observe import collector, observation
from ci_tools.plan import matrix, plan_file, plan_reader
from ci_tools.publish import folder as finished
from ci_tools.publish import release_plan
from ci_tools.publish.folder import Finished
from ci_tools.publish.gathering import gather
from ci_tools.source import backends
from ci_tools.source.backends import CellFacts
from ci_tools.source.files import Tree
from ci_tools.source.includes import Includes, select_sources, torch_abi
from ci_tools.source.project_file import ProjectFile
from ci_tools.source.python_api import uses
from ci_tools.verify.audit import audit
from tests.builders import wheels
from tests.builders.sources import CONFIG, write
from tests.proof.good_files import (
    ANSWER,
    BACKENDS,
    CARGO,
    CMAKE,
    CPP,
    DIRECTORY,
    ENTRY_POINTS,
    EXTENSION,
    INI,
    JOURNAL,
    KEY,
    LISTING,
    MANIFEST,
    MESON,
    METADATA,
    PAGE,
    PAGE_JSON,
    PATTERNS,
    PLAN,
    PRINTED,
    PYTHON,
    SETUP,
    STAGED,
    TOML,
    TORCH,
    WHEEL,
    WINDOWS,
    WORD,
    YAML,
    archives,
    fatbinaries,
    libraries,
    nested,
    plan_and_receipt,
    pyproject_of,
    sdists,
    texts,
    windows,
)

LIMITS = {"pypi": 1 << 30, "github": 1 << 30}


class Reader(NamedTuple):
    """What reads a mutant, and the good files that mutants are made of."""

    read: Callable[[bytes, Path], object]
    seeds: Callable[[], tuple[bytes, ...]]
    kind: str = "text"  # or binary, or tree: JSON


def _project(folder: Path, files: Mapping[str, str | bytes]) -> ProjectFile:
    """Return a project of these files, its tree made without asking git."""
    root = write(folder, {"fatwheel.yml": CONFIG, "demo.py": "", **files})
    names = tuple(sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()))
    return ProjectFile(loader.load(root / "fatwheel.yml", catalog.load()), Tree(root, names))


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
    project = _project(folder, {"pyproject.toml": pyproject_of("flit_core.buildapi"), "setup.cfg": content})
    project.place_of_setting("install_requires")
    _shown(project)


def _meson(content: bytes, folder: Path) -> None:
    _shown(_project(folder, {"pyproject.toml": pyproject_of("mesonpy"), "meson.build": content}))


def _cmake(content: bytes, folder: Path) -> None:
    files = {"pyproject.toml": pyproject_of("scikit_build_core.build"), "CMakeLists.txt": content, "a.cpp": "int x;"}
    _shown(_project(folder, files))


def _cpp(content: bytes, folder: Path) -> None:
    _shown(
        _project(folder, {"pyproject.toml": pyproject_of("scikit_build_core.build"), "a.cpp": content, "b.h": content})
    )


def _cargo(content: bytes, folder: Path) -> None:
    _shown(_project(folder, {"pyproject.toml": pyproject_of("maturin"), "Cargo.toml": content}))


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
    own = write(folder, {"plan.json": plan_and_receipt()[0], f"receipts/{wheels.PURE}.json": content})
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
    observation.read_journal(content, WORD)
    answer = observation.read_journal(content + b"\nanswer " + seal + b" " + content, WORD)
    said = {**(answer or {}), "wheel": None}  # what a project's code had in its hands
    observation.parse_answer(said, Python(Minor(3, 12)))
    unseal("name", content, WORD.encode())


def _read_or_refuse(read: Callable[[bytes], object], content: bytes) -> None:
    """Read a file of an index, which says by one of these errors that it is none, as those who read it know."""
    with suppress(ValueError, KeyError, TypeError):
        read(content)


def _manifest(content: bytes, folder: Path) -> None:
    del folder
    for read in (lambda data: manifest.parse_manifest(data, "demo"), manifest.parse_directory):
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
        raise AssertionError(f"it changed {set(before) ^ set(after)}")


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


def _patterns(content: bytes, folder: Path) -> None:
    """Match names, long ones too, with lines of gitignore, and each line as a name."""
    del folder
    lines = [*dict.fromkeys(content.decode(errors="replace").split("\n"))][:30]  # each is compiled anew
    matches = matcher_of(tuple(filter(is_pattern, lines)))
    for name in ("kernels/a.cu", "a" * 4000, "a/" * 2000, *lines):
        matches(name)


def _addresses(content: bytes, folder: Path) -> None:
    """Show a text without secrets, and the name that is nearest to each word of it."""
    del folder
    words = redact(content.decode(errors="replace")).split()
    for word in words[:20]:
        nearest(word, words)


READERS: Mapping[str, Reader] = {
    "config": Reader(_config, texts(YAML, CONFIG)),
    "toml": Reader(_toml, texts(TOML, *map(pyproject_of, BACKENDS))),
    "ini": Reader(_ini, texts(INI)),
    "meson": Reader(_meson, texts(MESON)),
    "cmake": Reader(_cmake, texts(CMAKE)),
    "cpp": Reader(_cpp, texts(CPP)),
    "cargo": Reader(_cargo, texts(CARGO)),
    "setup": Reader(_setup, texts(SETUP)),
    "plan": Reader(_plan, texts(PLAN)),
    "whole-plan": Reader(_whole_plan, lambda: plan_and_receipt()[:1], kind="tree"),
    "receipt": Reader(_receipt, lambda: plan_and_receipt()[1:], kind="tree"),
    "journal": Reader(_journal, texts(JOURNAL, json.dumps(ANSWER)), kind="tree"),
    "manifest": Reader(_manifest, texts(MANIFEST, DIRECTORY, STAGED), kind="tree"),
    "listing": Reader(_listing, texts(LISTING), kind="tree"),
    "page": Reader(_page, texts(PAGE, PAGE_JSON), kind="tree"),
    "sdist": Reader(_sdist, sdists, kind="binary"),
    "wheel": Reader(_wheel, archives, kind="binary"),
    "metadata": Reader(_member("METADATA"), texts(METADATA)),
    "wheel-file": Reader(_member("WHEEL"), texts(WHEEL)),
    "record": Reader(_member("RECORD"), texts("demo/__init__.py,sha256=abc,1\ndemo-1.0.dist-info/RECORD,,\n")),
    "entry-points": Reader(_member("entry_points.txt"), texts(ENTRY_POINTS)),
    "key": Reader(_pure("demo/a.pem"), texts(KEY)),
    "pth": Reader(_pure("demo.pth"), texts("import os; exec('x')\n/home/ann/src\n")),
    "python": Reader(_pure("demo/a.py"), texts(PYTHON)),
    "archive": Reader(_pure("demo/a.zip"), lambda: (nested(),), kind="binary"),
    "elf": Reader(_member("demo/_C.so"), libraries, kind="binary"),
    "pe": Reader(_member("demo/_C.pyd"), windows, kind="binary"),
    "fatbinary": Reader(_member("demo/a.fatbin"), fatbinaries, kind="binary"),
    "patterns": Reader(_patterns, texts(PATTERNS)),
    "addresses": Reader(_addresses, texts(PRINTED)),
    "observed": Reader(_observed, texts(SETUP, EXTENSION, TORCH)),  # each starts a confined Python, or several
}
