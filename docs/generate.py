"""Writes the pages in docs/reference from the code they describe.

`python docs/generate.py` writes them, `python docs/generate.py --check` only names those that are stale.
"""
# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import re
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_tools import catalog, errors
from ci_tools.cli import statuses, variables
from ci_tools.cli import verbs as command_line
from ci_tools.config import loader
from ci_tools.github import step as steps
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder
from ci_tools.model.evidence import Compile, Extension
from ci_tools.model.platforms import AcceleratorKind, Platform
from ci_tools.model.request import (
    STABLE,
    Build,
    Command,
    PathSource,
    PlatformRequest,
    Publish,
    Release,
    Validation,
)
from ci_tools.model.versions import Minor
from ci_tools.plan import make, plan_file
from ci_tools.verify import audit
from tests.workflows import rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ci_tools.catalog import TorchRelease
    from ci_tools.plan.make import Planned

    Schema = Mapping[str, Any]

__all__ = ["PAGES", "REFERENCE", "main", "page", "stale", "verbs"]

REPOSITORY = Path(__file__).resolve().parent.parent
REFERENCE = REPOSITORY / "docs" / "reference"
NOTICE = "<!-- Written by docs/generate.py from {source}; change that, not this page. -->"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the stale pages and name them; with `--check` only name them, and return 1 where there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a page is stale")
    options = parser.parse_args(arguments)
    pages = stale()
    for path, text in pages.items():
        sys.stdout.write(f"{path.relative_to(REPOSITORY)}{' is stale' if options.check else ''}\n")
        if not options.check:
            path.write_text(text, encoding="utf-8")
    return int(options.check and bool(pages))


def stale() -> dict[Path, str]:
    """Return the pages that are not what the code says now, with what they should be."""
    wanted = {REFERENCE / name: page(name) for name in PAGES}
    return {path: text for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text}


def page(name: str) -> str:
    """Return the text of one page of docs/reference."""
    source, lines = PAGES[name]
    return "\n".join([NOTICE.format(source=source), "", *lines()]) + "\n"


# ---------------------------------------------------------------- Markdown


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table, with an empty line before it."""
    yield ""
    yield _row(head)
    yield _row(["---"] * len(head))
    yield from map(_row, rows)


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def code(values: Iterable[object], join: str = " ") -> str:
    """Return values as code, one after the other."""
    return join.join(f"`{value}`" for value in values)


# ---------------------------------------------------------------- cli.md

CLI = """\
# The command line

