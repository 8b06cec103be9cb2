"""`expandvars`, which aio-libs' build backends use for the paths in their settings."""

from __future__ import annotations

import os
import re
from typing import Any

from ci_tools.observe.inside.facts import FACTS

DEFAULT = re.compile(r"\$\{(\w+):?-([^}]*)\}")


def expandvars(text: str, **options: Any) -> str:
    """Return a text with the values of the variables that it names."""
    if options.keys() - {"nounset"}:
        FACTS.doubt("calls expandvars with an option, which is not simulated")
    return os.path.expandvars(DEFAULT.sub(lambda found: FACTS.variable(found[1]) or found[2], text))
