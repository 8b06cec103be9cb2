"""Reads the jobs of a workflow file that call pytorch/test-infra's reusable workflows, and their inputs."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.catalog import Catalog, TorchRelease
from ci_tools.catalog.accelerators import KINDS
from ci_tools.catalog.tables import parse
from ci_tools.errors import InputError, Problem, RejectedInput, nearest
from ci_tools.formats import yaml_file
from ci_tools.formats.yaml_file import Document
from ci_tools.model.names import Name
from ci_tools.model.platforms import Platform

MATRIX = "generate_binary_build_matrix"
BUILDS = {"build_wheels_linux": "linux", "build_wheels_windows": "windows", "build_wheels_macos": "macos-arm64"}
# Matches forks as well, and paths: test-infra calls its own workflows by path.
USES = re.compile(r"(?:[\w.-]+/test-infra/|\./)\.github/workflows/(?P<name>[\w.-]+)\.ya?ml(?:@.*)?")
EXPRESSION = re.compile(r"\$\{\{")
OF_MATRIX = re.compile(r"\$\{\{\s*matrix\.([\w-]+)\s*\}\}")  # ${{ matrix.package }}
NEEDED = re.compile(r"needs\.([\w-]+)\.outputs")  # build-matrix: ${{ needs.generate-matrix.outputs.matrix }}


class Given(NamedTuple):
    """An input's value, as text, and its place."""

    value: str
    where: str  # file:line

    @property
    def is_known(self) -> bool:
        """Whether it is plain text, not an expression that only a run can evaluate."""
        return not EXPRESSION.search(self.value)


class Caller(NamedTuple):
    """One job that builds wheels with test-infra, and the inputs of the job that makes its matrix."""

    file: str
    where: str  # file:line of the job
    builds: str  # linux, windows, macos-arm64
    inputs: Mapping[str, Given]
    matrix: Mapping[str, Given]
    secrets: Mapping[str, Given]
    on: Any  # the workflow's triggers


def read(path: Path, name: str) -> list[Caller]:
    """Return the jobs of the workflow file at `path`, called `name` in messages, that build wheels with test-infra.

    Raises InputError if the file is not a workflow, or none of its jobs builds wheels with test-infra.
    """
    document = yaml_file.read(path, name)
    jobs = _value_at(document, "jobs")
    if not isinstance(jobs, dict) or not all(isinstance(job, dict) for job in jobs.values()):
        msg = f"{document.where(('jobs',))}: this is not a workflow, expected `jobs:` with a mapping for each job"
        raise InputError(msg)
    called = {job: _workflow_name(document, job) for job in jobs}
    callers = [_caller(document, job, called) for job, workflow in called.items() if workflow in BUILDS]
    if not callers:
        raise _no_caller(document, called)
    return callers


def _value_at(document: Document, *keys: str) -> Any:  # noqa: ANN401 - YAML
    """Return the value at `keys`, or None if it is missing."""
    value: Any = document.value
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _workflow_name(document: Document, job: str) -> str:
    """Return the name of the test-infra workflow that a job calls, or "" if it calls none."""
    uses = _value_at(document, "jobs", job, "uses")
    found = USES.fullmatch(uses) if isinstance(uses, str) else None
    return found["name"] if found else ""


def _no_caller(document: Document, called: Mapping[str, str]) -> InputError:
    """Return the error for a workflow without a wheel build by test-infra, with the nearest name if a job calls one."""
    known = [*BUILDS, MATRIX]
    for job, workflow in called.items():
        if workflow and workflow not in known:
            what = f"the job {job} calls test-infra's {workflow}.yml, {nearest(workflow, known)}"
            return RejectedInput([Problem(document.where(("jobs", job, "uses")), what)])
    expected = "expected one with `uses: pytorch/test-infra/.github/workflows/build_wheels_linux.yml@…`"
    what = f"no job builds wheels with test-infra, {expected}"
    return RejectedInput([Problem(document.where(("jobs",), key=True), what)])


def _caller(document: Document, job: str, called: Mapping[str, str]) -> Caller:
    inputs = _input_values(document, job, "with")
    matrix = _matrix_job(document, job, inputs, called)
    return Caller(
        file=document.name,
        where=_line(document.where(("jobs", job), key=True)),
        builds=BUILDS[called[job]],
        inputs=inputs,
        matrix=_input_values(document, matrix, "with") if matrix else {},
        secrets=_input_values(document, job, "secrets"),
        on=_value_at(document, "on"),
    )


