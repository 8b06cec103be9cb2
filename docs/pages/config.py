"""docs/reference/config.md: every key of fatwheel.yml."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from ci_tools.config import loader
from ci_tools.model.platforms import Platform
from ci_tools.model.request import Build, Command, PathSource, PlatformRequest, Publish, Release, Validation
from docs.pages.markdown import code, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Schema = Mapping[str, Any]


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

Editors complete the file from [the schema](fatwheel.schema.json) when it starts with
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
    "build.shards": "[by the time that compiling takes](../how-to/compile-in-shards.md)",
    "build.timeout-minutes": "[by what it compiles](catalog.md#minutes)",
    "build.free-disk": "`false`",
    "build.swap-gib": "`0`",
    "build.job-memory-gib": "not known",
    **{f"platforms.{key}": "that of `build`" for key in loader.SHARED},
    "platforms.owner": "that of the file",
    "validate.torch-index": "pip's own",
}


def describe() -> Iterator[str]:
    """Describe every key of the schema, one section for each mapping."""
    schema = loader.read_schema()
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
