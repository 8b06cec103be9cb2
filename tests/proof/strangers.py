"""Checkouts of strangers, from `fatwheel init` to an import in a clean environment, beside `python -m build`.

`python -m tests.proof.strangers MIRRORS` goes through strangers.toml and writes the record; with names behind it, only
those. MIRRORS is a folder of repositories, `OWNER+NAME/repo`, submodules among them. Each command is one that a
newcomer types. The config is narrowed to one Python, one platform and, for CUDA, one torch and one architecture;
nothing else is changed.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from ci_tools.formats.tar import tarfile
from ci_tools.machine import package_index
from ci_tools.machine.python import find
from ci_tools.machine.storage import write_atomically
from ci_tools.model.versions import Python
from tests.builders.sources import committed, git
from tests.proof.plain_way import compare, read_sdist, read_wheel
from tests.proof.truth import HERE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = HERE / "strangers.json"
FATWHEEL = (sys.executable, "-m", "ci_tools")
TARGET = "dir:dist/index"
TORCH = "torch==2.13.0"  # pip has a build of it for CPUs; an open range brings gigabytes
MINUTES = 40


class Step(NamedTuple):
    """The end of a command: its exit status, what it printed, and the seconds of processor time that it took."""

    status: int
    printed: str
    cpu: float


def main() -> None:
    """Go through every checkout, or those named, and write the record after each."""
    mirrors, names = Path(sys.argv[1]).resolve(), sys.argv[2:]
    wanted = projects()
    found = {one["name"]: one for one in (json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else ())}
    for project in (one for one in wanted if not names or one["name"] in names):
        with tempfile.TemporaryDirectory() as scratch:
            found[project["name"]] = Attempt(project, Path(scratch), mirrors).record()
        print(json.dumps(found[project["name"]], indent=1), flush=True)
        known = [found[one["name"]] for one in wanted if one["name"] in found]
        with write_atomically(RECORD) as file:
            file.write(f"{json.dumps(known, indent=1, ensure_ascii=False)}\n".encode())


def projects() -> list[dict[str, Any]]:
    """Return the checkouts."""
    tables: list[dict[str, Any]] = tomllib.loads((HERE / "strangers.toml").read_text(encoding="utf-8"))["project"]
    return tables


class Attempt:
    """One checkout on its way from `fatwheel init` to an import."""

    def __init__(self, project: dict[str, Any], folder: Path, mirrors: Path) -> None:
        self.project, self.folder, self.mirrors = project, folder, mirrors
        self.python = str(find(Python.parse(project.get("python", "3.11")), os.environ))
        self.source = self._clone("source") / project.get("folder", ".")
        (folder / "constraints.txt").write_text(f"{TORCH}\n", encoding="utf-8")

    def record(self) -> dict[str, Any]:
        """Return what came of it, step by step, until one failed."""
        said = {"name": self.project["name"], "date": dt.datetime.now(dt.timezone.utc).date().isoformat()}
        return said | dict(self._steps())

    def _steps(self) -> Iterator[tuple[str, Any]]:
        cpu: dict[str, float] = {}
        yield "cpu_seconds", cpu
        for name, arguments in (("init", ["init"]), ("plan", ["plan", "--out", "../plan.json"])):
            step = self._run(*FATWHEEL, *arguments)
            cpu[name] = step.cpu
            if step.status:
                yield "ended", f"{name}: {_shorten(step.printed)}"
                return
            if name == "init":
                self._narrow()
        jobs = [job["name"] for job in json.loads((self.source / "../plan.json").read_text())["jobs"]]
        yield "planned", len(jobs)
        for name, job in (("sdist", "sdist"), ("wheel", jobs[0])):
            cpu[name] = self._run(*FATWHEEL, "build", "--job", job, "--out", "dist").cpu
        step = self._run(*FATWHEEL, "release", "--to", TARGET, "--here")
        cpu["release, with the trials and the build from the sdist"] = step.cpu
        if step.status:
            yield "ended", f"release: {_shorten(step.printed)}"
            return
        yield "wheels", sorted(path.name for path in (self.source / "dist").glob("*.whl"))
        yield "imported", self._import(step.printed)
        yield from self._plain(cpu)

    def _plain(self, cpu: dict[str, float]) -> Iterator[tuple[str, Any]]:
        """Build a second clean clone by `python -m build`, and compare the members."""
        plain = self._clone("plain") / self.project.get("folder", ".")
        step = self._run(self.python, "-m", "build", "--outdir", str(self.folder / "built"), str(plain))
        cpu["python -m build"] = step.cpu
        if step.status:
            yield "plain", f"ended: {_shorten(step.printed)}"
            return
        for pattern, read in (("*.tar.gz", read_sdist), ("*.whl", read_wheel)):
            ours, theirs = (min(where.glob(pattern)) for where in (self.source / "dist", self.folder / "built"))
            own = {name: said for name, said in read(ours).items() if not name.endswith("fatwheel.yml")}
            yield f"members of {pattern}", {"all": len(own), **compare(own, read(theirs))}

    def _clone(self, name: str) -> Path:
        """Return a clean clone at the commit, with its submodules; of an sdist a repository of its own."""
        root, project = self.folder / name, self.project
        if "sdist" in project:
            archive = self.folder / f"{project['name']}-{project['sdist']}.tar.gz"
            index = package_index.users_index(os.environ)
            package_index.download(
                project["name"], archive.name, project["sha256"], archive, index=index, progress=lambda *_: None
            )
            with tarfile.open(archive) as tar:
                tar.extractall(self.folder / "unpacked", filter="data")
            (self.folder / "unpacked" / archive.name.removesuffix(".tar.gz")).rename(root)
            committed(root)
            return root
        here = {path.parent.name.replace("+", "/"): path for path in self.mirrors.glob("*/repo")}
        settings = (f"url.{path}.insteadOf=https://github.com/{name}.git" for name, path in here.items())
        options = [part for setting in settings for part in ("-c", setting)]
        git(self.folder, "clone", "--quiet", str(self.mirrors / project["repository"].replace("/", "+") / "repo"), name)
        git(root, "checkout", "--quiet", project["commit"])
        git(root, *options, "submodule", "--quiet", "update", "--init", "--recursive")
        git(root, "remote", "set-url", "origin", f"https://github.com/{project['repository']}.git")
        return root

    def _narrow(self) -> None:
        """Ask for one Python and one platform, and of CUDA for one torch and one architecture."""
        path = self.source / "fatwheel.yml"
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        platform = self.project.get("platform", "linux-cpu")
        config["python"] = [self.project.get("python", "3.11")]
        config["platforms"] = {platform: config["platforms"][platform]}
        if "torch" in self.project:
            config["torch"] = [self.project["torch"]]
            config["platforms"][platform]["archs"] = ["9.0"]
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")

    def _import(self, printed: str) -> str:
        """Type the last command that a release printed, and import what the config or the project names."""
        command = re.findall(r"^pip install (.*)$", printed, re.MULTILINE)[-1]
        environment = self.folder / "environment"
        self._run(self.python, "-m", "venv", str(environment))
        config = yaml.safe_load((self.source / "fatwheel.yml").read_text(encoding="utf-8"))
        needed = config.get("validate", {}).get("requires", [])  # what `init` said that nothing else brings
        installed = self._run(str(environment / "bin" / "pip"), "install", "--quiet", *command.split(), *needed)
        if installed.status:
            return f"pip: {_shorten(installed.printed)}"
        modules = config.get("validate", {}).get("imports", [])
        ended = self._run(str(environment / "bin" / "python"), "-P", "-c", f"import {', '.join(modules)}")
        return _shorten(ended.printed) if ended.status else ", ".join(modules)

    def _run(self, *command: str) -> Step:
        before = _children()
        environ = {**os.environ, "PIP_CONSTRAINT": str(self.folder / "constraints.txt")}
        ran = subprocess.run(
            command, cwd=self.source, env=environ, capture_output=True, text=True, timeout=MINUTES * 60, check=False
        )
        return Step(ran.returncode, f"{ran.stdout}{ran.stderr}", round(_children() - before, 1))


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _shorten(printed: str) -> str:
    return "\n".join(printed.strip().splitlines()[-6:])


if __name__ == "__main__":
    main()
