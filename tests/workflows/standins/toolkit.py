"""Stands for the command `fatwheel` that our setup action installs: runs the toolkit of the folder that comes first."""

from __future__ import annotations

import os
import sys

if os.environ.get("STANDIN_CONTAINER"):  # an image of manylinux has every Python
    os.environ["PATH"] += os.pathsep + os.environ["STANDIN_PYTHONS"]
sys.path.insert(0, sys.argv.pop(1))

from ci_tools.cli.main import main

sys.exit(main())
