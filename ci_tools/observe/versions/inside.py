"""Asks a project's build backend for its version, in a copy of its checkout: `python -I -S inside.py REQUEST.json`.

Each view of the repository, which has some of its tags, is asked in a process of its own, since tools keep what git
answered. The answers go into a file; what the project prints goes to the log.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import json
import os
import pkgutil
import re
import subprocess
import sys
import tarfile
import tempfile
import traceback
import types
from pathlib import Path
from typing import Any

# ruff: noqa: ANN401 - stand-ins take the place of whatever a project imports


class Anything(str):
    """A value of a module that is not installed here: what it does is of no account for the version.

    A text, as Python wants one of `__repr__` and `__fspath__`, and a project's may pass it on.
    """

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name) if name.startswith("__") else self

    def __setattr__(self, name: str, _: Any) -> None:
        """Let a project change what is not here."""

    __setitem__ = __setattr__

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Return the same."""
        return self

    def __getitem__(self, _: Any) -> Any:
        return self

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return ()

    def __iter__(self) -> Any:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __lt__(self, _: Any) -> bool:
        return False

    __le__ = __gt__ = __ge__ = __contains__ = __lt__

    def __add__(self, other: Any) -> Any:
        return other

    __radd__ = __add__

    def __int__(self) -> int:
        return 0

    __index__ = __len__ = __int__

    def __str__(self) -> str:
        return "not installed here"  # no version, so none can be made of it

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__config__":  # a module of torch's
            raise AttributeError(name)
        return os.environ.get(name) if name == "CUDA_HOME" else Anything(os.devnull)


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of the build requirements that are left out, such as torch: large, and of no account here."""

    def __init__(self, names: list[str], version: str) -> None:
        self.names, self.version = {name.lower() for name in names}, version

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """Find a stand-in; asked last, after what is installed or in the source."""
        is_left_out = name.partition(".")[0].lower() in self.names
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_left_out else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return the stand-in."""
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Give it a version; all other names are there."""
        module.__version__ = self.version  # type: ignore[attr-defined]


def main() -> None:
    """Write the version for each view of the repository into the file that the request names."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.path[:0] = request["path"]
    if request["setuptools"]:  # before a stand-in for Cython could become the base of its build_ext
        _prepare_setuptools()
    sys.meta_path.append(StandIns(request["left_out"], request["torch"]))
    os.chdir(request["project"])
    sys.path[:0] = [str(Path(request["project"], part)) for part in request["backend_path"]]
    used = Path(request["used"])
    before = _read_files(request["project"])
    answers: dict[str, Any] = {}
    for name, tags in request["views"].items():
        if answers and not used.exists():
            break  # what asks git nothing says the same for every view
        is_of_commit = answers.get("before", answers.get("all")) != answers.get("all")
        if name not in {"all", "before"} and (name == "none") == is_of_commit:
            continue  # a tag of the commit decides, so others do not; or none of them does
        if tags is not None:
            Path(request["tags"]).write_text(tags, encoding="utf-8")
        answers[name] = _ask_apart(request)
        _restore(request["project"], before)
    said = {"said": answers, "uses_git": used.exists(), "torch": request["torch"]}
    said |= _find_way(request, answers.get("all", {}), before)
    Path(request["answer"]).write_text(json.dumps(said), encoding="utf-8")


def _prepare_setuptools() -> None:
    """Import setuptools for every view, which takes the place of distutils, and have it fetch no requirement."""
    with contextlib.suppress(ImportError):  # of an old one
        importlib.import_module("setuptools.command.build_ext")
        distribution = importlib.import_module("setuptools.dist").Distribution
        distribution.fetch_build_eggs = lambda *_: []


def _find_way(request: dict[str, Any], first: dict[str, str], before: dict[str, bytes | None]) -> dict[str, Any]:
    """Return how a build gets the version without its label: by variables, a tag of the commit, or no repository."""
    public = first.get("version", "").partition("+")[0]
    if not public or (public == first["version"] and not request["is_new_tag"]):
        return {}
    variables = dict.fromkeys(request["variables"], public)
    if _ask_apart(request, variables).get("version") == public:
        return {}
    for prefix, refs in request["told"].items():
        _restore(request["project"], before)
        Path(request["tags"]).write_text(refs.replace("~", public), encoding="utf-8")
        if _ask_apart(request).get("version") == public:
            return {"told_prefix": prefix}
    repository = Path(request["tags"]).parent
    hidden = repository.with_name("hidden")
    if not repository.is_dir():
        return {"is_untold": True}
    _restore(request["project"], before)
    repository.rename(hidden)
    is_public = _ask_apart(request).get("version") == public
    hidden.rename(repository)
    return {"hides_git": True} if is_public else {"is_untold": True}