Data goes to standard output, talk to standard error. Colours and bars appear on a terminal only, and `NO_COLOR` is
honoured. What is fetched is kept in the user's cache folder, or in the folder that `FATWHEEL_CACHE` names.
pip installs build requirements and the wheels under trial; with `FATWHEEL_INSTALLER=uv` it is uv, which does the same
in about a tenth of the time, from the indexes that pip's own settings name.
The key that [seals what is kept](../explanation/evidence.md#what-is-kept) is in `~/.local/state/fatwheel`.

Every verb takes `--verbose` (`-v`): it then logs on standard error each command, HTTP request and use of the cache, and
after an error its causes. `FATWHEEL_VERBOSE=1` does the same, and so does debug logging in GitHub Actions
(`RUNNER_DEBUG=1`). Passwords, headers and the queries of addresses are left out.

An option whose meaning names a variable in brackets is also set by that environment variable, for every verb that has
the option. The command line goes before the variable, the variable before the config; one that is blank counts as
unset. A flag is set by `1` or `true`; several values are separated by blanks. `fatwheel plan --explain` says which
config and which variables it read. Options that mean different things to different verbs have none: `--out` is one."""


def cli() -> Iterator[str]:
    """Describe every verb and its arguments, then the exit statuses."""
    yield CLI
    for name, verb in verbs().items():
        example = command_line.VERBS[name].example
        yield from ("", f"## fatwheel {name}", "", str(verb.description), "", "```", _usage(name, verb), "```")
        yield from ("", "```console", f"$ {example}", "```")
        yield from table(("argument", "meaning"), map(_argument, _arguments(verb)))
    yield from ("", "## Environment variables")
    yield from table(("variable", "what it sets"), _by_variable())
    yield from ("", "## Exit status")
    yield from table(("status", "meaning"), _statuses())
    yield from (
        "",
        "Wrong input never gives a traceback. Each mistake is one sentence with its place, all of them at once.",
    )


def _by_variable() -> Iterator[tuple[str, str]]:
    """Yield each variable and what it sets, by name."""
    for name, what in sorted({**variables.OTHERS, **_variables()}.items()):
        yield f"`{name}`", what


def _variables() -> Mapping[str, str]:
    """Return each variable of an option with that option."""
    found: dict[str, dict[str, None]] = {}
    for verb in verbs().values():
        for action in _arguments(verb):
            if action.dest in variables.VARIABLES:
                option = action.option_strings[-1] if action.option_strings else str(action.metavar)
                found.setdefault(variables.VARIABLES[action.dest], {})[f"`{option}`"] = None
    return {name: " and ".join(options) for name, options in found.items()}


@functools.cache
def verbs() -> Mapping[str, argparse.ArgumentParser]:
    """Return the parser of each verb."""
    return {name: command_line.parser_of(name) for name in command_line.VERBS}


def _arguments(verb: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return a verb's arguments, the positional ones first, without those that every verb has."""
    actions = [action for action in verb._actions if action.dest not in {"help", "verbose"}]  # noqa: SLF001 - argparse has no other way
    return sorted(actions, key=lambda action: bool(action.option_strings))


def _usage(name: str, verb: argparse.ArgumentParser) -> str:
    return " ".join(["fatwheel", name, *map(_in_usage, _arguments(verb))])


def _in_usage(action: argparse.Action) -> str:
    text = _written(action) + ("..." if action.nargs == "+" else "")
    return text if action.required and action.nargs != "?" else f"[{text}]"


def _written(action: argparse.Action) -> str:
    """Return an argument as it is typed: `--format table|json`, `--here`, `WHEEL`."""
    value = "" if action.nargs == 0 else action.metavar or "|".join(map(str, action.choices or ()))
    return " ".join(part for part in (*action.option_strings, str(value)) if part)


def _argument(action: argparse.Action) -> tuple[str, str]:
    return f"`{_written(action)}`", (action.help or "") % vars(action)


def _statuses() -> Iterator[tuple[object, str]]:
    yield statuses.DONE, "The work is done."
    for kind in (errors.Rejected, errors.InputError, errors.MachineError):
        yield kind.status, str(kind.__doc__)
    yield statuses.INTERRUPTED, "Interrupted; the same command goes on where this one stopped."


# ---------------------------------------------------------------- config.md

CONFIG = """\
# fatwheel.yml

What to build and for whom. The file is YAML, read strictly: an unknown key, a key twice, a tag or a second document is
an error. All mistakes are reported at once, each with its line and column. A number with a point stays the text that
was written, so `python: [3.10]` means 3.10. `source.path` is relative to the file; every other path and every path
pattern is relative to the source root.

The config may also be the table `[tool.fatwheel]` of `pyproject.toml`, with the same keys:
`[tool.fatwheel.platforms.linux-cuda]`. A folder has one or the other; both are an error. A verb that is named no config
takes the nearest, in this folder or above it, up to the root of the repository, and says so where it is above.

`publish` and `release` go into the plan, and `fatwheel publish` acts on them; `--to` takes the place of the targets
that `publish` names. [Publish a release](../how-to/publish-a-release.md) shows both.

Editors complete the file from [the schema](../../ci_tools/config/fatwheel.schema.json) when it starts with
`# yaml-language-server: $schema=` and the schema's path, or its address on [the
site](../how-to/get-fatwheel.md#complete-the-config-in-an-editor)."""

WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "object": "mapping",
    "null": "",
}
MODELS = {
    "source": PathSource,
    "platforms": PlatformRequest,
    "build": Build,
    "validate": Validation,
    "validate: commands": Command,
    "publish": Publish,
    "release": Release,
}
# Defaults that are no constant of the model.
OTHER_DEFAULTS = {
    ".catalog": "`fatwheel.catalog.toml` beside the config, if there is one",
    "source.path": "`.`",
    "platforms.wheel-platform": "[by platform](catalog.md#platforms)",
    "platforms.runner": "[by platform](catalog.md#platforms)",
    "build.max-jobs": "one per core",
    "build.timeout-minutes": "[by what it compiles](catalog.md#minutes)",
    "build.free-disk": "`false`",
    "build.swap-gib": "`0`",
    "build.job-memory-gib": "not known",
    **{f"platforms.{key}": "that of `build`" for key in loader.SHARED},
    "platforms.owner": "that of the file",
    "validate.torch-index": "pip's own",
}


def config_keys() -> Iterator[str]:
    """Describe every key of the schema, one section for each mapping."""
    schema = json.loads(loader.SCHEMA.read_text(encoding="utf-8"))
    yield CONFIG
    for title, part in _sections(schema):
        rows = (_key(schema, title, name, child, part) for name, child in part["properties"].items())
        yield from ("", f"## {title or 'The file'}")
        yield from table(("key", "value", "default", "meaning"), rows)


