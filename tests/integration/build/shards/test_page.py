"""The page about shards, typed: on machines of one's own, with GNU parallel, and with a stand-in of Slurm's sbatch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_tools.machine.storage import sha256_of
from tests.builders.sources import committed, write
from tests.builders.walkthroughs import commands, read_blocks, write_file
from tests.integration.build.shards.test_shards import list_files

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the page names Python 3.11"),
]

REPOSITORY = Path(__file__).parents[4]
PAGE = REPOSITORY / "docs/how-to/compile-in-shards.md"
# Slurm starts an array's script once for each number, with these variables (sbatch(1)).
SBATCH = """\
#!/bin/sh
for number in 1 2 3 4; do
  SLURM_ARRAY_TASK_ID=$number SLURM_ARRAY_TASK_COUNT=4 sh "$2" || exit 1
done
"""
FATWHEEL = f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} -m ci_tools "$@"\n'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of a project with six units, and the page's script."""
    folder = tmp_path_factory.mktemp("page")
    write(folder / "project", list_files())
    for block in read_blocks(PAGE):
        if block.language == "sh":
            write_file(block, folder / "project")
    write(folder / "bin", {"sbatch": SBATCH, "fatwheel": FATWHEEL})
    for program in (folder / "bin").iterdir():
        program.chmod(0o755)
    committed(folder / "project")
    return folder / "project"


def list_walks() -> Iterator[list[str]]:
    """Yield the commands of the page, those up to each one that leaves a wheel."""
    walk = list[str]()
    for block in read_blocks(PAGE):
        for command, _ in commands(block.text) if block.language == "console" else ():
            walk.append(command)
            if command.endswith(("--link", "--shards 4")):
                yield walk
                walk = []


def build(project: Path, out: str, *typed: str) -> str:
    """Type commands in a project, each as the page has it, into another folder; return the wheel's digest."""
    environ = {**os.environ, "PATH": f"{project.parent / 'bin'}:{os.environ['PATH']}"}
    environ |= {"FATWHEEL_CACHE": str(project.parent / f"cache-{out}")}
    shutil.rmtree(project / "out", ignore_errors=True)
    for command in typed:
        subprocess.run(["bash", "-c", command], cwd=project, env=environ, check=True)
    return sha256_of(next((project / "out").glob("*.whl")))


@pytest.fixture(scope="module")
def whole(project: Path) -> str:
    return build(project, "whole", "fatwheel build --job linux-cpu-cp311 --out out")


@pytest.mark.parametrize("name", ["--shard 1/4", "--shards 4", "parallel", "sbatch"])
def test_the_page_is_what_happens(name: str, project: Path, whole: str) -> None:
    typed = next(walk for walk in list_walks() if name in " ".join(walk))
    program = next(word for word in ("parallel", "sbatch", "fatwheel") if word in " ".join(typed).split())
    if not shutil.which(program, path=f"{project.parent / 'bin'}:{os.environ['PATH']}"):
        pytest.skip(f"{program} is not installed")
    assert build(project, program, *typed) == whole
