"""A hook of a build backend, called as pip calls it, as a program that `tests.servers.prepared` forks.

What the backend of a smart sdist imports is imported already; the backend is the one in the sdist. Between two tries
of a download it does not wait.
"""

from __future__ import annotations

import importlib
import sys
import sysconfig
import time
from collections.abc import Sequence

SCRIPT = "pyproject_hooks._in_process._in_process"  # which pip has as well
COMMAND = ("-m", SCRIPT)
USED_LATER = ("ci_tools.install.fatwheel_backend", "difflib", "http.client", "ssl", "urllib.request", SCRIPT)


def load() -> None:
    """Import what a hook imports."""
    for name in USED_LATER:
        importlib.import_module(name)
    sysconfig.get_config_vars()


def run(arguments: Sequence[str]) -> int:
    """Call a hook: its name, and the folder of its arguments and of its answer."""
    vars(time)["sleep"] = lambda _: None
    sys.argv = [SCRIPT, *arguments]
    importlib.import_module(SCRIPT).main()
    return 0
