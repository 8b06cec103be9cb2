"""The command `fatwheel` with an accelerator and a target that nobody has, each in one file beside this one."""

import sys
from pathlib import Path

from ci_tools.catalog import accelerators, targets

for package in (accelerators, targets):
    package.__path__.append(str(Path(__file__).parent / package.__name__.rpartition(".")[2]))
    package.discover()

from ci_tools.cli.main import main  # noqa: E402 - it reads what there is

sys.exit(main())
