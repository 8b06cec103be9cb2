"""Edits the text of a fatwheel.yml and keeps the rest as it was written."""

from __future__ import annotations

import yaml

from ci_tools.config.include import INCLUDE
from ci_tools.errors import InputError
from ci_tools.formats.yaml_file import compose


def set_platform_key(text: str, platform: str, key: str, value: str) -> str | None:
    """Return the config with a setting of one platform, or None if it cannot be edited."""
    table = _platform(text, platform)
    if table is None or not table.value or any(name.value == INCLUDE for name, _ in table.value):
        return None  # the included file belongs to its team
    for name, old in table.value:
        if name.value == key:
            start, end = old.start_mark.index, old.end_mark.index
            return f"{text[:start]}{value}{text[end:]}" if isinstance(old, yaml.ScalarNode) else None
    if table.flow_style:
        end = table.value[-1][1].end_mark.index
        return f"{text[:end]}, {key}: {value}{text[end:]}"
    first = table.value[0][0].start_mark
    start = text.rfind("\n", 0, first.index) + 1
    return f"{text[:start]}{' ' * first.column}{key}: {value}\n{text[start:]}" if first.column else None


def _platform(text: str, platform: str) -> yaml.MappingNode | None:
    try:
        node = compose(text, "the config")
    except InputError:
        return None
    for key in ("platforms", platform):
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        node = next((value for name, value in pairs if name.value == key), None)
    return node if isinstance(node, yaml.MappingNode) else None
