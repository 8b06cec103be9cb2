"""Checkouts of strangers, from `fatwheel init` to an import in a clean environment, beside `python -m build`.

`python -m tests.proof.strangers MIRRORS` goes through strangers.toml and writes the record; with names behind it, only
those. MIRRORS is a folder of repositories, `OWNER+NAME/repo`, submodules among them. Each command is one that a
newcomer types. The config is narrowed to one Python, one platform and, for CUDA, one architecture and the glibc level
that `--here` takes, so that `build` and `release` compile the same; anything else is edited only where a command ended
before it compiled, and its sentence named the edit.

Fatwheel's cache is new for each checkout, but for what was downloaded before: toolkits, torch, cmake. The plain way of
a CUDA project gets as much: an environment with torch for CUDA, and that toolkit.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ci_tools.build.toolchain import find_level, libc
from ci_tools.formats.tar import tarfile
from ci_tools.machine import package_index
from ci_tools.machine.python import find
from ci_tools.machine.storage import cache_folder, write_atomically
from ci_tools.model.versions import Python
from ci_tools.verify.modules import own_imports
from tests.builders.sources import committed, git
from tests.builders.times import children_seconds
from tests.proof.plain_way import compare, read_sdist, read_wheel
from tests.proof.truth import HERE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from collections.abc import Iterator

RECORD = HERE / "strangers.json"
FATWHEEL = (sys.executable, "-m", "ci_tools")
TARGET = "dir:dist/index"
TORCH = "2.13.0"  # pip has a build of it for CPUs; an open range brings gigabytes
CUDA = "13.0"
KEPT = ("toolchains", "tools", "torch", "torch-parts")  # of Fatwheel's cache
RELEASED = "release, with the trials and the build from the sdist"
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
    for project in (one for one in wanted if not names or one["name"] in names):
        with tempfile.TemporaryDirectory() as scratch:
            said = Attempt(project, Path(scratch), mirrors).record()
        known = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else ()  # others may run at the same time
        found = {one["name"]: one for one in (*known, said)}
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
        self.edits: list[dict[str, str]] = []
        # pip prefers the build for CPUs of two with one version, if both can be had; `===` is the one for CUDA
        (folder / "constraints.txt").write_text(f"torch{'===' if 'torch' in project else '=='}{TORCH}\n", "utf-8")
        (folder / "cache").mkdir()
        for name in KEPT:
            (folder / "cache" / name).symlink_to(cache_folder(os.environ) / name)

    def record(self) -> dict[str, Any]:
        """Return what came of it, step by step, until one failed."""
        said = {"name": self.project["name"], "date": dt.datetime.now(dt.timezone.utc).date().isoformat()}
        return said | dict(self._steps())

    def _steps(self) -> Iterator[tuple[str, Any]]:
        cpu: dict[str, float] = {}
        yield "cpu_seconds", cpu
        asked = self.project.get("torch", self.project.get("cpu-torch", ""))
        torch = ["--torch", asked] if asked else []
        step = self._run(*FATWHEEL, "init", *torch)
        cpu["init"] = step.cpu
        if step.status:
            yield "ended", f"init: {_shorten(step.printed)}"
            return
        whole = self._narrow()
        steps: dict[str, Step] = {}
        while True:
            steps = dict(self._attempt())
            last, step = list(steps.items())[-1]
            if not step.status or last == "release" or not self._edit(step.printed):
                break
        cpu |= {RELEASED if name == "release" else name: step.cpu for name, step in steps.items()}
        yield "attempts", len(self.edits) + 1
        yield "edits", self.edits
        if step.status:
            yield "ended", f"{last}: {_shorten(step.printed)}"
            return
        yield "wheels", sorted(path.name for path in (self.source / "dist").glob("*.whl"))
        yield "imported", self._import(step.printed)
        yield from self._plain(cpu)
        (self.source / "fatwheel.yml").write_text(whole, encoding="utf-8")
        step = self._run(*FATWHEEL, "plan", "--format", "json", "--out", "../whole.json")
        planned = json.loads((self.source / "../whole.json").read_text()) if not step.status else {}
        yield "planned", len(planned.get("jobs", ())) or _shorten(step.printed)
        yield "needed", self.project["needed"]

    def _attempt(self) -> Iterator[tuple[str, Step]]:
        """Yield each command with its end, until one failed."""
        step = self._run(*FATWHEEL, "plan", "--out", "../plan.json")
        yield "plan", step
        if not step.status:
            job = json.loads((self.source / "../plan.json").read_text())["jobs"][0]["name"]
            names = job if "sdist: false" in (self.source / "fatwheel.yml").read_text() else f"sdist,{job}"
            step = self._run(*FATWHEEL, "build", "--job", names, "--out", "dist")
            yield "build", step
        if not step.status or re.search("(write|raise) `wheel-platform", step.printed):  # which `--here` does
            yield "release", self._run(*FATWHEEL, "release", "--to", TARGET, "--here")

    def _edit(self, printed: str) -> bool:
        """Make the edit of the list whose words were printed, if nothing was compiled yet; return whether one was."""
        if [*(self.source / "dist/logs").glob("*cp*.log")]:
            return False
        for edit in self.project.get("edits", ()):
            if edit["said"] in printed and edit["said"] not in [one["said"] for one in self.edits]:
                _apply(edit, self.source)
                self.edits.append(dict(edit))
                return True
        return False

    def _plain(self, cpu: dict[str, float]) -> Iterator[tuple[str, Any]]:
        """Build a second clean clone by `python -m build`, and compare the members."""
        plain = self._clone("plain") / self.project.get("folder", ".")
        for edit in self.edits:
            _apply(edit, plain)
        tools = self.folder / "tools"
        self._run(self.python, "-m", "venv", str(tools))
        needs = ["build", *self.project.get("plain", ())]
        installed = self._run(str(tools / "bin" / "pip"), "install", "--quiet", *needs)
        options = ["--no-isolation"] if "plain" in self.project else []
        variables = self.project.get("env", {})
        if "torch" in self.project:
            variables = {**variables, **self._toolkit(), "TORCH_CUDA_ARCH_LIST": "9.0"}
        else:  # a project that takes CUDA where it finds it would compile more than the job for CPUs does
            folders = os.environ["PATH"].split(os.pathsep)
            variables = {**variables, "PATH": os.pathsep.join(one for one in folders if not Path(one, "nvcc").exists())}
        command = [str(tools / "bin" / "python"), "-m", "build", *options, "--outdir", str(self.folder / "built")]
        step = installed if installed.status else self._run(*command, str(plain), **variables)
        if step.status:
            yield "plain", f"ended: {_shorten(step.printed)}"
            return
        cpu["python -m build"] = step.cpu
        ours = sum(seconds for name, seconds in cpu.items() if name in {"init", "plan", "build"})
        yield "cpu beside the plain way", round(ours / step.cpu, 2)
        for pattern, read in (("*.tar.gz", read_sdist), ("*.whl", read_wheel)):
            found = [sorted(where.glob(pattern)) for where in (self.source / "dist", self.folder / "built")]
            if all(found):
                own = {name: said for name, said in read(found[0][0]).items() if not name.endswith("fatwheel.yml")}
                yield f"members of {pattern}", {"all": len(own), **compare(own, read(found[1][0]))}

    def _toolkit(self) -> dict[str, str]:
        """Return the variables that name the CUDA of Fatwheel's cache: its compiler, and its libraries over it."""
        home, kept = self.folder / "cuda", self.folder / "cache/toolchains"
        parts = [*kept.glob(f"cuda-toolkit-{CUDA}*-linux-x86_64/nvidia/*"), *kept.glob(f"cuda-{CUDA}*-x86_64/home")]
        for part in parts:
            shutil.copytree(part, home, symlinks=True, dirs_exist_ok=True)
        return {"CUDA_HOME": str(home), "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}

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

    def _narrow(self) -> str:
        """Ask for one Python and one platform, and of CUDA for one architecture; return the config of `init`."""
        path = self.source / "fatwheel.yml"
        whole = path.read_text(encoding="utf-8")
        config = yaml.safe_load(whole)
        platform = self.project.get("platform", "linux-cpu")
        config["python"] = [self.project.get("python", "3.11")]
        config["platforms"] = {platform: config["platforms"][platform]}
        if "torch" in self.project:
            config["platforms"][platform] |= {"archs": ["9.0"], "wheel-platform": find_level(libc())}
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        return whole

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
        wheel = next((self.source / "dist").glob("*.whl"))
        modules = config.get("validate", {}).get("imports") or own_imports(wheel)
        ended = self._run(str(environment / "bin" / "python"), "-P", "-c", f"import {', '.join(modules)}")
        return _shorten(ended.printed) if ended.status else ", ".join(modules)

    def _run(self, *command: str, **variables: str) -> Step:
        before = children_seconds()
        own = {"PIP_CONSTRAINT": "constraints.txt", "FATWHEEL_CACHE": "cache"}
        environ = {**os.environ, **{name: str(self.folder / file) for name, file in own.items()}, **variables}
        ran = subprocess.run(
            command, cwd=self.source, env=environ, capture_output=True, text=True, timeout=MINUTES * 60, check=False
        )
        return Step(ran.returncode, f"{ran.stdout}{ran.stderr}", round(children_seconds() - before, 1))


def _apply(edit: dict[str, str], source: Path) -> None:
    with (source / edit["file"]).open("a", encoding="utf-8") as file:
        file.write(edit["add"])


def _shorten(printed: str) -> str:
    return "\n".join(printed.strip().splitlines()[-6:])


if __name__ == "__main__":
    main()
