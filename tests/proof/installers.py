"""What pip and uv, old and new, do with a smart sdist, and the page of the docs that says so.

Everything comes from this machine: an index with the sdist and with what compiling needs, and a server of wheels.
`python -m tests.proof.installers` tries all and writes docs/reference/installers.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ci_tools.formats.tar import tarfile
from ci_tools.machine import python as interpreters
from ci_tools.machine.storage import cache_folder, fill_once, sha256_of
from ci_tools.model.versions import Python
from tests.builders.installers import command, fetched, run_program
from tests.builders.smart_sdists import OF_FLIT, environ_of, release
from tests.builders.wheels import make
from tests.servers.assets import Assets, assets
from tests.servers.package_index import over_http
from tests.servers.prepared import PIP, Other, run_prepared
from tests.servers.uploads import UV

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "installers.md"
CLIENTS = ("pip-21.3.1", "pip-23.2.1", "pip-24.0", "pip", "uv-0.4.30", "uv-0.7.22", "uv")
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
BACKEND = "flit_core==3.9.0"  # which runs on old Pythons, needs nothing, and is small
FITS, FITS_NOT = {"DEMO_FOR_TORCH": "2.10.0+cu130"}, {"DEMO_FOR_TORCH": "2.10.0+cpu"}
TAKEN, COMPILED, FETCHED = "the wheel", "compiled", "the sdist, and the wheel is in the cache"
HAS_NOT = "has none"
OF_INSTALL = {"--no-compile", "--no-warn-conflicts"}  # options that other commands of pip have not
HEAD = """\
<!-- Written by `python -m tests.proof.installers`, which tries all of it. -->

# Installers and smart sdists

What each installer does with a [smart sdist](../how-to/install-from-pypi.md) on an index, with the wheels on another
server, both of them local. *The wheel*: the one that fits is fetched once, and nothing that compiling needs.
"""


class Place(NamedTuple):
    """Where everything is for one trial."""

    folder: Path
    index: str
    server: Assets
    sdist: Path
    environ: Mapping[str, str]


@contextmanager
def place(client: str, variables: Mapping[str, str]) -> Iterator[Place]:
    """Yield an index with a smart sdist, and a server of its wheel; the machine is what the variables say.

    The index has what compiling needs only where the client compiles.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "assets").mkdir()
        with assets(folder / "assets") as server:
            made = release(folder, server.url, files={"pyproject.toml": OF_FLIT}, cuda="13.0", torch=("2.10", None))
            needed = build_requirements().iterdir() if compiles(client, variables) else ()
            with over_http(write_index(folder / "index", [made.sdist, *needed])) as url:
                environ = environ_of(folder, {**command(client)[1], **variables})
                yield Place(folder, f"{url}/simple/", server, made.sdist, environ)


def compiles(client: str, variables: Mapping[str, str]) -> bool:
    """Whether a client has to compile: no wheel fits, or the variables name no torch and it shows a build none."""
    return variables == FITS_NOT or (not variables and client != "uv")  # `match-runtime` is of uv 0.8.5 and newer


def write_index(root: Path, files: Iterable[Path]) -> Path:
    """Write an index (PEP 503) that has these files, and return its folder."""
    for file in files:
        project = file.name.partition("-")[0].replace("_", "-")
        page = root / "simple" / project / "index.html"
        page.parent.mkdir(parents=True)
        shutil.copy(file, page.parent)
        page.write_text(f'<!DOCTYPE html><a href="{file.name}#sha256={sha256_of(file)}">{file.name}</a>\n')
    return root


def build_requirements() -> Path:
    """Return the folder in the user's cache that has what compiling needs."""

    def fill(folder: Path) -> None:
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), BACKEND]
        subprocess.run(words, check=True, capture_output=True)

    return fill_once(cache_folder(os.environ) / "clients" / BACKEND, fill, print)


