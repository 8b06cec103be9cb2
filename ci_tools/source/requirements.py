"""The requirements of a project and of its build, and what they say of torch."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from packaging.utils import canonicalize_name

from ci_tools import catalog
from ci_tools.catalog.providers import bring_all, distribution_of
from ci_tools.model.evidence import Binding, Requirement, TorchAbi
from ci_tools.model.versions import name_of_required, read_required
from ci_tools.source.files import CODE
from ci_tools.source.includes import SourceLine
from ci_tools.source.project_file import ProjectFile
from ci_tools.source.syntax import parse_module

SETUP_REQUIRES = re.compile(r"\bsetup_requires\s*\+?=\s*[\[(]([^\])]*)[\])]")
MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)[\w.]*'")
FINDS_TORCH = re.compile(r"^[^#\n]*\bfind_package\s*\(\s*Torch\b", re.IGNORECASE | re.MULTILINE)
# The packages of the modules that observed code can import without an installation.
IMPORTED = {"Cython": "cython", "cython": "cython", "ninja": "ninja", "numpy": "numpy", "packaging": "packaging",
            "psutil": "psutil", "pybind11": "pybind11", "torch": "torch"}  # fmt: skip


def doubt_torch_abi(abi: TorchAbi, project: ProjectFile) -> TorchAbi:
    """Return the torch ABI that remains when the build requirements are known.

    It is UNKNOWN if the build requires torch but no file includes a torch header.
    """
    abi = exclude_torch(abi, project)
    for requirement, place in build_requirements(project):
        if abi.kind is Binding.NONE and name_of_required(requirement) == "torch":
            where = f"{place}: {requirement} is a build requirement, but no file includes one of its headers"
            return TorchAbi(Binding.UNKNOWN, where, uses_torch=True)
    return abi


def exclude_torch(abi: TorchAbi, project: ProjectFile, default: Sequence[str] = ()) -> TorchAbi:
    """Return NONE in place of an unknown torch ABI if nothing brings torch to the build.

    A build is isolated, and has no other packages than it requires (PEP 517); `default` are those of one that says
    nothing.
    """
    required = [name_of_required(text) for text in project.build_requires()] or default
    if abi.kind is Binding.UNKNOWN and not abi.uses_torch and _bring_no_torch(required):
        place = project.place("build-system", "requires")
        return TorchAbi(Binding.NONE, f"{place}: none of its build requirements brings torch")
    return abi


def _bring_no_torch(required: Iterable[str]) -> bool:
    """Whether packages bring no torch, neither by themselves nor by what they require, as far as that is known."""
    installed = catalog.load().list_installed(required)
    return installed is not None and "torch" not in installed


def build_requirements(project: ProjectFile) -> list[tuple[str, str]]:
    """Return the build requirements of the project and of its config, each with its place."""
    place = str(project.place("build-system", "requires"))
    own = [(str(requirement), place) for requirement in project.list("build-system", "requires")]
    return [*own, *((requirement, project.request.config) for requirement in project.request.build.requires)]


def list_setup_requires(project: ProjectFile) -> list[str]:
    """Return what setup.py or setup.cfg asks for by setup_requires: an isolated build gets that as well (PEP 517)."""
    said = project.setting("options", "setup_requires").splitlines()
    for listed in SETUP_REQUIRES.findall(project.tree.text(project.path("setup.py"))):
        said += re.findall(r"""["']([A-Za-z][^"']*)["']""", listed)
    return said


def list_undeclared(project: ProjectFile, imports: Iterable[str]) -> tuple[str, ...]:
    """Return the packages of imported modules that neither `build-system.requires` lists nor the config."""
    required = set(map(name_of_required, project.build_requires()))
    return tuple(sorted({IMPORTED[module] for module in imports if module in IMPORTED} - required))


def explain_missing_module(error: str, project: ProjectFile) -> str:
    """Return what to write, if a build fails for a module that none of its requirements has; "" otherwise."""
    found = MISSING.fullmatch(error)
    if not found or any(re.search(rf"(^|/){found[1]}(\.py$|/)", name) for name in project.tree.files):
        return ""
    package = distribution_of(found[1])
    return f", which no build requirement has: name it in the config, `build: {{requires: [{package}]}}`"


def explain_torch_of_cmake(project: ProjectFile) -> str:
    """Return where cmake looks for torch, if nothing declares it for the build; "" otherwise."""
    if not list_undeclared(project, ("torch",)):
        return ""
    for name in project.tree.files:
        if name.endswith(("CMakeLists.txt", ".cmake")) and PurePosixPath(name).is_relative_to(project.folder):
            text = project.tree.text(name)
            if found := FINDS_TORCH.search(text):
                place = SourceLine.at(name, text, found.end())
                return f"{place}: cmake looks for torch, so its build gets that, which nothing declares"
    return ""


def torch_requirement(requirements_of: Iterable[tuple[str, object]]) -> Requirement:
    """Return the torch versions that the requirements without an environment marker ask for."""
    found = Requirement()
    for text, place in requirements_of:
        required = read_required(text)
        if required and required.name == "torch" and not required.has_marker:
            specifier = ",".join(filter(None, (found.specifier, required.specifier)))
            found = Requirement(specifier, found.where or str(place))
    return found


# ---------------------------------------------------------------- what imports need

# Only what is certain by the text counts: imports that run whenever the package is imported, of a package that an extra
# of the project names, or that nothing which the project requires could bring.
LEFT_TO_USERS = frozenset({"numpy", "torch"})  # what projects use and often do not declare
EXTRA = re.compile(r"\bextra\s*==\s*['\"]([^'\"]+)")  # the marker of an extra in METADATA: extra == 'gpu'
PASSED_OVER = frozenset({"BaseException", "Exception", "ImportError", "ModuleNotFoundError"})
MAKERS = ("setup.py", "setup.cfg", "pyproject.toml", "CMakeLists.txt", "meson.build", "Cargo.toml")  # they name modules
MAX_FILES = 200  # of a package; what its import reaches is mostly far less


class Lacking(NamedTuple):
    """A requirement of an import that is not one of the project, the place of the import, and the extra that has it."""

    requirement: str
    module: str  # the one of the package that is imported
    place: SourceLine
    extra: str  # "": none has it

    def __str__(self) -> str:
        """Return it as a sentence without its end."""
        who = f"only the extra {self.extra} has" if self.extra else "nothing that the project requires brings"
        return f"`import {self.module}` needs {self.requirement} ({self.place}), which {who}"


def find_lacking(project: ProjectFile, modules: Iterable[str], metadata: Sequence[str]) -> tuple[Lacking, ...]:
    """Return what importing some modules of a project needs that is not installed with it, each requirement once.

    `metadata` are the fields that its observed build writes; without them and a [project] table, nothing is known.
    """
    observed = [line.partition(": ")[2] for line in metadata if line.startswith("Requires-Dist: ")]
    if not metadata and (not project.table("project") or "dependencies" in project.list("project", "dynamic")):
        return ()
    required = [*(text for text, _ in project.dependencies()), *(text for text in observed if not EXTRA.search(text))]
    known = {*map(name_of_required, required), *map(name_of_required, project.request.validate.requires)}
    known |= {"torch"} if project.request.validate.torch else set()
    extras = dict(_extras(project, observed))
    found: dict[str, Lacking] = {}
    for module in modules:
        for top, place in _ImportReader(project).imports(module):
            name = _find_distribution(project, top)
            others = [*map(name_of_required, required)]
            is_left = name in LEFT_TO_USERS and (not others or _bring_no_torch(others))
            is_lacking = name in extras or is_left or _is_brought_by_none(project, module, top, name, known)
            if is_lacking and name not in known:
                found.setdefault(name, Lacking(name, module, place, extras.get(name, "")))
    return tuple(found.values())


def _find_distribution(project: ProjectFile, top: str) -> str:
    """Return the distribution of a module: by the table, or as the project's requirements.txt has a longer name of it.

    dm-tree, of which `tree` is a module, is not the distribution of that name.
    """
    name = canonicalize_name(re.split("[<>=!~ ]", distribution_of(top))[0])
    lines = project.tree.text(project.path("requirements.txt")).splitlines()
    listed = {name_of_required(line.partition(" #")[0]) for line in lines}
    longer = {one for one in listed if name in one.split("-") and name == canonicalize_name(top)}
    return longer.pop() if len(longer) == 1 else name


def _is_brought_by_none(project: ProjectFile, module: str, top: str, name: str, known: Iterable[str]) -> bool:
    """Whether what one of the project's modules imports is of another project, and no known requirement brings it."""
    brought = bring_all(known)
    if brought is None or name in brought or top in sys.stdlib_module_names:  # None: not known
        return False
    own = filter(None, (project.own_name("") or project.request.name, module.partition(".")[0]))
    if top.startswith("_") or name.startswith(tuple(map(canonicalize_name, own))):
        return False  # it may be an extension module of the project's own
    if any(top in {part.partition(".")[0] for part in PurePosixPath(file).parts} for file in project.tree.files):
        return False
    # PYBIND11_MODULE(TOP, m), add_library(TOP …), or set(NAME TOP) before an add_library(${NAME} …)
    called = rf"""(?:library|module|set)\s*\(\s*(?:\w+\s+)?["']?{re.escape(top)}\b|\bPyInit_{re.escape(top)}\b"""
    made, quoted = re.compile(called, re.IGNORECASE), re.compile(rf"""["'][\w.]*\b{re.escape(top)}\b""", re.IGNORECASE)
    makers = (file for file in project.tree.files if file.endswith((*MAKERS, ".cmake", *CODE)))
    outer = map(project.tree.text, map(project.path, MAKERS))
    return not any(map(quoted.search, outer)) and not any(map(made.search, map(project.tree.text, makers)))


