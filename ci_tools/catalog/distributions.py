"""Names the distribution that `pip install` takes for a module that `import` names."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["distribution_of"]

TABLE = Path(__file__).with_name("modules.toml")


def distribution_of(module: str) -> str:
    """Return the requirement that brings a module: `pyyaml` for `yaml`, else the module's own name."""
    top = module.partition(".")[0]
    return _distributions().get(top) or canonicalize_name(top)


@functools.cache
def _distributions() -> dict[str, str]:
    table: dict[str, str] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["distributions"]
    return table