def run(words: Sequence[str | Path], at: Place, *, cwd: Path | None = None) -> str:
    """Run a command as a user does, and return what it said; raise AssertionError if it fails."""
    command = [*map(str, words)]
    if command[1:3] == ["-m", "pip"]:
        old = at.environ.get("PYTHONPATH")  # see `command`
        program = Other(PIP, Path(command[0]), Path(old)) if old else PIP
        ended = run_prepared(command[3:], cwd=cwd or at.folder, env=at.environ, program=program)
    else:
        ended = run_program(command, at.environ, cwd or at.folder)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, f"{' '.join(command)}\n{said}"
    return said


def installing(client: str, at: Place) -> list[str]:
    """Return how the client is called to install from the index of this machine, and from there only."""
    words = [word for word in command(client)[0] if word not in {"--quiet", "--isolated", "--no-cache-dir"}]
    return [*words, "--index-url", at.index, *([] if is_uv(client) else ["--cache-dir", str(at.folder / "pip")])]


def is_uv(client: str) -> bool:
    """Whether a client is a uv."""
    return client.partition("-")[0] == "uv"


def outcome(at: Place, target: Path, *, downloads: int = 1) -> str:
    """Return what is installed in a folder; raise AssertionError if more was fetched than it needs."""
    kind = {"kind = 'prebuilt'": TAKEN, "kind = 'compiled'": COMPILED}[(target / "demo.py").read_text().strip()]
    asked = len(at.server.asked)
    assert asked == (downloads if kind == TAKEN else 0), f"{asked} downloads of a wheel: {at.server.asked}"
    return kind


def install(client: str, at: Place, *options: str | Path, target: str = "there") -> str:
    """Install with some options, and return what is installed."""
    run([*installing(client, at), *options, "--target", at.folder / target], at)
    return outcome(at, at.folder / target)


# ---------------------------------------------------------------- the trials


def by_name(client: str, at: Place) -> str:
    """Install by name."""
    return install(client, at, "demo")


def twice(client: str, at: Place) -> str:
    """Install twice: the second environment takes the first one's download, whatever the installer keeps."""
    install(client, at, "demo", target="first")
    keeps = ["--no-cache"] if is_uv(client) else ["--no-cache-dir"]
    words = [word for word in installing(client, at) if word != "--no-cache"]
    run([*words, *keeps, "demo", "--target", at.folder / "second"], at)
    return outcome(at, at.folder / "second")


def by_hash(client: str, at: Place) -> str:
    """Install by the sdist's hash."""
    file = at.folder / "requirements.txt"
    file.write_text(f"demo==1.0 --hash=sha256:{sha256_of(at.sdist)}\n")
    return install(client, at, "--require-hashes", "-r", file)


def constrained(client: str, at: Place) -> str:
    """Install what a file of constraints allows."""
    file = at.folder / "constraints.txt"
    file.write_text("demo==1.0\n")
    return install(client, at, "-c", file, "demo")


def no_binary(client: str, at: Place) -> str:
    """Install from source only; the sdist is the source."""
    return install(client, at, "--no-binary", "demo", "demo")


def unisolated(client: str, at: Place) -> str:
    """Install without isolation."""
    return install(client, at, "--no-build-isolation", "demo")


def by_all_options(client: str, at: Place) -> str:
    """Install by the sdist's hash, under constraints, from source only and without isolation."""
    file, constraints = at.folder / "requirements.txt", at.folder / "constraints.txt"
    file.write_text(f"demo==1.0 --hash=sha256:{sha256_of(at.sdist)}\n")
    constraints.write_text("demo==1.0\n")
    options = ["--require-hashes", "-c", constraints, "--no-binary", "demo", "--no-build-isolation"]
    return install(client, at, *options, "-r", file)


