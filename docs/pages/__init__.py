"""The generated pages of docs/reference, one module for each: its `describe` yields the lines."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
