"""What the scripts share that stand for other people's actions: their inputs, the run's settings, and what they say."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

INPUTS: dict[str, str] = {name: str(value).strip() for name, value in json.loads(os.environ["INPUTS"]).items()}
SETTINGS: dict[str, Any] = json.loads(Path(os.environ["STANDIN_SETTINGS"]).read_text(encoding="utf-8"))
WORKSPACE = Path(os.environ["GITHUB_WORKSPACE"])


def given(name: str) -> bool:
    """Whether an input says true; any other word than true and false is refused, as the real actions do."""
    if INPUTS[name].lower() not in {"true", "false"}:
        refuse(f"Input does not meet YAML 1.2 Core Schema specification: {name}")
    return INPUTS[name].lower() == "true"


def words(name: str) -> list[str]:
    """Return the lines of an input, without the empty ones."""
    return [line.strip() for line in INPUTS[name].splitlines() if line.strip()]


def shared(kind: str) -> Path:
    """Return the folder that stands for one of GitHub's stores: artifacts, caches, attestations."""
    folder = Path(SETTINGS["shared"]) / kind
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def required(*names: str) -> None:
    """Refuse a step that leaves out what the action must be given; act would start it."""
    if missing := [name for name in names if not INPUTS[name]]:
        refuse(f"Input required and not supplied: {', '.join(missing)}")


def hand_on(**values: str) -> None:
    """Set outputs, `_` in their names standing for `-`."""
    append("GITHUB_OUTPUT", {name.replace("_", "-"): value for name, value in values.items()})


def append(file: str, values: dict[str, str]) -> None:
    """Add lines to one of the files that a step speaks to its runner with."""
    with Path(os.environ[file]).open("a", encoding="utf-8") as stream:
        stream.writelines(f"{name}={value}\n" for name, value in values.items())


def refuse(message: str) -> NoReturn:
    """Fail the step with an annotation."""
    escaped = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    print(f"::error::{escaped}")
    sys.exit(1)