def make_wheel(client: str, at: Place) -> str:
    """Make a wheel, and install it from its folder."""
    out = at.folder / "wheels"
    if is_uv(client):
        run([*uv(client), "build", "--wheel", "--no-config", "--out-dir", out, at.sdist, *of_index(client, at)], at)
    else:
        words = installing(client, at)
        words[words.index("install")] = "wheel"
        run([*(word for word in words if word not in OF_INSTALL), "--no-deps", "--wheel-dir", out, "demo"], at)
    (wheel,) = out.glob("*.whl")
    assert wheel.name == "demo-1.0-py3-none-any.whl", wheel.name
    run([*installing(client, at), "--no-deps", wheel, "--target", at.folder / "there"], at)
    return outcome(at, at.folder / "there")


def download(client: str, at: Place) -> str:
    """Download, to install elsewhere."""
    if is_uv(client):
        return HAS_NOT
    words = installing(client, at)
    words[words.index("install")] = "download"
    out = at.folder / "downloads"
    run([*(word for word in words if word not in OF_INSTALL), "--no-deps", "--dest", out, "demo"], at)
    assert [path.name for path in out.iterdir()] == [at.sdist.name]
    assert len(at.server.asked) == 1
    return FETCHED


def compile_lock(client: str, at: Place) -> str:
    """Write a lock with hashes, and install what it says."""
    if client == "pip":
        run([sys.executable, "-m", "pip", "lock", "--index-url", at.index, "demo"], at)
        lock = (at.folder / "pylock.toml").read_text()
        assert sha256_of(at.sdist) in lock, lock
        return "locked, by the hash of the sdist"
    if not is_uv(client):
        return HAS_NOT
    (at.folder / "requirements.in").write_text("demo\n")
    lock = at.folder / "requirements.txt"
    run([*uv(client), "pip", "compile", "--no-config", "--generate-hashes", "--quiet", *of_index(client, at),
         "--python", sys.executable, "requirements.in", "-o", lock], at)  # fmt: skip
    assert sha256_of(at.sdist) in lock.read_text()
    return install(client, at, "--require-hashes", "-r", lock)


def lock_project(client: str, at: Place) -> str:
    """Lock a project that requires it, and make its environment."""
    if not is_uv(client):
        return HAS_NOT
    project = at.folder / "project"
    project.mkdir()
    text = '[project]\nname = "uses-demo"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["demo"]\n'
    (project / "pyproject.toml").write_text(text)
    for words in (["lock"], ["sync", "--locked"]):
        run([*uv(client), *words, *of_index(client, at), "--python", sys.executable], at, cwd=project)
    assert sha256_of(at.sdist) in (project / "uv.lock").read_text()
    (site,) = (project / ".venv").glob("lib/python*/site-packages")
    return outcome(at, site)


def match_runtime(client: str, at: Place) -> str:
    """Make the environment of a project that lets the build see the torch of that environment, since uv 0.8.5."""
    if not is_uv(client):
        return HAS_NOT
    files = {"torch/__init__.py": b"", "torch/version.py": b"__version__ = '2.10.0+cu130'\ncuda = '13.0'\nhip = None\n"}
    write_index(at.folder / "index", [make(at.folder, "torch-2.10.0+cu130-py3-none-any.whl", files)])
    project = at.folder / "project"
    project.mkdir()
    text = '[project]\nname = "uses-demo"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["demo", "torch"]\n'
    added = '[tool.uv.extra-build-dependencies]\ndemo = [{ requirement = "torch", match-runtime = true }]\n'
    (project / "pyproject.toml").write_text(text + added)
    run([*uv(client), "sync", *of_index(client, at), "--python", sys.executable], at, cwd=project)
    (site,) = (project / ".venv").glob("lib/python*/site-packages")
    return outcome(at, site)


def where_none_fits(client: str, at: Place) -> str:
    """Install where no wheel fits."""
    return install(client, at, "demo")