def _sections(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the mappings of the schema with a title; those that are alike share one."""
    alike: dict[str, list[tuple[str, Schema]]] = {}
    for title, part in _mappings(schema, schema, ()):
        alike.setdefault(json.dumps(part["properties"]), []).append((title, part))
    for same in alike.values():
        top, dot, below = same[0][0].partition(".")
        names = dict.fromkeys(below if top == "catalog" else title.rpartition(".")[2] for title, _ in same)
        listed = "any of them" if len(names) == len(Platform) else ", ".join(names)
        yield f"{top}: {listed}" if dot else top, same[0][1]


def _mappings(schema: Schema, part: Schema, keys: tuple[str, ...]) -> Iterator[tuple[str, Schema]]:
    """Yield the mappings of a part of the schema, outermost first, with the keys that lead there."""
    part = _resolved(schema, part)
    if "properties" in part:
        yield ".".join(keys), part
    for name, child in part.get("properties", {}).items():
        yield from _mappings(schema, child, (*keys, name))
    for branch in (*part.get("oneOf", ()), *([part["items"]] if "items" in part else [])):
        yield from _mappings(schema, branch, keys)


def _resolved(schema: Schema, part: Schema) -> Schema:
    """Follow each `$ref`; what stands beside it has the last word."""
    while "$ref" in part:
        beside = {key: value for key, value in part.items() if key != "$ref"}
        part = {**schema["$defs"][part["$ref"].rpartition("/")[2]], **beside}
    return part


def _key(schema: Schema, title: str, name: str, part: Schema, parent: Schema) -> tuple[str, ...]:
    found = _resolved(schema, part)
    default = "required" if name in parent.get("required", ()) else _default(title, name)
    return f"`{name}`", _value(schema, found), default, found.get("description", "")


def _value(schema: Schema, part: Schema) -> str:
    """Return in a few words what a key takes."""
    part = _resolved(schema, part)
    if "oneOf" in part:
        return " or ".join(dict.fromkeys(_value(schema, branch) for branch in part["oneOf"]))
    if "enum" in part:
        return code((json.dumps(value).strip('"') for value in part["enum"]), ", ")
    if "items" in part:
        return f"list of {_value(schema, part['items'])}"
    kinds = [part["type"]] if isinstance(part["type"], str) else part["type"]
    return " or ".join(word for word in map(WORDS.__getitem__, kinds) if word)


def _default(title: str, name: str) -> str:
    """Return a key's default, as the model or the catalog has it; empty if there is none."""
    section = title if title in MODELS else title.partition(":")[0]
    if noted := OTHER_DEFAULTS.get(f"{section}.{name}"):
        return noted
    value = _defaults(MODELS[section]).get(name.replace("-", "_"), "") if section in MODELS else ""
    if not isinstance(value, (str, int)) or value == "":
        return ""
    return code([str(value).lower() if isinstance(value, bool) else value])


def _defaults(model: type) -> Mapping[str, object]:
    """Return the defaults of the fields of a dataclass or a NamedTuple."""
    if is_dataclass(model):
        return {field.name: field.default for field in fields(model)}
    return model._field_defaults  # type: ignore[attr-defined]  # of a NamedTuple


# ---------------------------------------------------------------- plan.md

PLAN = """\
# plan.json

What `fatwheel plan --format json` prints and `fatwheel plan --out plan.json` writes: one JSON object. The same request,
source and catalog give the same text on every machine. Every cell is in exactly one of `covered` and `skipped`."""

CELL = {
    "platform": "its platform",
    "accelerator": "the label of its accelerator, `cu130`; empty where the platform has none",
    "torch": "its torch, empty where the request names none",
    "python": "its Python",
}
PLAN_KEYS: Mapping[str, Mapping[str, str]] = {
    "The plan": {
        "schema": "the version of this format",
        "request": (
            "the config, checked and with its defaults filled in; `run` is what this run asked in its place, and "
            "`catalog` has the project's own rows"
        ),
        "pins": "what the plan was made from",
        "project": "what the source says of the project",
        "edition": "which release of the version it is",
        "cells": "how many cells were asked for",
        "jobs": "the wheels to build",
        "sdist": "the file name of the sdist; null where a run adds wheels to a release",
        "covered": "each cell that a job serves",
        "skipped": "each cell that gets no wheel",
        "warnings": "facts that could not be known, one sentence each",
        "validate": "each place where a file is tried, and what must work there",
        "publish": "for each target, the files that go there",
    },
    "pins": {
        "source_sha256": "one hash of every file of the source",
        "commit": "the source's git commit; null where there is none",
        "catalog_sha256": "one hash of the catalog, with the rows that the project adds",
        "fatwheel": "the version of Fatwheel",
        "config_commit": "the commit of the config's repository if the source is fetched; null otherwise",
    },
    "project": {
        "name": "its name",
        "version": "its version",
        "requires_python": "the Pythons it admits",
        "backend": "its build backend (PEP 517)",
        "where": "the file and line where `requires_python` was read",
    },
    "edition": {
        "channel": "`stable`, `test` or `nightly`; null for a commit without the tag of its version",
        "candidate": "the N of a tag that ends in `-rcN`, or null",
        "date": "of a nightly, `20261121`; or null",
    },
    "jobs": {
        "name": "what `fatwheel build --job` takes: the axes that stay, or `pure`",
        "kind": "`pure` or `native`",
        "platform": "the platform, null for the pure wheel",
        "python": "the oldest Python it serves",
        "python_stays": "whether its wheel is for that very Python",
        "torch": "the torch whose headers it is built with, or null",
        "exact_torch": "the whole version of that torch where a name of the release has it, or null",
        "accelerator": "`kind`, `version`, `label` and `archs`, or null",
        "runner": "the label of the runner that builds it, or a list of labels",
        "container": "the image it is built in, or null",
        "care": "what its runner gets: `free_disk`, `swap_gib`, and `job_memory_gib` for each compiler, or null",
        "minutes": "how long its build may take",
        "batch": "the jobs of the same name here are built in turn by one runner; empty: it has a runner to itself",
        "owner": "who looks after the native code, or null",
        "required": "whether nothing of the release appears without it",
        "wheel": "the expected file name",
        "local": "the local version that it is given",
        "public": "the file name of its twin without a local version, for PyPI; or null",
        "wheel_platform": "its platform tag",
        "requires_torch": "what its requirement of torch is narrowed to; empty: as the project says",
        "folder": "the folder of an index for its wheel; empty: every folder lists it",
        "also": "the other folders that list it",
        "toolchain": "where the compiler comes from: `system`, `pypi`, `redist`, `zig` or `auto`",
        "env": "the environment variables of the build, with the switches that its kernels need",
        "build_requires": "what its build imports and the project does not name as a requirement",
        "drops": "the names of requirements that neither its build nor its wheel gets (`build: drop`)",
        "libraries": "the libraries it is to hold, each with its device images; null: not known",
        "members": "what is to be in it besides dist-info; null: not known",
        "spared": "libraries that its package does without on a torch older than this, each with that torch",
        "covers": "the cells it serves",
    },
    "covered": {
        "cell": "the cell, such as `linux-cuda / cu130 / torch2.10 / cp312`",
        **CELL,
        "job": "the job whose wheel serves it",
        "reason": "why that wheel does, with the places in the source that show it",
    },
    "skipped": {"cell": "the cell", **CELL, "reason": "why it gets no wheel"},
    "validate": {
        "name": "what `fatwheel validate --site` takes",
        "job": "the job that makes what is tried there, or `sdist`",
        "files": "what is tried; of the sdist's, itself and the wheel that it is to give",
        "platforms": "the platforms whose users it stands for",
        "python": "the Python that it is installed into",
        "runner": "the label of the runner, or a list of labels",
        "gpu": "whether that runner has a GPU",
        "torch": "the exact torch to install first, or null",
        "torch_index": "the index that torch comes from; null: pip's own",
        "imports": "the modules that must import",
        "commands": "the commands that must succeed, each with `run` and `needs_gpu`",
        "timeout_seconds": "seconds for each command",
        "gpu_trial": "whether a release waits until its CUDA wheels were tried on a GPU: optional or required",
    },
    "publish": {"target": "the target", "files": "the file names"},
}
MORE_CELLS = 2  # how many of a job's cells the example shows


def plan_keys() -> Iterator[str]:
    """Describe every key of the plan, and show a job of the reference package's."""
    plan = plan_file.to_json(_reference().plan)
    yield PLAN
    for title, meanings in PLAN_KEYS.items():
        _refuse_difference(title, meanings, plan if title == "The plan" else plan[title])
        yield from ("", f"## {title}")
        yield from table(("key", "meaning"), ((f"`{key}`", meaning) for key, meaning in meanings.items()))
    yield from (
        "",
        "## An example",
        "",
        "One job of [the reference package](../../package/fatwheel.yml):",
        "",
        "```json",
    )
    yield json.dumps(_shortened(plan["jobs"][-1]), indent=1, ensure_ascii=False)
    yield "```"


def _reference() -> Planned:
    outside = Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    return make.make_plan(REPOSITORY / "package" / "fatwheel.yml", outside, edition=STABLE)


def _refuse_difference(title: str, meanings: Mapping[str, str], found: Any) -> None:  # noqa: ANN401 - JSON
    """Refuse a description that is not of the keys a plan, or evidence, has."""
    keys = found[0] if isinstance(found, list) else found
    if list(keys) != list(meanings):
        msg = f"{title} is described with {', '.join(meanings)}, expected {', '.join(keys)}"
        raise ValueError(msg)


def _shortened(value: dict[str, Any], key: str = "covers") -> dict[str, Any]:
    first, more = value[key][:MORE_CELLS], len(value[key]) - MORE_CELLS
    return {**value, key: [*first, f"… and {more} more"]}


# ---------------------------------------------------------------- evidence.md

EVIDENCE = """\
# fatwheel evidence

What `fatwheel evidence` prints: one JSON object with all that the source shows of every cell. Cells of which the same
is known are together. [How the plan knows](../explanation/evidence.md) says where it comes from. A place is
`file:line`, or says that the build was observed."""

EVIDENCE_KEYS: Mapping[str, Mapping[str, str]] = {
    "The evidence": {
        "schema": "the version of this format",
        "project": "what the source says of the project, as in [the plan](plan.md#project)",
        "source_sha256": "one hash of every file of the source",
        "commit": "the source's git commit; null where there is none",
        "requires_torch": "`specifier`, the torch versions that the project admits, and `where` it says so; null: all",
        "builds_with_torch": "the same of its build requirements: what it can be compiled against",
        "platforms": "for each platform of the request, what is shown of it",
        "warnings": "facts that could not be known, one sentence each",
    },
    "platforms": {
        "platform": "the platform",
        "native_files": "the files that its `native` patterns match",
        "cells": "groups of cells of which the same is shown",
    },
    "cells": {
        "cells": "the cells, such as `linux-cuda / cu130 / torch2.10 / cp312`",
        "extensions": "whether anything is compiled for them: `none`, `some` or `unknown`",
        "extensions_where": "what shows that, or the doubt",
        "python_api": "which Python API the compiled code uses",
        "torch_abi": "which torch ABI it uses",
        "pure_tag": "how its backend tags a wheel that is bound to no Python: py3, or py2.py3",
        "unsupported": "why the build fails, or would leave its kernels out; null: it does not",
        "asked": "what the build decides by, each with the place that asks for it",
        "off": "the switches and CMake options that are off by default, each with the place that asks for it",
        "switches": "the variables without which the build would leave its kernels out, each with its value",
        "switches_where": "what the build would leave out without them",
        "build_requires": "what the build imports and the project does not name as a requirement",
        "built": "the libraries that the build links; empty where it was read and not observed",
        "archs": "the GPU architectures that the project itself chooses for all its libraries; empty: the request's",
        "spared": "libraries that the package does without on a torch older than their target",
        "left_out": "sources that the build does not compile; each with the place of the condition, and the variable "
        "that meets it (null: only a GPU does)",
        "members": "the members of the wheel besides dist-info; null: not known",
        "contents": "those that are not compiled, each with its hash",
        "written": "the sources that the build writes or changes, each with its hash, besides copies of others",
        "configured": "the calls of cmake: the variables that the build changes for them, and the arguments",
        "metadata": "the fields of METADATA; null: not known",
        "recipe": "one hash of everything that the build does; null: not known",
        "warnings": "what could not be known of these cells, one sentence each",
    },
    "python_api": {
        "kind": "`none`, `stable` for the limited API, `full` or `unknown`",
        "where": "what shows that",
        "lowest": "the Python from which on the limited API (PEP 384) holds, or null",
        "lowest_free_threaded": "the same for free-threaded Pythons (PEP 803), or null",
        "builds_older": "whether older Pythons get wheels of their own",
        "built_by_lowest": "whether its wheel is tagged by the Python that builds it, so that the lowest has to",
        "named_by_builder": "whether a library is named for the Python that builds it, so that the oldest has to",
    },
    "torch_abi": {
        "kind": "`none`, `stable`, `full` or `unknown`",
        "where": "what shows that",
        "target": "the torch that `TORCH_TARGET_VERSION` names, or null",
        "uses_torch": "whether a header of torch's is known to be included",
    },
    "built": {
        "member": "its path in the wheel; `.cpython-fatwheel.so` stands for the suffix of one Python's modules",
        "compiles": "the calls of a compiler that make it",
        "links": "the libraries and flags of the linker",
        "images": "the device images, such as `sm_90` and `compute_100`; null: not known",
    },
    "compiles": {
        "source": "the file that is compiled",
        "compiler": "the program",
        "flags": "its flags; `<package>`, `<accelerator>`, `<stage>` and `<python>` stand for folders of the builder",
    },
}


def evidence_keys() -> Iterator[str]:
    """Describe every key of the evidence, and show what the reference package's first cells show."""
    planned = _reference()
    evidence = json.loads(plan_file.evidence_json(planned.evidence, planned.plan))
    shown = evidence["platforms"][0]["cells"][0]
    found = {
        "The evidence": evidence,
        **evidence,
        **shown,
        "cells": shown,
        "built": Extension._fields,
        "compiles": Compile._fields,
    }
    yield EVIDENCE
    for title, meanings in EVIDENCE_KEYS.items():
        _refuse_difference(title, meanings, found[title])
        yield from ("", f"## {title}")
        yield from table(("key", "meaning"), ((f"`{key}`", meaning) for key, meaning in meanings.items()))
    yield from ("", "## An example", "", "Some cells of [the reference package](../../package/fatwheel.yml):", "")
    yield from ("```json", json.dumps(_shortened(shown, "cells"), indent=1, ensure_ascii=False), "```")


# ---------------------------------------------------------------- audit-rules.md

AUDIT = """\
# The audit's rules

`fatwheel audit` reads a wheel without installing it, and `fatwheel release` publishes none with an error. A file that
is not a zip file has one finding, `archive`. With `--config`, a wheel is also compared with the plan's job of the same
file name. `fatwheel release` always does so."""

WHY = """\
## Errors and warnings

A finding is an error if the wheel, or something else of its users, is certain to break. Some rules need more words:
"""

FINDING = """\
## A finding

`fatwheel audit --format json` prints a list of objects with the keys `wheel`, `rule`, `level` (`error` or `warning`),
`message`, `found` and `expected`, in the order of the rules above. An empty list means that nothing was found."""


def audit_rules() -> Iterator[str]:
    """Give each rule's docstring: what must hold."""
    yield AUDIT
    yield from table(("rule", "what must hold"), ((f"`{name}`", _first(rule)) for name, rule in audit.RULES.items()))
    yield from ("", WHY)
    for name, rule in audit.RULES.items():
        yield from (f"- `{name}`: {line}" for line in _further(rule))
    yield from ("", FINDING)


def _further(rule: Callable[..., object]) -> Iterator[str]:
    """Yield what a rule's docstring says beyond its first paragraph, on one line."""
    more = " ".join((rule.__doc__ or "").partition("\n\n")[2].split())
    yield from [more] if more else []


def _first(rule: Callable[..., object]) -> str:
    """Return the first paragraph of a rule's docstring, on one line."""
    return " ".join((rule.__doc__ or "").partition("\n\n")[0].split())


# ---------------------------------------------------------------- truth-table.md

TRUTH = """\
# The truth table

Other people's projects, as their sdists are on the package index. What is true of each was read by hand in its build
scripts, before Fatwheel saw it, and is kept in [`tests/proof/projects.toml`](../../tests/proof/projects.toml). `make
proof` then asks Fatwheel, builds what two cores can build in minutes, and writes the results to
[`tests/proof/record.json`](../../tests/proof/record.json). `make test` asks again for some of each kind, `make proof`
for all, and both expect the same evidence.

*Seen* is what Fatwheel says for `linux-cuda` and `linux-cpu`: what is compiled, for which Python, against which torch.
*Wheels* are those that its plan makes of the covered cells of a request of six Pythons, six torch releases, two CUDA
versions and four platforms. **Agrees** means that all four platforms are as the truth says; **safe side** means that
something could not be known, which costs wheels and makes none wrong."""


def truth_table() -> Iterator[str]:
    """Give the record of `make proof`, one line a project."""
    record = json.loads((REPOSITORY / "tests" / "proof" / "record.json").read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    yield TRUTH
    yield ("")
    yield f"Recorded on {record['date']} with {versions}, Python {record['python']}."
    heads = ("project", "seen for linux-cuda", "seen for linux-cpu", "truth", "wheels", "a real build")
    yield from table(heads, map(_proven, record["projects"]))
    yield from ("", *_differences(record["projects"]))


def _proven(found: Mapping[str, Any]) -> tuple[str, ...]:
    platforms = found["platforms"]
    verdicts = {row["verdict"] for row in platforms.values()}
    return (
        f"{found['name']} {found['version']}",
        *(_seen(platforms[name]) for name in ("linux-cuda", "linux-cpu")),
        "agrees" if verdicts == {"agrees"} else "safe side",
        _wheels(found["plan"], found["platforms"].values()),
        _built(found["build"]),
    )


def _seen(row: Mapping[str, Any]) -> str:
    parts = [row["python"], f"torch: {row['torch']}", f"with {row['switch']}" if row["switch"] else ""]
    return f"{row['native']}: {', '.join(filter(None, parts))}" if row["native"] == "some" else str(row["native"])


def _wheels(plan: Mapping[str, Any] | None, rows: Iterable[Mapping[str, Any]]) -> str:
    if plan is None:
        is_unknown = any(row["native"] == "not known" for row in rows)
        return "one for each cell, where it is not known" if is_unknown else "not counted"
    return "refused" if "refused" in plan else f"{plan['wheels']} for {plan['covered']} cells"


def _built(build: Mapping[str, Any] | None) -> str:
    if build is None:
        return "by evidence only"
    return "failed" if "failed" in build else f"`{build['wheel']}`, {build['seconds']} s, audit good"


def _differences(projects: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Give what is not known of those that do not agree, and why."""
    yield from ("## What errs to the safe side", "")
    for found in projects:
        rows = {row["difference"]: row for row in found["platforms"].values() if row["difference"]}
        for difference, row in rows.items():
            yield f"- **{found['name']}**: {difference}. {row['why']}"


# ---------------------------------------------------------------- catalog.md

CATALOG = """\
# The catalog

What Fatwheel knows of torch, CUDA, ROCm, oneAPI, Python and the platforms. Each fact is a line in a data file under
[`ci_tools/catalog`](../../ci_tools/catalog), with its source beside it. A cell that needs a combination not listed here
is skipped, and the plan says so.

A project adds rows of its own, with the keys that [the config](config.md#catalog) lists: [use a torch that Fatwheel
does not know yet](../how-to/use-a-new-torch.md)."""

CUDA = """\
The PyPI column is the `cuda-toolkit` whose compiler `toolchain: pypi` fetches, the next one the release of NVIDIA's
archives that `toolchain: redist` takes. A wheel's machine code (SASS) runs from
the first driver on, its PTX from the second. `a` compiles for that chip only, `f` for its family."""

ROCM = """\
The compiler knows these architectures. A platform that names no `archs` is built for those of torch's own wheels, where
they are listed. The driver is the oldest that AMD tested the release with. A generic architecture's code runs on
several, and a feature is asked for as in `gfx90a:xnack+`."""
XPU = """\
A torch for XPU requires the runtime of SYCL of one oneAPI, `libsycl.so.8` or `libsycl.so.9`. Code that an older oneAPI
compiled runs with a newer runtime of the same number. `archs` takes these names of GPUs, which are ocloc's; what a
library calls the code for them is beside each."""
NOT_SEEN = "not seen"

TORCH = """\
For each release, what upstream ships, by host; what is not listed was not seen."""


def maintain() -> Iterator[str]:
    """Give the catalog's tables."""
    known = catalog.load()
    yield CATALOG
    yield from ("", "## Platforms")
    yield from table(("platform", "host", "accelerator", "wheel platform", "runner"), _platforms(known))
    yield from ("", "## Python", "", f"{code(known.pythons, ', ')}. A `t` is a free-threaded build.")
    yield from ("", "## CUDA", "", CUDA)
    columns = ("CUDA", "architectures", "PyPI", "NVIDIA's archives", "driver for SASS", "driver for PTX")
    yield from table(columns, _cudas(known))
    yield from ("", "## ROCm", "", ROCM)
    yield from table(("ROCm", "clang", "architectures", "torch's own", "oldest kernel driver"), _rocms(known))
    yield from table(("generic", "runs on"), _generic(known))
    yield from table(("feature", "of"), _features(known))
    yield from ("", "## XPU", "", XPU)
    yield from table(("oneAPI", "runtime", "torch"), _oneapis(known))
    yield from table(("GPU", "in a library"), _intel_gpus(known))
    yield from ("", "## torch", "", TORCH)
    yield from table(("torch", "release", "Python", "CUDA", "ROCm", "XPU"), map(_torch, known.torch.values()))
    yield from ("", "## Minutes", "", "How long one build may take where the config says no `timeout-minutes`.")
    yield from table(("what it compiles", "minutes"), _minutes(known))
    yield from ("", "## Size limits", "", "The largest file each place takes.")
    yield from table(("place", "bytes"), ((f"`{place}`", f"{most:,}") for place, most in known.limits.items()))


def _platforms(known: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    for name, facts in known.platforms.items():
        yield f"`{name}`", facts.host, facts.accelerator or "", f"`{facts.wheel_platform}`", f"`{facts.runner}`"


def _minutes(known: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    kinds = ("nothing: a pure wheel, an sdist", "code for a CPU", "code for an accelerator: CUDA, ROCm, XPU")
    return zip(kinds, known.minutes, strict=True)


def _cudas(known: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    for version, cuda in known.cuda.items():
        archs = sorted(cuda.architectures, key=lambda arch: (float(arch.rstrip("af")), arch))
        release = cuda.redist.release if cuda.redist else NOT_SEEN
        yield version, " ".join(archs), cuda.pypi or "none", release, cuda.sass_driver, cuda.driver


def _rocms(known: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    for version, rocm in known.rocm.items():
        archs, own = " ".join(_by_number(rocm.architectures)), " ".join(rocm.torch)
        yield version, rocm.clang or NOT_SEEN, archs, own or NOT_SEEN, rocm.driver or NOT_SEEN


def _oneapis(known: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    for version, oneapi in known.oneapi.items():
        torches = (str(torch.version) for torch in known.torch.values() if torch.oneapi == version)
        yield version, f"`libsycl.so.{oneapi.sycl}`", " ".join(torches) or NOT_SEEN


def _intel_gpus(known: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    for name, images in known.intel.named.items():
        yield f"`{name}`", " ".join(f"`spir64_gen:{image}`" for image in images)


def _generic(known: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    for name, processors in known.gfx.runs_on.items():
        yield f"`{name}`", " ".join(_by_number(processors))


def _features(known: catalog.Catalog) -> Iterator[tuple[object, ...]]:
    for name, targets in known.gfx.features.items():
        yield f"`{name}`", " ".join(_by_number(targets))


def _by_number(archs: Iterable[str]) -> list[str]:
    """Return architectures with those of shorter numbers first, gfx942 before gfx1030, and generic ones last."""
    return sorted(archs, key=lambda arch: (arch.endswith("-generic"), len(arch), arch))


def _torch(release: TorchRelease) -> tuple[object, ...]:
    pythons = {host: " ".join(map(str, sorted(names))) for host, names in release.pythons.items()}
    cuda, rocm, xpu = (_by_host(_shipped(release, kind)) for kind in AcceleratorKind)
    return release.version, release.patch, _by_host(pythons), cuda, rocm, xpu


def _shipped(release: TorchRelease, kind: AcceleratorKind) -> dict[str, str]:
    return {
        host: " ".join(
            str(version or "yes") for version in sorted(versions, key=lambda version: version or Minor(0, 0))
        )
        for (host, shipped), versions in release.accelerators.items()
        if shipped is kind
    }


def _by_host(values: Mapping[str, str]) -> str:
    """Return what each host has, those that are alike together."""
    alike: dict[str, list[str]] = {}
    for host, value in values.items():
        alike.setdefault(value, []).append(host)
    return "<br>".join(f"{value} ({_hosts(hosts)})" for value, hosts in alike.items())


def _hosts(names: Sequence[str]) -> str:
    every = {facts.host for facts in catalog.load().platforms.values()}
    return "every host" if set(names) == every else ", ".join(names)


# ---------------------------------------------------------------- workflows.md, action.md

WORKFLOWS = """\
# The workflows

What a workflow of another repository calls, as `OWNER/fatwheel/.github/workflows/NAME.yml@` and a commit. Inputs are
given below `with:`, secrets below `secrets:`, each with the default shown here. No input is run as code.

A caller grants what the jobs ask for together, on top of its file or at the calling job. GitHub refuses a run that
grants less before its first job begins, also where the job that asks for it would be skipped. What each job may do is
in [the threat model](../explanation/threat-model.md)."""
CALLED = ("wheels", "publish", "platform", "comment", "recipes", "request")
ACTION = """\
# The action

`uses: OWNER/fatwheel@` and a commit runs one verb on this runner, for those who write their own workflow. The Python
of the job is not changed: Fatwheel is installed into an environment of its own, and only its command `fatwheel` is put
on PATH. An input that its verb does not take is an error. `plan` asks git which tag the commit has, and so what is
released: `actions/checkout` fetches the tags with `fetch-depth: 0`."""
PRINTED = {
    steps.Prints.LOG: "the log",
    steps.Prints.OUTPUTS: "the outputs",
    steps.Prints.PAGE: "the summary of the run",
}


def workflows() -> Iterator[str]:
    """Describe every workflow that others call: inputs, secrets, outputs, grants, and what it leaves behind."""
    files = rules.project(REPOSITORY)
    yield WORKFLOWS
    for name in CALLED:
        path = f".github/workflows/{name}.yml"
        if path in files and "workflow_call" in files[path].triggers:
            yield from ("", f"## {name}.yml", "", _head(files[path]))
            yield from _declared(files[path])
            yield from _granted(files[path], files)
            yield from _left(files[path])


def _head(file: rules.File) -> str:
    """Return what a file begins with, without the sentences that name a page."""
    lines = itertools.takewhile(lambda line: line.startswith("# "), file.lines)
    text = " ".join(line.removeprefix("# ") for line in lines)
    return " ".join(said for said in re.split(r"(?<=\.) (?=[A-Z])", text) if "docs/" not in said)


def _declared(file: rules.File) -> Iterator[str]:
    """Give the inputs, secrets and outputs of a file; those of an action are all text."""
    below = "##" if file.is_action else "###"
    kinds = {
        "inputs": (("input", *(() if file.is_action else ("type",)), "default", "meaning"), _input),
        "secrets": (("secret", "meaning"), _described),
        "outputs": (("output", "meaning"), _described),
    }
    for kind, (head, row) in kinds.items():
        if declared := file.declared(kind, "workflow_call"):
            yield from ("", f"{below} {kind.title()}")
            yield from table(head, (row(name, said) for name, (_, said) in declared.items()))


def _input(name: str, said: Mapping[str, Any]) -> tuple[str, ...]:
    kind = [WORDS[said["type"]]] if "type" in said else []
    default = json.dumps(said.get("default", "")).strip('"')
    shown = code([default]) if default else ""
    return f"`{name}`", *kind, "required" if said.get("required") else shown, said["description"]


def _described(name: str, said: Mapping[str, Any]) -> tuple[str, str]:
    return f"`{name}`", said["description"]


HANDED = """\
`{job}` may do what its caller grants, by the targets: see [what to
grant](../how-to/publish-from-a-workflow.md#what-to-grant)."""


def _granted(file: rules.File, files: rules.Project) -> Iterator[str]:
    """Give what a caller has to grant, and the jobs that ask for it with their reasons."""
    said: dict[str, list[str]] = {}
    for job, scope, reason in _reasons(file, files):
        said.setdefault(scope, []).append(f"`{job}` {reason}")
    yield from ("", f"### What a caller of {Path(file.document.name).name} grants")
    asked = sorted(rules.asked(file, files).items())
    if asked:
        rows = ((f"`{scope}: {level}`", "<br>".join(said[scope])) for scope, level in asked)
        yield from table(("grant", "which job, and why"), rows)
    handed = [name for name, job in file.jobs.items() if rules.has_the_callers(file, job, files)]
    yield from ("", HANDED.format(job=handed[0])) if handed else ()


def _reasons(file: rules.File, files: rules.Project) -> Iterator[tuple[str, str, str]]:
    """Yield each job, a scope that it asks for, and the comment beside that; of a called workflow its own jobs."""
    for name, job in file.jobs.items():
        if "uses" in job:
            below = _reasons(files[job["uses"].removeprefix("$/")], files)
            yield from ((f"{name} / {inner}", scope, reason) for inner, scope, reason in below)
            continue
        for scope in job.get("permissions", {}):
            yield name, scope, file.comment(("jobs", name, "permissions", scope))


def _left(file: rules.File) -> Iterator[str]:
    """Give the artifacts that a workflow leaves, each with the step that leaves it, and the workflows that it calls."""
    kept = [step.value for step in file.steps if step.action == "actions/upload-artifact"]
    called = [job["uses"].rpartition("/")[2] for job in file.jobs.values() if "uses" in job]
    if kept or called:
        yield from ("", "### Artifacts")
    if kept:
        yield from table(
            ("artifact", "the step that leaves it"),
            ((code([_artifact(step["with"]["name"])]), step["name"]) for step in kept),
        )
    if called:
        yield from ("", f"Those of {' and '.join(called)}, which it calls.")


def _artifact(name: str) -> str:
    """Return an artifact's name with what a run fills in as words: `fatwheel-built-NAME`."""
    usual = name.replace("${{ inputs.artifacts }}", "fatwheel")
    return re.sub(r"\$\{\{ *[\w.]*?(\w+) *\}\}", lambda match: match[1].upper(), usual)


def action() -> Iterator[str]:
    """Describe the action: its inputs and outputs, and which of them each verb takes."""
    file = rules.project(REPOSITORY)["action.yml"]
    listed = re.findall(r"\w+", file.value["inputs"]["verb"]["description"])
    inputs = file.declared("inputs")
    yield ACTION
    yield from _declared(file)
    yield from ("", "## Verbs")
    rows = (
        (f"`{name}`", code(_taken(verb, inputs)), _does(name, verb), PRINTED[verb.prints])
        for name, verb in steps.VERBS.items()
        if name in listed
    )
    yield from table(("verb", "its inputs", "what it does", "where its output goes"), rows)


def _does(name: str, verb: steps.Verb) -> str:
    return f"The same as `{verb.verb}`, to be read." if verb.verb else str(verbs()[verb.command(name)].description)


def _taken(verb: steps.Verb, inputs: Iterable[str]) -> list[str]:
    """Return the inputs that go to a verb, in the order of the action."""
    edition = steps.EDITION if verb.takes_edition else ()
    taken = {*verb.options, *verb.flags, *verb.several, *edition}
    return [name for name in inputs if name.replace("-", "_") in taken]


PAGES: Mapping[str, tuple[str, Callable[[], Iterable[str]]]] = {
    "cli.md": ("the verbs in ci_tools/cli/verbs", cli),
    "config.md": ("ci_tools/config/fatwheel.schema.json", config_keys),
    "plan.md": ("ci_tools/plan/plan_file.py", plan_keys),
    "evidence.md": ("ci_tools/plan/plan_file.py", evidence_keys),
    "audit-rules.md": ("the docstrings in ci_tools/verify/audit", audit_rules),
    "catalog.md": ("ci_tools/catalog", maintain),
    "truth-table.md": ("tests/proof/record.json", truth_table),
    "workflows.md": (".github/workflows", workflows),
    "action.md": ("action.yml and ci_tools/github/step.py", action),
}

if __name__ == "__main__":
    sys.exit(main())
