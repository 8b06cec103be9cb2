"""The projects of a repository with several configs: the artifacts of each in a run, and its outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci_tools.errors import InputError
from ci_tools.model.names import safe_name

OUTPUTS = "outputs.txt"  # in the artifact PREFIX-outputs of wheels.yml
USUAL = re.compile(r"(^|/)(fatwheel\.ya?ml|pyproject\.toml)$|\.ya?ml$")


def list_projects(configs: Sequence[str], prefix: str) -> list[dict[str, str]]:
    """Return each config with the prefix of its artifacts; raise InputError if one is named twice.

    No prefix begins another's patterns: `x-built-*` is of x, so that no name has a hyphen.
    """
    if twice := next((config for config in configs if configs.count(config) > 1), ""):
        raise InputError(f"{twice} is named twice, expected each config once")
    names = [re.sub(r"\W+", "_", USUAL.sub("", config), flags=re.ASCII).strip("_") or "root" for config in configs]
    hashed = [safe_name(config + "/").replace("-", "_") for config in configs]
    unique = [long if names.count(name) > 1 else name for name, long in zip(names, hashed, strict=True)]
    return [{"config": config, "artifacts": f"{prefix}-{name}"} for config, name in zip(configs, unique, strict=True)]


def collect_outputs(projects: Sequence[Mapping[str, str]], folder: Path) -> dict[str, str]:
    """Return the outputs of a run's projects: those whose files are complete, a release, or for PyPI as well.

    `folder` has the artifact with the outputs of each; a project that failed or has nothing to release left none.
    """
    built, pypi = list[dict[str, str]](), list[dict[str, str]]()
    for project in projects:
        path = folder / f"{project['artifacts']}-outputs" / OUTPUTS
        if path.is_file():
            said = dict(line.split("=", 1) for line in path.read_text(encoding="utf-8").splitlines())
            built.append({**project, **{key: said[key] for key in ("package", "version", "channel")}})
            pypi += built[-1:] if said["pypi"] == "true" else []
    releases = [one for one in built if one["channel"] != "none"]
    found = {"built": built, "releases": releases, "pypi": pypi}
    return {name: json.dumps(rows, separators=(",", ":")) for name, rows in found.items()}
