"""Every check of workflow and action files in one: `python -m tests.workflows.lint [ROOT]`, as `make lint` runs it.

GitHub's own parser, zizmor, our rules, bash and shellcheck. Prints each fault on a line that begins with its file.
Exit status: 0 without a fault, 1 with one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tests.workflows import rules, shells

HERE = Path(__file__).parent
ZIZMOR = ("--quiet", "--offline", "--persona=pedantic", "--strict-collection", "--no-exit-codes", "--format=json")


def faults(root: Path) -> Iterator[str]:
    """Yield what is wrong with the workflow and action files of a repository."""
    names = [path.relative_to(root).as_posix() for pattern in rules.PLACES for path in sorted(root.glob(pattern))]
    yield from _output(["node", str(HERE / "parse.mjs"), *names], root, good=(0, 1)).splitlines()
    yield from _seen_by_zizmor(names, root)
    files = rules.project(root)
    yield from (str(finding) for file in files.values() for finding in rules.findings(file, files))
    yield from map(str, shells.findings(files))


def _seen_by_zizmor(names: list[str], root: Path) -> Iterator[str]:
    config = root / ".github" / "zizmor.yml"
    options = [*ZIZMOR, *([f"--config={config}"] if config.is_file() else [])]
    program = Path(sysconfig.get_path("scripts")) / "zizmor"
    for fault in json.loads(_output([str(program), *options, *names], root)):
        place = next(one for one in fault["locations"] if one["symbolic"]["kind"] == "Primary")
        file = place["symbolic"]["key"]["Local"]["verbatim_path"]
        line = place["concrete"]["location"]["start_point"]["row"] + 1
        if not fault["ignored"]:
            yield f"{file}:{line}: zizmor: {fault['desc']} ({fault['ident']})"


def _output(command: list[str], root: Path, good: tuple[int, ...] = (0,)) -> str:
    """Return what a linter prints; raise CalledProcessError where it did not get to its end."""
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in good:
        raise subprocess.CalledProcessError(done.returncode, command)
    return done.stdout


def main() -> int:
    """Print every fault, and return the exit status."""
    root = Path(sys.argv[1]) if sys.argv[1:] else HERE.parents[1]
    found = list(faults(root))
    for fault in found:
        print(fault)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