def _extras(project: ProjectFile, observed: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the packages that extras name, each with its extra."""
    for extra, texts in project.table("project", "optional-dependencies").items():
        yield from ((name_of_required(str(text)), extra) for text in (texts if isinstance(texts, list) else ()))
    yield from ((name_of_required(text), found[1]) for text in observed if (found := EXTRA.search(text)))


class _ImportReader:
    """Reads the files of a package that its import runs."""

    def __init__(self, project: ProjectFile) -> None:
        self.tree = project.tree
        self.prefix = project.path("x").removesuffix("x")
        self.seen: set[str] = set()

    def imports(self, module: str) -> Iterator[tuple[str, SourceLine]]:
        """Yield the top names of all modules outside the package that importing one of its modules imports."""
        package = module.replace(".", "/")
        endings = (f"/{package}/__init__.py", f"/{package}.py")
        found = (name for name in self.tree.files if name.startswith(self.prefix))
        if near := [name for name in found if f"/{name.removeprefix(self.prefix)}".endswith(endings)]:
            own = min(near, key=lambda name: (name.count("/"), name))  # the outermost: others are of its parts
            root = own.removesuffix(next(end[1:] for end in endings if f"/{own}".endswith(end)))
            yield from self._read(root, own)

    def _read(self, root: str, file: str) -> Iterator[tuple[str, SourceLine]]:
        if file in self.seen or len(self.seen) > MAX_FILES:
            return
        self.seen.add(file)
        module = parse_module(self.tree.text(file))
        if module is None:
            return
        package = file.removeprefix(root).removesuffix(".py").split("/")[:-1]  # [""] for its __init__.py
        for node, name in _imported(module.body, package):
            path = root + name.replace(".", "/")
            own = next((one for one in (f"{path}/__init__.py", f"{path}.py") if one in self.tree.names), "")
            if own:
                yield from self._read(root, own)
            elif not name.startswith(f"{package[0] if package else ''}."):
                yield name.partition(".")[0], SourceLine(file, node.lineno)


def _imported(body: Iterable[ast.stmt], package: Sequence[str]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the names of the modules that statements import in any case: not those of a condition or an attempt."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *filter(None, [node.module])))
            yield node, base
            if node.level or f"{'.'.join(package)}.".startswith(f"{base}."):  # of the package, or of one above it
                yield from ((node, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Try) and not any(map(_passes_over, node.handlers)):
            yield from _imported([*node.body, *node.finalbody], package)


def _passes_over(handler: ast.ExceptHandler) -> bool:
    """Whether a handler goes on where an import fails."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {ast.unparse(kind) if kind else "BaseException" for kind in kinds}
    return bool(names & PASSED_OVER) and not any(isinstance(node, ast.Raise) for node in ast.walk(handler))