def _read_files(project: str) -> dict[str, bytes | None]:
    """Return the files of the project, and the content of those in its folder itself: there a tool may edit them."""
    found: dict[str, bytes | None] = {}
    for folder, folders, names in os.walk(project):
        folders[:] = [name for name in folders if name != ".git"]
        for path in (Path(folder, name) for name in names):
            found[str(path)] = path.read_bytes() if folder == project and path.is_file() else None
    return found


def _restore(project: str, before: dict[str, bytes | None]) -> None:
    """Undo what a view has written: poetry-dynamic-versioning edits pyproject.toml, others write a module."""
    for path in _read_files(project).keys() - before:
        Path(path).unlink()
    for path, content in before.items():
        if content is not None:
            Path(path).write_bytes(content)


def _ask_apart(request: dict[str, Any], variables: dict[str, str] | None = None) -> dict[str, str]:
    """Ask in a forked process, with more variables if there are any; return the version, or the error."""
    source, sink = os.pipe()
    child = os.fork()
    if child:
        os.close(sink)
        with os.fdopen(source, "rb") as answer:
            text = answer.read()
        os.waitpid(child, 0)
        return json.loads(text) if text else {"error": "its build ended Python"}
    os.environ.update(variables or {})
    try:
        said = {"version": _ask(request)}
    except BaseException as error:  # noqa: BLE001 - any error of a project is the answer
        traceback.print_exc()
        lines = str(error).strip().splitlines()
        said = {"error": f"{type(error).__name__}: {lines[0] if lines else ''}"}
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(sink, json.dumps(said).encode())
    os._exit(0)


def _ask(request: dict[str, Any]) -> str:
    if request["setuptools"]:
        return _ask_setuptools()
    if request["backend"] == "mesonpy":
        return _ask_meson()
    backend = pkgutil.resolve_name(request["backend"] + ":" * (":" not in request["backend"]))
    folder = Path(tempfile.mkdtemp())  # scikit-build-core refuses one that has its metadata already
    found = re.search(r"^Version: *(\S+)", _make_metadata(backend, folder), re.MULTILINE)
    return found[1] if found else ""


def _make_metadata(backend: Any, folder: Path) -> str:
    """Return the metadata of a wheel; those of an sdist from a backend without the hook, as PEP 517 allows."""
    if hasattr(backend, "prepare_metadata_for_build_wheel"):
        made = Path(folder, backend.prepare_metadata_for_build_wheel(str(folder)), "METADATA")
        return made.read_text(encoding="utf-8")
    with tarfile.open(folder / backend.build_sdist(str(folder))) as sdist:
        name = next(one for one in sdist.getnames() if re.fullmatch("[^/]+/PKG-INFO", one))
        return b"".join(sdist.extractfile(name) or ()).decode()


def _ask_meson() -> str:
    """Return the version that Meson prints, once it has run what `project()` computes it with.

    That is before it looks for a compiler, where it is stopped. meson-python itself would go on.
    """
    main = "from mesonbuild.mesonmain import main; raise SystemExit(main())"
    command = ["python3", "-u", "-c", main, "setup", "--wrap-mode=nodownload", tempfile.mkdtemp()]
    error = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as meson:
        for line in meson.stdout or ():
            sys.stdout.write(line)
            if line.startswith("Project version:"):
                meson.kill()
                return line.partition(":")[2].strip()
            error = line.strip() if "ERROR:" in line else error
    raise ValueError(error or "Meson ends without a version")


def _ask_setuptools() -> str:
    """Return the version of the distribution that setup.py makes, once setuptools has read its configuration."""
    importlib.import_module("setuptools")  # it takes the place of distutils
    core = importlib.import_module("distutils.core")
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = ["setup.py"]
    with contextlib.redirect_stdout(sys.stderr):
        try:
            return _run_setup(core) if Path("setup.py").exists() else _run_bare(core)
        except BaseException:
            # A module that is not installed here may end setup.py; pyproject.toml may say where the version is.
            with contextlib.suppress(BaseException):
                if version := _run_bare(core):
                    return version
            raise


def _run_setup(core: Any) -> str:
    return str(core.run_setup("setup.py", stop_after="config").metadata.version or "")


def _run_bare(core: Any) -> str:
    Path("setup.py").write_text("from setuptools import setup\nsetup()\n", encoding="utf-8")
    return _run_setup(core)


if __name__ == "__main__":
    main()
