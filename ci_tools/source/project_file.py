"""Reads `pyproject.toml`, `setup.cfg` and `PKG-INFO`: a project's facts, each with its file and line."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools.errors import InputError
from ci_tools.formats.toml import parse_toml
from ci_tools.model.evidence import Project
from ci_tools.model.names import ProjectName, VersionText
from ci_tools.model.request import Request
from ci_tools.model.versions import parse_version, read_poetry
from ci_tools.source.files import Tree
from ci_tools.source.includes import SourceLine
from ci_tools.source.versions import OwnVersion, read_file_version, read_name

if TYPE_CHECKING:
    import configparser


TABLE = re.compile(r"\s*\[+\s*([^\]]+?)\s*\]")
KEY = re.compile(r"\s*([\w.\"'-]+?)\s*=")
UNTOLD = "0.0.0"  # the version that setuptools reports where none is stated
STATE_VERSIONS = (".cfg", ".py", ".toml", ".txt", "VERSION")
LEAVE_OUT = "leave `version` out: it is then read again at each commit"
POETRY = ("tool", "poetry", "dependencies")  # where poetry-core looks for what [project] does not say
LEGACY_SETUPTOOLS = "setuptools.build_meta:__legacy__"  # the default backend (PEP 517)


class TomlFile(NamedTuple):
    """A TOML file's path in the tree, its content and its lines."""

    path: str
    content: dict[str, Any]
    lines: tuple[str, ...]

    @classmethod
    def of(cls, tree: Tree, path: str) -> TomlFile:
        """Read a file; empty if the tree does not have it. Raises InputError if it is not TOML."""
        text = tree.text(path)
        return cls(path, parse_toml(text, path), tuple(text.splitlines()))

    def value(self, *keys: str) -> Any:  # noqa: ANN401 - TOML
        """Return a value, or None if it is not set."""
        value: Any = self.content
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def table(self, *keys: str) -> dict[str, Any]:
        """Return a table; empty if it is not set."""
        value = self.value(*keys)
        return value if isinstance(value, dict) else {}

    def place(self, *words: str) -> SourceLine:
        """Return the first line that has all the words, or line 1."""
        whole = (rf"(?<![\w-]){re.escape(word)}(?![\w-])" for word in words)
        return SourceLine(self.path, _find_line(self.lines, *whole) or 1)


