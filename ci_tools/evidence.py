"""From a source tree to evidence: what would be compiled, for which platform, against which ABI, and where it says so.

It depends on the source and the request alone, never on the machine that reads it.
"""

from __future__ import annotations

import ast
import configparser
import re
import sys
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ci_tools.errors import InputError
from ci_tools.model import (
    Binding,
    Evidence,
    Extensions,
    Minor,
    PlatformEvidence,
    Project,
    PythonApi,
    TorchAbi,
)
from ci_tools.source import matching

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.model import PlatformRequest, Request
    from ci_tools.source import Tree

__all__ = ["gather"]

NEVER_COMPILE = frozenset({"flit_core.buildapi", "poetry.core.masonry.api", "pdm.backend", "uv_build"})
ALWAYS_COMPILE = frozenset({"mesonpy", "maturin", "scikit_build_core.setuptools.build_meta"})
SETUPTOOLS = frozenset({"setuptools.build_meta", "setuptools.build_meta:__legacy__"})
STABLE_HEADERS = ("torch/csrc/stable/", "torch/headeronly/", "torch/csrc/inductor/aoti_torch/c/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
TORCH_HEADER = re.compile(r"^(torch|ATen|c10|caffe2)/")
TORCH_TARGET = re.compile(r"TORCH_TARGET_VERSION\D{1,6}?0[xX]([0-9a-fA-F]{2})([0-9a-fA-F]{2})[0-9a-fA-F]{12}")
BUILD_FILES = ("CMakeLists.txt", "setup.py", "pyproject.toml", "meson.build")


class Place(NamedTuple):
    """A file of the source and a line in it."""

    file: str
    line: int

    def __str__(self) -> str:
        """Return `file:line`."""
        return f"{self.file}:{self.line}"


def gather(request: Request, tree: Tree) -> Evidence:
    """Read the evidence for every platform of the request.

    Raises InputError where the source has no project to build, or its version cannot be known.
    """
    project = _Project(request, tree)
    return Evidence(
        project=project.facts(),
        source_sha256=tree.sha256,
        commit=tree.commit,
        platforms=tuple(_platform(project, tree, platform) for platform in request.platforms),
    )


def _platform(project: _Project, tree: Tree, request: PlatformRequest) -> PlatformEvidence:
    native = matching(tree.files, request.native)
    extensions, where = project.extensions(dict(request.env))
    return PlatformEvidence(
        platform=request.platform,
        native_files=native,
        extensions=extensions,
        extensions_where=where,
        python_api=project.python_api(),
        torch_abi=_torch_abi(tree, native, project.build_files()),
    )


def _line_of(text: str, pattern: str) -> int:
    """Return the line, from 1, of the first match, or 1."""
    match = re.search(pattern, text, re.MULTILINE)
    return text.count("\n", 0, match.start()) + 1 if match else 1


# ---------------------------------------------------------------- pyproject.toml and its kin


class _Project:
    """The build configuration of the project in a tree."""

    def __init__(self, request: Request, tree: Tree) -> None:
        self.request = request
        self.tree = tree
        self.folder = PurePosixPath(request.subdirectory)
        self.pyproject_path = self.path("pyproject.toml")
        self.pyproject_text = tree.text(self.pyproject_path)
        if not self.pyproject_text and not tree.text(self.path("setup.py")):
            msg = f"{request.config}: the source has neither {self.pyproject_path} nor {self.path('setup.py')}"
            raise InputError(msg, hint="name the project's folder with `source: {subdirectory: …}`")
        self.pyproject = self._parsed()
        self.backend = self.table("build-system").get("build-backend", "setuptools.build_meta:__legacy__")

    def _parsed(self) -> dict[str, Any]:
        try:
            parsed: dict[str, Any] = tomllib.loads(self.pyproject_text)
        except tomllib.TOMLDecodeError as error:
            msg = f"{self.pyproject_path}: this is not TOML: {error}"
            raise InputError(msg) from None
        return parsed

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def table(self, *names: str) -> dict[str, Any]:
        """Return a table of pyproject.toml, empty where it has none."""
        value: Any = self.pyproject
        for name in names:
            value = value.get(name, {}) if isinstance(value, dict) else {}
        return value if isinstance(value, dict) else {}

    def place(self, pattern: str) -> Place:
        return Place(self.pyproject_path, _line_of(self.pyproject_text, pattern))

    def build_files(self) -> tuple[str, ...]:
        """Return the files that hold compile flags, in and above the project's folder."""
        return tuple(name for name in self.tree.files if PurePosixPath(name).name in BUILD_FILES)

    # -- what it is

    def facts(self) -> Project:
        own = self.table("project").get("name") or self.setup_cfg().get("metadata", "name", fallback="")
        name = str(own or self.request.name)
        if canonicalize_name(name) != canonicalize_name(self.request.name):
            where = self.place(r"^\s*name\s*=")
            msg = f'{where}: the project is "{name}", but {self.request.config} says package: {self.request.name}'
            raise InputError(msg)
        return Project(
            name=name,
            version=self.version(),
            requires_python=self.table("project").get("requires-python", ""),
            backend=self.backend,
            where=str(self.place(r"^\s*requires-python\s*=")),
        )

    def version(self) -> str:
        version = self.request.version or self.table("project").get("version", "")
        version = version or self.setup_cfg().get("metadata", "version", fallback="")
        if not version or version.startswith(("attr:", "file:")):
            msg = f"{self.pyproject_path}: the project's version is dynamic"
            raise InputError(msg, hint=f'say it in {self.request.config}: `version: "1.2.3"`')
        try:
            return str(Version(version))
        except InvalidVersion:
            place = self.place(r"^\s*version\s*=")
            msg = f'{place}: "{version}" is not a version (PEP 440)'
            raise InputError(msg) from None

    def setup_cfg(self) -> configparser.ConfigParser:
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read_string(self.tree.text(self.path("setup.cfg")))
        except configparser.Error as error:
            msg = f"{self.path('setup.cfg')}: cannot be parsed: {error.message.splitlines()[0]}"
            raise InputError(msg) from None
        return parser

    # -- what it compiles

    def extensions(self, env: dict[str, str]) -> tuple[Extensions, str]:
        """Whether the build compiles anything when it sees `env`, and where that is written."""
        backend = str(self.place(r"^\s*build-backend\s*="))
        if self.backend in NEVER_COMPILE:
            return Extensions.NONE, f"{backend}: {self.backend} never compiles"
        if self.backend in ALWAYS_COMPILE:
            return Extensions.SOME, f"{backend}: {self.backend} compiles"
        if self.backend == "scikit_build_core.build":
            return self.scikit_build_core(env)
        if self.backend == "hatchling.build":
            hooks = bool(self.table("tool", "hatch", "build", "hooks"))
            found = Extensions.UNKNOWN if hooks else Extensions.NONE
            return found, f"{backend}: hatchling with{'' if hooks else 'out'} build hooks"
        if self.backend in SETUPTOOLS and not self.table("build-system").get("backend-path"):
            return self.setuptools()
        return Extensions.UNKNOWN, f"{backend}: what {self.backend} compiles is not known"

    def scikit_build_core(self, env: dict[str, str]) -> tuple[Extensions, str]:
        """scikit-build-core runs CMake unless `wheel.cmake` is false; overrides may set it by environment."""
        settings = self.table("tool", "scikit-build")
        runs = settings.get("wheel", {}).get("cmake", True)
        place = self.place(r"^\s*wheel\.cmake\s*=|^\s*cmake\s*=\s*(true|false)")
        where = f"{place}: wheel.cmake = {str(runs).lower()}"
        for override in settings.get("overrides", ()):
            sets = override.get("wheel", {}).get("cmake")
            if sets is None or sets == runs:
                continue
            holds = _holds(override.get("if", {}), env)
            if holds is None:
                return Extensions.UNKNOWN, f"{where}, with an override that depends on the machine"
            if holds:
                runs, where = (
                    sets,
                    f"{self.override_place()}: wheel.cmake = {str(sets).lower()} with the platform's env",
                )
        return (Extensions.SOME if runs else Extensions.NONE), where

    def override_place(self) -> Place:
        return self.place(r"^\s*\[\[\s*tool\.scikit-build\.overrides\s*\]\]")

    def setuptools(self) -> tuple[Extensions, str]:
        if self.table("tool", "setuptools").get("ext-modules"):
            return Extensions.SOME, f"{self.place('ext-modules')}: ext-modules"
        path = self.path("setup.py")
        text = self.tree.text(path)
        if not text:
            return Extensions.NONE, f"{self.pyproject_path}:1: setuptools without a setup.py"
        try:
            keywords = list(_setup_keywords(ast.parse(text)))
        except SyntaxError as error:
            return Extensions.UNKNOWN, f"{path}:{error.lineno or 1}: not Python that can be read here"
        for keyword in keywords:
            if keyword.arg in {None, "ext_modules", "cffi_modules", "rust_extensions", "cmdclass", "distclass"}:
                return (
                    Extensions.UNKNOWN,
                    f"{path}:{keyword.value.lineno}: setup({keyword.arg or '**…'}) decides when it runs",
                )
        return Extensions.NONE, f"{path}:1: setup() names no extensions"

    # -- against which Python

    def python_api(self) -> PythonApi:
        """Which Python C API the compiled code declares."""
        declared = self.table("tool", "scikit-build", "wheel").get("py-api", "")
        if self.backend == "scikit_build_core.build" and declared:
            return _declared_api(declared, str(self.place(r"py-api\s*=")))
        limited = self.table("tool", "distutils", "bdist_wheel").get("py-limited-api", "")
        if limited:
            return _declared_api(limited, str(self.place(r"py-limited-api\s*=")))
        limited = self.setup_cfg().get("bdist_wheel", "py_limited_api", fallback="")
        if limited:
            line = _line_of(self.tree.text(self.path("setup.cfg")), r"py_limited_api\s*=")
            return _declared_api(limited, str(Place(self.path("setup.cfg"), line)))
        return PythonApi(Binding.FULL, f"{self.pyproject_path}:1")


def _holds(condition: dict[str, Any], env: dict[str, str]) -> bool | None:
    """Whether an override's condition holds for `env`; None where it depends on more than the environment.

    The rules are scikit-build-core's: `true` means set to something that is not false, text is a pattern.
    """
    if set(condition) - {"env", "any"} or set(condition.get("any", {})) - {"env"}:
        return None
    alternatives = condition.get("any", {}).get("env", {})
    tests = [_env_matches(env.get(name, ""), wanted) for name, wanted in condition.get("env", {}).items()]
    any_of = [_env_matches(env.get(name, ""), wanted) for name, wanted in alternatives.items()]
    return all(tests) and (any(any_of) if any_of else True)


def _env_matches(value: str, wanted: bool | str) -> bool:  # noqa: FBT001 - a value of pyproject.toml
    if isinstance(wanted, bool):
        return wanted == (value.strip().lower() not in {"", "0", "false", "off", "no", "n", "f"})
    return re.search(wanted, value) is not None


def _setup_keywords(module: ast.Module) -> Iterator[ast.keyword]:
    """Yield the keywords of every call to something named `setup`."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name == "setup":
                yield from node.keywords


def _declared_api(declared: str, where: str) -> PythonApi:
    """Read `py3` (no Python symbol at all) or `cp310` (the limited API from 3.10 on)."""
    if re.fullmatch(r"py[23]?\d*(\.py3)?", declared):
        return PythonApi(Binding.NONE, where)
    if match := re.fullmatch(r"cp3(\d{1,2})", declared):
        return PythonApi(Binding.STABLE, where, Minor(3, int(match[1])))
    return PythonApi(Binding.UNKNOWN, where)


# ---------------------------------------------------------------- the torch ABI


def _torch_abi(tree: Tree, native: Iterable[str], build_files: tuple[str, ...]) -> TorchAbi:
    """Which torch headers the native files include, following includes of the source's own files."""
    headers = list(_torch_headers(tree, native))
    for header, place in headers:
        if not header.startswith(STABLE_HEADERS):
            return TorchAbi(Binding.FULL, f"{place}: includes {header}")
    if not headers:
        return TorchAbi(Binding.NONE, "no file includes a torch header")
    header, place = headers[0]
    target = _torch_target(tree, (*build_files, *native))
    if target is None:
        return TorchAbi(Binding.UNKNOWN, f"{place}: includes {header}, but nothing sets TORCH_TARGET_VERSION")
    version, where = target
    return TorchAbi(Binding.STABLE, f"{where}: TORCH_TARGET_VERSION {version}, and only stable headers", version)


def _torch_headers(tree: Tree, native: Iterable[str]) -> Iterator[tuple[str, Place]]:
    """Yield every torch header the files reach, and the line that includes it."""
    named: dict[str, list[str]] = {}
    for file in tree.files:
        named.setdefault(PurePosixPath(file).name, []).append(file)
    queue, seen = sorted(native), set(native)
    while queue:
        file = queue.pop(0)
        text = tree.text(file)
        for match in INCLUDE.finditer(text):
            header = match[1]
            if TORCH_HEADER.match(header):
                yield header, Place(file, text.count("\n", 0, match.start()) + 1)
            own = [found for found in _meant(named, header) if found not in seen]
            seen.update(own)
            queue.extend(own)


def _meant(named: dict[str, list[str]], header: str) -> list[str]:
    """Return the source's own files an include may mean: beside the includer, or below any include folder."""
    tail = "/" + re.sub(r"^(\.{1,2}/)+", "", header)
    return [file for file in named.get(PurePosixPath(header).name, ()) if f"/{file}".endswith(tail)]


def _torch_target(tree: Tree, files: Iterable[str]) -> tuple[Minor, Place] | None:
    """Return the torch version the source targets, and where it says so."""
    for name in files:
        text = tree.text(name)
        if match := TORCH_TARGET.search(text):
            place = Place(name, text.count("\n", 0, match.start()) + 1)
            return Minor(int(match[1], 16), int(match[2], 16)), place
    return None
