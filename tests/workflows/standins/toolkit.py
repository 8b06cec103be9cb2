"""Stands for the command `fatwheel` that our setup action installs: runs the toolkit of the folder that comes first."""

from __future__ import annotations

import sys

sys.path.insert(0, sys.argv.pop(1))

from ci_tools.__main__ import main

sys.exit(main())
