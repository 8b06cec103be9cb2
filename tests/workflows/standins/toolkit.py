"""Stands for the command `fatwheel` that our setup action installs; what comes first is its folder or its address.

A toolkit that a test has changed runs out of its folder. All others are the same, forked by `tests.servers.prepared`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if os.environ.get("STANDIN_CONTAINER"):  # an image of manylinux has every Python
    os.environ["PATH"] += os.pathsep + os.environ["STANDIN_PYTHONS"]
toolkit = sys.argv.pop(1)
if Path(toolkit).is_dir():
    sys.path.insert(0, toolkit)

    from ci_tools.cli.main import main

    status = main()
else:
    sys.path.append(str(Path(__file__).parents[2] / "servers"))

    from calling import call

    status = call(toolkit, sys.argv[1:], cwd=str(Path.cwd()), env=os.environ, files=(1, 2))

sys.exit(1 if status is None else status)
