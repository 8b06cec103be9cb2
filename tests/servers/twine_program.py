"""twine, as a program that `tests.servers.prepared` forks, and a Python that takes it from there.

The start of twine takes ten times as long as an upload to a server on this machine.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.servers.prepared import address_of

COMMAND = ("-m", "twine")
USED_LATER = (
    *("twine.cli", "twine.commands.upload", "readme_renderer.rst", "keyring.backends", "encodings.idna"),
    "rich._emoji_codes",
    *(("importlib_metadata._adapters", "zipp.glob") if sys.version_info < (3, 12) else ()),  # which keyring needs
)
# A process that takes `-m twine ARGUMENTS` and has the prepared twine do it; whoever kills it ends that as well.
CALLER = """\
#!/bin/sh
exec {python} -I -S -c '
import os, sys
sys.path.insert(0, "{root}")
from tests.servers.calling import call
assert sys.argv[1:3] == ["-m", "twine"], sys.argv
status = call("{address}", sys.argv[3:], cwd=os.getcwd(), env=os.environ, files=(1, 2))
sys.exit(1 if status is None else status)
' "$@"
"""


def load() -> None:
    """Import what an upload imports."""
    for name in USED_LATER:
        importlib.import_module(name)


def run(arguments: Sequence[str]) -> int:
    """Run `twine` with these arguments."""
    from twine.__main__ import main  # noqa: PLC0415 - the client needs none of it

    sys.argv = ["twine", *arguments]
    return int(bool(main()))


def write_python(folder: Path) -> Path:
    """Write a program that stands in for a Python which is started with `-m twine`; beside it is this Python's uv."""
    own = Path(sys.executable)
    address = address_of("tests.servers.twine_program")
    path = folder / own.name
    path.write_text(CALLER.format(python=own, root=Path(__file__).parents[2], address=address))
    path.chmod(0o755)
    (folder / "uv").symlink_to(own.with_name("uv"))
    return path
