"""Adds the keys of each platform and accelerator to the JSON Schema of a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ci_tools.catalog import PlatformFacts
from ci_tools.catalog.accelerators import KINDS
from ci_tools.model.platforms import AcceleratorKind, Platform

Schema = dict[str, Any]


def add_platforms(schema: Schema, platforms: Mapping[Platform, PlatformFacts]) -> Schema:
    """Return a config's schema with the keys of each platform, and of the rows about its accelerator."""
    defs = dict(schema["$defs"])
    for kind in KINDS.values():
        hosts = [facts.host for facts in platforms.values() if facts.accelerator == kind]
        defs |= _describe_config(kind, schema["$defs"]["platform"]) | _describe_rows(kind, hosts)
    for name in ("catalog", "catalog-torch", "catalog-nightly"):
        own = {kind: _refer(f"{kind}-{'releases' if name == 'catalog' else 'shipped'}") for kind in KINDS}
        defs[name] = {**defs[name], "properties": {**defs[name]["properties"], **own}}
    kinds = {str(name): facts.accelerator for name, facts in platforms.items()}
    entries = {name: _refer(f"{kind}-entry" if kind else "entry") for name, kind in kinds.items()}
    asked = {**schema["properties"]["platforms"], "properties": entries}
    return {**schema, "properties": {**schema["properties"], "platforms": asked}, "$defs": defs}


def _describe_config(kind: AcceleratorKind, platform: Schema) -> Schema:
    """Return what the tables of an accelerator's platforms have: `platform` is that of every platform."""
    told = f"a mapping of what the {kind.named} platform needs, or null"
    own: Schema = {"description": told}
    if kind.required:
        told = f"a mapping with {' and '.join(kind.required)}"
        own = {"type": "object", "required": [*kind.required], "description": told}
    container = {"container": _refer("container-by-version")} if kind.is_versioned else {}
    return {
        f"{kind}-entry": {"description": told, "oneOf": [_refer(f"{kind}-platform"), _refer("included")]},
        f"{kind}-platform": {**platform, **own, "properties": {**platform["properties"], **container, **kind.keys}},
    }


def _describe_rows(kind: AcceleratorKind, hosts: list[str]) -> Schema:
    """Return what a catalog says of an accelerator's releases, and of the torches that upstream ships for it."""
    stack, shipped = kind.stack, f"the {kind.named} versions that upstream ships it for, by machine"
    row = kind.row or _mapping(f"one {stack} release", "version", version=_refer("minor"), archs=kind.keys["archs"])
    told = f"a table for each minor version of {stack}"
    releases: Schema = {"type": "array", "minItems": 1, "description": told, "items": row}
    return {
        f"{kind}-releases": _mapping(f"{stack} releases", "release", release=releases),
        f"{kind}-shipped": kind.shipped or _mapping(shipped, **dict.fromkeys(hosts, _refer("catalog-minors"))),
    }


def _mapping(description: str, *required: str, **properties: Schema) -> Schema:
    parts = {"type": "object", "additionalProperties": False, "required": [*required], "description": description}
    return {**parts, "properties": properties}


def _refer(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}
