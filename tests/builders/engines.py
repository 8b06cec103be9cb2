"""Programs that answer as podman or docker would, for what is asked of an engine before it runs anything."""

from __future__ import annotations

from pathlib import Path


def write_engine(path: Path, *lines: str) -> Path:
    """Write a program that runs these lines of a shell."""
    path.write_text("\n".join(("#!/bin/sh", *lines, "")), encoding="utf-8")
    path.chmod(0o755)
    return path
