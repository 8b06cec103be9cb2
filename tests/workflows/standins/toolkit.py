"""Stands for the command `fatwheel` of our setup action where a test has changed the toolkit: out of its folder.

A toolkit that is the tests' own is forked by `tests.servers.prepared`.
"""

from __future__ import annotations

import sys

sys.path.insert(0, sys.argv.pop(1))

from ci_tools.cli.main import main

sys.exit(main())
