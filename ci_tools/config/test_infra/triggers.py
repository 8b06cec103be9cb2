"""Writes the workflow that calls Fatwheel's, started by the same events as the workflows that it replaces."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PLACE = ".github/workflows/wheels.yml"
TEMPLATE = """\
name: Wheels

on:
{triggers}
permissions: {{}}

jobs:
  wheels:
    permissions:
      contents: read # to check out the source
      id-token: write # to sign where each wheel comes from
      attestations: write # to keep that signature
    # Put the newest release here: its commit, and its version behind it.
    uses: OWNER/fatwheel/.github/workflows/wheels.yml@SHA # vX.Y.Z
    with:
{inputs}"""
REFS = frozenset({"branches", "tags"})  # if only one is named, pushes of the other are filtered out


def workflow(triggers: Iterable[Any], inputs: Mapping[str, str], replaced: Iterable[str]) -> str:
    """Return the text of a workflow that calls Fatwheel's with these inputs, started by any event of the others.

    Triggers that name a replaced workflow file name this one instead.
    """
    events = _rename_workflows(merge_triggers(triggers), {f".github/workflows/{name}" for name in replaced})
    return TEMPLATE.format(
        triggers=_indent_yaml(events or {"workflow_dispatch": None}, "  "), inputs=_indent_yaml(inputs, "      ")
    )


def _indent_yaml(table: Mapping[str, Any], by: str) -> str:
    shown = yaml.safe_dump(dict(table), sort_keys=False, width=1000)
    return textwrap.indent(shown.replace(": null\n", ":\n"), by)


def merge_triggers(triggers: Iterable[Any]) -> dict[str, Any]:
    """Return the events that start any of several workflows; filters that differ are merged to admit both."""
    events: dict[str, Any] = {}
    for each in triggers:
        for event, filters in _events(each).items():
            events[event] = _either(events[event], filters) if event in events else filters
    return events


def _events(triggers: Any) -> Mapping[str, Any]:  # noqa: ANN401 - YAML
    if isinstance(triggers, dict):
        return triggers
    return dict.fromkeys([triggers] if isinstance(triggers, str) else triggers or ())


def _either(one: Any, other: Any) -> Any:  # noqa: ANN401 - YAML
    """Return filters that admit whatever either of two admits; None admits everything."""
    if isinstance(one, list) and isinstance(other, list):
        return [*one, *(item for item in other if item not in one)]
    if not isinstance(one, dict) or not isinstance(other, dict):
        return None
    both = {key: _either(one[key], other[key]) for key in one if key in other and one[key] != other[key]}
    same = {key: value for key, value in one.items() if other.get(key) == value}
    widened = {key: value for key, value in both.items() if value is not None and not key.endswith("-ignore")}
    found = {**same, **widened}
    if one.keys() & REFS and other.keys() & REFS:
        found |= {key: _either(one.get(key, []), other.get(key, [])) for key in (one | other).keys() & REFS}
    else:
        found = {key: value for key, value in found.items() if key not in REFS}
    return found or None


def _rename_workflows(value: Any, replaced: set[str]) -> Any:  # noqa: ANN401 - YAML
    """Return filters with this workflow in place of those that it replaces, without duplicates."""
    if isinstance(value, dict):
        return {key: _rename_workflows(inner, replaced) for key, inner in value.items()}
    if isinstance(value, list) and replaced.intersection(item for item in value if isinstance(item, str)):
        return list(dict.fromkeys(PLACE if item in replaced else item for item in value))
    return value