TRIALS: Mapping[str, tuple[Callable[[str, Place], str], Mapping[str, str]]] = {
    "`install`": (by_name, FITS),
    "`install` again, into another environment": (twice, FITS),
    "`install` where no wheel fits": (where_none_fits, FITS_NOT),
    "`--require-hashes`": (by_hash, FITS),
    "constraints": (constrained, FITS),
    "`--no-binary`": (no_binary, FITS),
    "`--no-build-isolation`": (unisolated, FITS),
    "`pip wheel`, `uv build --wheel`": (make_wheel, FITS),
    "`pip download`": (download, FITS),
    "`pip lock`, `uv pip compile --generate-hashes`": (compile_lock, FITS),
    "`uv lock`, `uv sync`": (lock_project, FITS),
    "`uv sync` with `extra-build-dependencies`": (match_runtime, {}),
}


def uv(client: str) -> list[str]:
    """Return the program of a uv."""
    return [str(fetched(client) / "bin" / "uv") if "-" in client else UV]


def of_index(client: str, at: Place) -> list[str]:
    """Return the options that make a uv know the index of this machine only."""
    return ["--index-url" if client == "uv-0.4.30" else "--default-index", at.index, "--no-cache"]


def tried(client: str, trial: str) -> str:
    """Return what a client does in a trial, in the words of the page."""
    do, variables = TRIALS[trial]
    with place(client, variables) as at:
        return do(client, at)


def tried_together(client: str) -> str:
    """Return what a client does with all options at once."""
    with place(client, FITS) as at:
        return by_all_options(client, at)


def interpreter(python: str) -> Path:
    """Return the path of a Python; raise LookupError if there is none."""
    found = interpreters.find(Python.parse(python), os.environ)
    if found is None:
        raise LookupError(f"no Python {python} is here")
    return found


CALLING = """\
import os, sys, zipfile
sys.path.insert(0, "_fatwheel")
import fatwheel_backend as backend
out = sys.argv[1]
assert backend.get_requires_for_build_wheel() == []
assert backend.prepare_metadata_for_build_wheel(out) == "demo-1.0.dist-info"
with zipfile.ZipFile(os.path.join(out, backend.build_wheel(out))) as wheel:
    print(wheel.read("demo.py").decode())
"""


def call_on(python: str) -> str:
    """Return what the backend makes under another Python that calls its hooks."""
    with place("uv", FITS) as at:
        with tarfile.open(at.sdist) as archive:
            archive.extractall(at.folder / "unpacked", filter="data")
        return run([interpreter(python), "-c", CALLING, at.folder], at, cwd=at.folder / "unpacked/demo-1.0")


def tried_on(python: str) -> str:
    """Return what the newest uv installs into an environment of another Python, which then runs the backend."""
    with place("uv", FITS) as at:
        words = installing("uv", at)
        words[words.index("--python") + 1] = str(interpreter(python))
        run([*words, "demo", "--target", at.folder / "there"], at)
        return outcome(at, at.folder / "there")


# ---------------------------------------------------------------- the page


def named(client: str) -> str:
    """Return the name of a client in the page."""
    name, _, version = client.partition("-")
    return f"{name} {version or 'newest'}"


def written(found: Mapping[tuple[str, str], str], pythons: Mapping[str, str]) -> str:
    """Return the page that says what was found."""
    lines = [HEAD, f"| | {' | '.join(map(named, CLIENTS))} |", f"|{'---|' * (len(CLIENTS) + 1)}"]
    lines += [f"| {trial} | {' | '.join(found[client, trial] for client in CLIENTS)} |" for trial in TRIALS]
    lines += ["", "Old pips run on Python 3.9. With the newest uv, by the Python that it installs for:", ""]
    lines += [f"| | {' | '.join(PYTHONS)} |", f"|{'---|' * (len(PYTHONS) + 1)}"]
    lines += [f"| `install` | {' | '.join(pythons[python] for python in PYTHONS)} |", ""]
    return "\n".join(lines)


def main() -> None:
    """Try everything and write the page."""
    found = {}
    for client in CLIENTS:
        for trial in TRIALS:
            found[client, trial] = tried(client, trial)
            sys.stdout.write(f"{named(client)}: {trial}: {found[client, trial]}\n")
    PAGE.write_text(written(found, {python: tried_on(python) for python in PYTHONS}), encoding="utf-8")


if __name__ == "__main__":
    main()