def _line(where: str) -> str:
    """Return `file:line` of `file:line:column`."""
    return where.rpartition(":")[0]


def _matrix_job(document: Document, job: str, inputs: Mapping[str, Given], called: Mapping[str, str]) -> str:
    """Return the job that makes a build's matrix: the one it names, or one that the named job needs."""
    given = inputs.get("build-matrix")
    named = NEEDED.search(given.value) if given else None
    makers = [name for name, workflow in called.items() if workflow == MATRIX]
    if named and named[1] in makers:
        return named[1]
    needed = [name for name in _needs(document, named[1] if named else job) if name in makers]  # one may filter it
    return (needed or makers or [""])[0]


def _needs(document: Document, job: str) -> list[str]:
    needs = _value_at(document, "jobs", job, "needs")
    return [needs] if isinstance(needs, str) else [name for name in _list(needs) if isinstance(name, str)]


def _input_values(document: Document, job: str, table: str) -> dict[str, Given]:
    """Return the values of a job's inputs or secrets, with the values of a single-row matrix filled in."""
    keys = ("jobs", job, table)
    given = _value_at(document, *keys)
    if not isinstance(given, dict):  # missing, or `secrets: inherit`
        return {}
    found = {name: Given(_text(value), _line(document.where((*keys, name), key=True))) for name, value in given.items()}
    rows = _rows(document, job)
    if len(rows) > 1 and any(OF_MATRIX.search(one.value) for one in found.values()):
        what = f"the job {job} builds {len(rows)} packages, expected one: a fatwheel.yml is for one package"
        raise RejectedInput([Problem(document.where(("jobs", job, "strategy")), what)])
    row = rows[0] if rows else {}
    return {name: one._replace(value=_expand_matrix(one.value, row)) for name, one in found.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)  # as GitHub writes it


def _expand_matrix(text: str, row: Mapping[str, object]) -> str:
    """Return a text with the matrix row's values in place of its expressions; missing values are empty."""
    return OF_MATRIX.sub(lambda found: _text(row.get(found[1])), text) if row else text  # no row: left as it is


def _rows(document: Document, job: str) -> list[dict[str, Any]]:
    """Return the rows of a job's own matrix, as far as it is written out literally."""
    matrix = _value_at(document, "jobs", job, "strategy", "matrix")
    if not isinstance(matrix, dict):
        return []
    rows = [dict(row) for row in _list(matrix.get("include")) if isinstance(row, dict)]
    axes = {name: _list(values) for name, values in matrix.items() if name not in {"include", "exclude"}}
    if any(len(values) != 1 for values in axes.values()):
        return rows if not axes else [{}, {}]  # two stand for several: nobody can say which
    single = {name: values[0] for name, values in axes.items()}
    return [{**single, **row} for row in rows] or [single]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


# ---------------------------------------------------------------- the fates of inputs

FACTS = Path(__file__).with_name("inputs.toml")
SERVED = {
    ("linux", "cpu"): Platform.LINUX_CPU,
    ("linux", "cuda"): Platform.LINUX_CUDA,
    ("linux", "rocm"): Platform.LINUX_ROCM,
    ("linux", "xpu"): Platform.LINUX_XPU,
    ("linux-aarch64", "cpu"): Platform.LINUX_AARCH64,
    ("linux-aarch64", "cuda"): Platform.LINUX_CUDA_AARCH64,
    ("macos-arm64", "cpu"): Platform.MACOS_ARM64,
    ("windows", "cpu"): Platform.WINDOWS,
    ("windows", "cuda"): Platform.WINDOWS_CUDA,
}
# Targets that only test-infra has: Fatwheel has no platform for them.
UNSERVED = frozenset({("windows", "xpu"), ("windows-arm64", "cpu"), ("macos", "cpu")})
SYSTEMS = sorted({system for system, _ in (*SERVED, *UNSERVED)})


class InputFate(Name):
    """The result for an input."""

    CARRIED = "carried"
    NOT_NEEDED = "not needed"
    NEEDS_YOU = "needs you"


class KnownInput(NamedTuple):
    """An input of test-infra and its fate: the key it goes to, why it is not needed, or what to do."""

    fate: InputFate
    what: str


class ReportLine(NamedTuple):
    """One line of the report."""

    where: str  # file:line
    name: str
    value: str
    fate: InputFate
    what: str


