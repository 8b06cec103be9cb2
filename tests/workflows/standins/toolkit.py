"""Stands for the command `fatwheel` that our setup action installs: calls the command line that the tests prepared.

The arguments begin with the address of that server. Without one the toolkit of the folder that comes next runs here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if os.environ.get("STANDIN_CONTAINER"):  # an image of manylinux has every Python
    os.environ["PATH"] += os.pathsep + os.environ["STANDIN_PYTHONS"]
address, toolkit, *arguments = sys.argv[1:]
if address:
    sys.path.insert(0, str(Path(__file__).parents[3]))
    from tests.servers.prepared import call

    sys.exit(call(address, arguments, cwd=str(Path.cwd()), env=os.environ))
sys.path.insert(0, toolkit)
from ci_tools.cli.main import main  # noqa: E402 - the folder is known only now

sys.exit(main(arguments))
