"""A world in which a page's commands can be typed: a project with a release, and servers for S3, GitHub and PyPI."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.builders.sources import git, write
from tests.servers import github_issues
from tests.servers.buckets import CREDENTIALS, moto
from tests.servers.github import REPOSITORY, TOKEN, github_server
from tests.servers.package_index import over_http
from tests.servers.uploads import pypiserver

CHECKOUT = Path(__file__).parents[2]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
BUCKETS = ("wheels", "my-bucket", "mirror", "pytorch")  # those that pages name
NAMES = ("example/demo", "my-org/wheels", "my-org/demo", "their-org/wheels", "OWNER/REPO")  # and repositories
PROJECT = {
    "pyproject.toml": (
        '[build-system]\nrequires = ["flit_core>=3.9"]\nbuild-backend = "flit_core.buildapi"\n'
        '[project]\nname = "demo"\nversion = "1.2.0"\ndescription = "A demo."\nrequires-python = ">=3.10"\n'
    ),
    "demo/__init__.py": "ANSWER = 42\n",
    "fatwheel.yml": (
        f'package: demo\npython: ["{PYTHON}"]\nplatforms:\n  linux-cpu:\n'
        '  linux-cuda: {cuda: ["13.0"], archs: ["9.0"]}\n'
        "  linux-rocm: {rocm: ['7.2'], archs: [gfx942]}\n  windows:\nvalidate:\n  imports: [demo]\n"
        'publish:\n  pypi: wheels\n  targets: ["s3://wheels/whl"]\n'
    ),
    ".gitignore": "dist/\n",
}


class World(NamedTuple):
    """A checkout of the project, the variables of a shell, and what stands for names of pages."""

    project: Path
    environ: Mapping[str, str]
    words: Mapping[str, str]

    def type(self, line: str, timeout: float = 1800) -> subprocess.CompletedProcess[str]:
        """Type a line into a shell, with names of the page replaced, and return what came of it."""
        for name, stands_for in self.words.items():
            line = line.replace(name, stands_for)
        return subprocess.run(
            ["bash", "-c", line], cwd=self.project, env=self.environ, capture_output=True, text=True,
            check=False, timeout=timeout,
        )  # fmt: skip


def make_project(folder: Path) -> Path:
    """Write the project with its tag, a repository that it is pushed to, and its release in `dist`."""
    project = write(folder / "demo", PROJECT)
    git(folder, "init", "--quiet", "--bare", "origin.git")
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "remote", "add", "origin", "../origin.git")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "first")
    git(project, "tag", "v1.2.0")
    git(project, "push", "--quiet", "origin", "main")
    command = ["fatwheel", "release", "--to", f"dir:{folder / 'elsewhere'}"]
    subprocess.run(command, cwd=project, env=_shell(folder), check=True, capture_output=True)
    return project


def _shell(folder: Path) -> dict[str, str]:
    """Return the variables of a user's shell whose home is a folder."""
    bin_folder = Path(sys.executable).parent
    own = {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    cache = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))}
    return {**os.environ, **own, **cache}


@contextmanager
def open_world(made: Path, folder: Path) -> Iterator[World]:
    """Yield a world around a copy of the project that was made, until the body ends."""
    shutil.copytree(made.parent, folder / "world", symlinks=True)
    project = folder / "world" / "demo"
    with (
        moto() as bucket,
        github_server() as hub,
        pypiserver(folder / "uploaded") as upload,
        over_http(project.parent / "elsewhere") as index,
    ):
        hub.commits.add(git(project, "rev-parse", "HEAD"))
        talk = github_issues.settle(hub)
        for _ in range(7):  # the pull request that a page names
            talk.pulls[talk.open("A change", "", author="octo", is_pull=True).number] = REPOSITORY
        for name in BUCKETS:
            bucket.client().create_bucket(Bucket=name)
        environ = {
            **_shell(project.parent), **CREDENTIALS, **upload.environ, "GH_TOKEN": TOKEN, "GITHUB_API_URL": hub.url,
            "AWS_ENDPOINT_URL": bucket.endpoint,
        }  # fmt: skip
        words = {
            **dict.fromkeys(NAMES, REPOSITORY),
            "--to pypi": f"--to {shlex.quote(f'pypi:{upload.upload}')}",
            "$REPOSITORY": str(CHECKOUT),
            "/srv/wheels": str(folder / "srv"),
            "https://r2.example": bucket.endpoint,
            "https://my-org.github.io/wheels": index,
            "--python 3.12": f"--python {PYTHON}",
        }
        yield World(project, environ, words)