class SettingWish(NamedTuple):
    """One setting for the config, and the platforms of the job that asks for it."""

    key: str
    value: str
    where: str
    platforms: tuple[Platform, ...]


class Move(NamedTuple):
    """All requests of some workflows: the config's settings, the report, and the triggers."""

    wishes: tuple[SettingWish, ...]
    rows: tuple[ReportLine, ...]
    triggers: tuple[Any, ...]
    repository: str  # OWNER/NAME, or "" if no workflow names it

    def of(self, key: str) -> tuple[SettingWish, ...]:
        """Return the wishes for a key, without duplicate values."""
        found: dict[str, SettingWish] = {}
        for wish in self.wishes:
            if wish.key == key:
                other = found.get(wish.value, wish)
                found[wish.value] = other._replace(platforms=tuple(dict.fromkeys((*other.platforms, *wish.platforms))))
        return tuple(found.values())

    def is_everywhere(self, wish: SettingWish) -> bool:
        """Whether the jobs with a wish cover every platform."""
        return {Platform(platform.value) for platform in self.of("platform")} <= {*wish.platforms}


@functools.cache
def load_fates() -> dict[str, dict[str, KnownInput]]:
    """Return the fate of every input and secret, by name."""
    tables = parse(FACTS.read_bytes())
    return {
        kind: {name: KnownInput(InputFate(entry["fate"]), entry["what"]) for name, entry in table.items()}
        for kind, table in tables.items()
    }


def newest(catalog: Catalog) -> TorchRelease:
    """Return the newest torch for which the catalog knows what upstream ships for every accelerator."""
    whole = {
        version for version, release in catalog.torch.items() if {kind for _, kind in release.accelerators} >= {*KINDS}
    }
    return catalog.torch[max(whole or catalog.torch)]


# ---------------------------------------------------------------- a script of variables

OPENS = frozenset({"case", "for", "if", "select", "until", "while"})
CLOSES = frozenset({"done", "esac", "fi"})
HARMLESS = re.compile(r"set( [-+][a-zA-Z]+( pipefail)?)+")  # options of the shell itself
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Exported(NamedTuple):
    """One line of a script, with the variables it exports; none if only a shell could evaluate the line."""

    line: int  # from 1
    text: str
    variables: tuple[tuple[str, str], ...] = ()


def parse_exports(script: str) -> Iterator[Exported]:
    """Yield each effective line of a shell script, with the variables it exports on every machine.

    A line inside a condition, a loop or a function exports nothing here: it may not run.
    """
    depth = 0
    for number, text in _lines(script):
        words = text.replace(";", " ; ").split()
        opened = sum(word in OPENS or word.endswith("{") for word in words)  # a function ends its line with a brace
        closed = sum(word in CLOSES or word == "}" for word in words)
        plain = not (depth or opened or closed)
        depth = max(depth + opened - closed, 0)  # `done` may be an argument of something
        yield Exported(number, text, _variables(text) if plain else ())


def _lines(script: str) -> Iterator[tuple[int, str]]:
    """Yield numbered lines of the script, continued lines joined, without comments and shell options."""
    started = 0
    parts: list[str] = []
    for number, line in enumerate(script.splitlines(), 1):
        started = started if parts else number
        parts.append(line.removesuffix("\\"))
        if line.endswith("\\"):
            continue
        text = " ".join(part.strip() for part in parts).strip()
        parts = []
        if text and not text.startswith("#") and not HARMLESS.fullmatch(text):
            yield started, text


def _variables(line: str) -> tuple[tuple[str, str], ...]:
    """Return the variables of a line that only exports plain text; empty for any other line."""
    if re.search(r"[$`]", re.sub(r"'[^']*'", "", line)):  # in single quotes nothing is expanded
        return ()
    words = _words(line)
    pairs = [word.partition("=") for word in words[1:]]
    is_export = words[:1] == ["export"] and all(equals and NAME.fullmatch(name) for name, equals, _ in pairs)
    return tuple((name, value) for name, _, value in pairs) if is_export else ()


def _words(line: str) -> list[str]:
    """Return a line's words as a shell splits them; empty unless it is one simple command."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)  # splits off ; and &, unlike shlex.split
    reader.whitespace_split = True
    try:
        words = list(reader)
    except ValueError:
        return []
    return [] if any(re.fullmatch(r"[();<>|&]+", word) for word in words) else words