def table(value: object, key: str) -> dict[str, Any]:
    """Return the table `key` inside another table; empty if it is not set."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


class ProjectFile:
    """The build configuration of the requested project in a source tree."""

    def __init__(self, request: Request, tree: Tree) -> None:
        self.request = request
        self.tree = tree
        self.folder = PurePosixPath(request.subdirectory)
        self.name = self.path("pyproject.toml")
        self.lines = tree.text(self.name).splitlines()
        if not self.lines and self.path("setup.py") not in tree.names:
            msg = f"{request.config}: the source has neither {self.name} nor {self.path('setup.py')}"
            raise InputError(msg, hint="name the project's folder with `source: {subdirectory: …}`")
        self.toml = TomlFile.of(tree, self.name)
        self.value, self.table = self.toml.value, self.toml.table
        text = tree.text(self.path("setup.cfg"))
        self.setup_cfg = _ini(self.path("setup.cfg"), text) if text else None
        self.backend = self.text("build-system", "build-backend") or LEGACY_SETUPTOOLS
        self.told: OwnVersion | None = None  # the answer of the project's own tool, if it was asked
        self.untold = ""  # why the tool could not answer

    def path(self, name: str) -> str:
        """Return the path, in the tree, of one of the project's files."""
        return str(self.folder / name)

    # -- pyproject.toml

    def text(self, *keys: str) -> str:
        """Return a text, or "" if it is not set; raise InputError if it is not text."""
        value = self.value(*keys)
        if value is not None and not isinstance(value, str):
            raise InputError(f"{self.place(*keys)}: {'.'.join(keys)} is {value!r}, expected text")
        return value or ""

    def list(self, *keys: str) -> list[Any]:
        """Return a list; empty if it is not set."""
        value = self.value(*keys)
        return value if isinstance(value, list) else []

    def build_requires(self) -> tuple[str, ...]:
        """Return the requirements of the project's build: those that it declares, and those that the config adds."""
        return (*map(str, self.list("build-system", "requires")), *self.request.build.requires)

    def place(self, *keys: str) -> SourceLine:
        """Return the place of a key, or line 1 if it is not found; earlier `keys` may be dotted into the last one."""
        return SourceLine(self.name, self._lines_of_keys.get(".".join(keys), 1))

    @functools.cached_property
    def _lines_of_keys(self) -> dict[str, int]:
        """The first line of each table and of each key in it; `a[0]` is the first table of an array."""
        found: dict[str, int] = {}
        header, seen = "", [""]
        for number, line in enumerate(self.lines, 1):
            if table := TABLE.match(line):
                header = table[1]
                found.setdefault(header, number)
                found[f"{header}[{seen.count(header)}]"] = number
                seen.append(header)
            if key := KEY.match(line):
                found.setdefault(".".join(filter(None, (header, key[1]))).replace('"', ""), number)
        return found

    # -- setup.cfg

    def setting(self, section: str, name: str) -> str:
        """Return a value of setup.cfg, or ""; the words of its name may be joined by `_` or `-`."""
        if self.setup_cfg is None:
            return ""
        found = self.setup_cfg.get(section, name, fallback="")
        return found or self.setup_cfg.get(section, name.replace("_", "-"), fallback="")

    def place_of_setting(self, name: str) -> SourceLine:
        """Return the place of a name in setup.cfg, or line 1 if it is not found."""
        path = self.path("setup.cfg")
        pattern = rf"^\s*{name.replace('_', '[_-]')}\s*[=:]"
        return SourceLine(path, _find_line(self.tree.text(path).splitlines(), pattern) or 1)

    # -- the project

    def project(self, metadata: Iterable[str] = (), unseen: str = "", variables: Iterable[str] = ()) -> Project:
        """Return the project's name, version and Pythons; raise InputError if the config contradicts them.

        `metadata` are the METADATA fields that an observed build wrote; `unseen` is the reason if no build was
        observed; `variables` are those that it asked for, each with its place.
        """
        observed = dict(line.partition(": ")[::2] for line in metadata)
        name = self.own_name(observed.get("Name", "")) or self.request.name
        if canonicalize_name(name) != canonicalize_name(self.request.name):  # PEP 503
            said = f'{self._asked("package")}: package is {self.request.name}, but the project is "{name}"'
            raise InputError(f"{said} ({self._stated('name')})")
        pythons, where = self.own_pythons(observed)
        version = VersionText(self._version(observed.get("Version", ""), unseen, variables))
        told = self.told
        if told and version != told.public and version == self.read_pkg_info("Version"):
            where_from = f"{self.path('PKG-INFO')} says {version}, as no tag of the repository says a version"
            told = told._replace(version=version, said=where_from)
        by = (told.sentence, told.told_tag, told.hides_git) if told and version == told.public else ()
        return Project(ProjectName(name), version, pythons, self.backend, str(where), *by)

    def _asked(self, key: str) -> str:
        """Return the place of a key in the config, as precisely as known: there the user fixes the error."""
        config = self.request.config
        lines = self.tree.text(config).splitlines() if config in self.tree.names else []
        found = _find_line(lines, rf"""^["']?{key}["']?\s*:""")
        return f"{config}:{found}" if found else config

    def _stated(self, key: str) -> str:
        """Return the place where the project states its name or version, or that only its build states it."""
        if self.text("project", key):
            return str(self.place("project", key))
        if key == "version" and self.told:
            return self.told.sentence
        return str(self.place_of_setting(key)) if self.setting("metadata", key) else "as its build says"

    def own_name(self, observed: str) -> str:
        """Return the name that the project states, or that its observed build wrote; "" if neither does."""
        stated = self.text("project", "name") or self.setting("metadata", "name")
        return stated or observed or next(read_name(self), "")

    def stated_version(self) -> str:
        """Return the version that stands in pyproject.toml or setup.cfg; "" if it stands elsewhere."""
        own = self.text("project", "version") or self.setting("metadata", "version")
        return "" if own.startswith(("attr:", "file:")) else own

    def own_version(self, observed: str) -> str:
        """Return the version that the project, its tool, its build, its sdist or a file states; "" if none does."""
        if own := self.stated_version():
            return own
        if self.told and self.told.is_of_tag:
            return self.told.public
        is_made_up = observed == UNTOLD and not self.place_of_version(UNTOLD)  # by setuptools, where nothing states one
        seen = "" if self.told or is_made_up else observed
        stated = seen or self.read_pkg_info("Version") or read_file_version(self)
        return stated or (self.told.public if self.told else "")

    def own_pythons(self, observed: Mapping[str, str]) -> tuple[str, SourceLine]:
        """Return the `requires-python` specifier, "" if it is unset or unknown, and its place."""
        where = self.place("project", "requires-python")
        if said := self.text("project", "requires-python"):
            return said, where
        if said := self.setting("options", "python_requires"):
            return said, self.place_of_setting("python_requires")
        if self.backend.startswith("poetry") and (said := self.text(*POETRY, "python")):
            return read_poetry(said), self.place(*POETRY, "python")
        return observed.get("Requires-Python", ""), SourceLine(self.path("setup.py"), 1) if observed else where

    def dependencies(self) -> Iterator[tuple[str, SourceLine]]:
        """Yield the requirements that can be read without running code, each with its place."""
        start = self.place("project", "dependencies").line
        below = "\n".join(self.lines[start - 1 :])  # a requirement may stand elsewhere before
        for item in map(str, self.list("project", "dependencies")):
            yield item, SourceLine(self.name, start + below.count("\n", 0, max(below.find(item), 0)))
        if lines := self.setting("options", "install_requires").splitlines():
            place = self.place_of_setting("install_requires")  # found once, because it reads the whole file
            yield from ((line.strip(), place) for line in lines)
        if self.backend.startswith("poetry") and not self.list("project", "dependencies"):
            for name, said in self.table(*POETRY).items():
                if name != "python" and not (isinstance(said, dict) and said.get("optional")):
                    yield name, self.place(*POETRY, name)

    def read_pkg_info(self, field: str) -> str:
        """Return a field of PKG-INFO if the source is an sdist, else ""."""
        found = re.search(rf"^{field}: *(\S+)", self.tree.text(self.path("PKG-INFO")), re.MULTILINE)
        return found[1] if found else ""

    def _version(self, observed: str, unseen: str, variables: Iterable[str]) -> str:
        own, asked = self.own_version(observed), self.request.version
        if asked and self.told and not self.told.is_of_tag:
            own = ""  # the repository has no tag that says another
        if not own and not asked:
            why = f", and its build does not state it: {unseen}" if unseen else ""
            msg = f"{self.request.config}: it has no `version`, and the project states none ({self.name}){why}"
            raise InputError(msg, hint='add a line such as `version: "1.2.3"`')
        try:
            versions = {parse_version(version) for version in (own, asked) if version}
        except ValueError as error:  # also raised for more digits than Python converts
            raise InputError(f'{self._stated("version")}: "{own}" is not a version (PEP 440)') from error
        if len(versions) > 1:
            said = f"version is {asked}, but the project's is {own} ({self._stated('version')})"
            msg = f"{self._asked('version')}: {said}"
            hint = _hint_at(variables, "the version") if own == observed else ""
            raise InputError(msg, hint=LEAVE_OUT if self.told else hint)
        version = versions.pop()
        if version.local:
            what = f"{version} is a local version, expected a public one: each wheel gets its own +label"
            msg = f"{self._stated('version')}: {what}"
            by_build = _hint_at(variables, "the label") if own == observed else ""
            raise InputError(msg, hint=self.find_label(str(version)) or by_build)
        return str(version)

    def find_label(self, version: str) -> str:
        """Return a hint at the file that has a version's text with its label; "" if none has: something makes it."""
        place = self.place_of_version(version)
        return f"write {version.partition('+')[0]} at {place}" if place else ""

    def place_of_version(self, version: str) -> SourceLine | None:
        """Return where the first of the files that may state a version has this text."""
        texts = ((name, self.tree.text(name)) for name in self.tree.files if name.endswith(STATE_VERSIONS))
        return next((SourceLine.at(name, text, text.index(version)) for name, text in texts if version in text), None)


def _find_line(lines: Iterable[str], *patterns: str) -> int:
    """Return the number of the first line in which all the patterns are; 0 if there is none."""
    return next((number for number, line in enumerate(lines, 1) if all(re.search(one, line) for one in patterns)), 0)


def _hint_at(variables: Iterable[str], what: str) -> str:
    """Return a hint at the variables for which a build asks, if there are any."""
    asked = " and ".join(variables)
    return f"its build asks for {asked}: set the one that decides {what} by `build: {{env: …}}`" if asked else ""


def _ini(name: str, text: str) -> configparser.ConfigParser:
    import configparser  # noqa: PLC0415 - most projects have no setup.cfg

    parser = configparser.ConfigParser(interpolation=None)  # a % is only a character, as in setuptools
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise InputError(f"{name}: cannot be parsed: {error.message.splitlines()[0]}") from error
    return parser
