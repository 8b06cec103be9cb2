"""What installers, loaders and other checkers say of each kind of flawed wheel, and the record of it.

`python -m tests.proof.flawed.oracle` asks all of them and writes tests/proof/flawed_wheels.json.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

from ci_tools.machine import python as interpreters
from ci_tools.machine.storage import cache_folder, fill_once
from ci_tools.model.versions import Python
from tests.proof.flawed import archives, contents, libraries, metadata
from tests.proof.flawed.drafts import Kind
from tests.servers.uploads import UV

RECORD = Path(__file__).parents[1] / "flawed_wheels.json"
KINDS: dict[str, Kind] = {**archives.KINDS, **metadata.KINDS, **contents.KINDS, **libraries.KINDS}
PEERS = {  # each with its version, since a newer one may say something else
    "pip": "26.3",
    "uv": "0.13.9",
    "twine": "7.0.0",
    "check-wheel-contents": "0.6.3",
    "pydistcheck": "0.11.3",
    "wheel-inspect": "1.7.2",
    "abi3audit": "0.0.26",
}
PLATFORM = re.compile(r"-(?P<python>(?:cp|py)\d+)-(?P<abi>\w+)-(?P<platform>[\w.]+)\.whl$")
OPTIONS = {"twine": ["check", "--strict"], "check-wheel-contents": ["--no-config"], "abi3audit": ["--strict"]}
NOISE = re.compile(r"/\S*/(?=demo)|\x1b\[[\d;]*m|\r")


def tools() -> Path:
    """Return the Python that has the checkers, made once in the user's cache."""
    pins = [f"{name}=={version}" for name, version in PEERS.items()]

    def fill(folder: Path) -> None:
        subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
        subprocess.run(
            [UV, "pip", "install", "--quiet", "--compile-bytecode", "--python", folder / "bin/python", *pins],
            check=True,
        )

    return fill_once(cache_folder(os.environ) / "flawed" / "_".join(pins), fill, print) / "bin"


@contextmanager
def asking(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield the process that calls the checkers."""
    words = [tools() / "python", Path(__file__).with_name("peers.py")]
    environ = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    with subprocess.Popen(
        list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder, env=environ
    ) as process:
        yield process


def ask(process: subprocess.Popen[str], tool: str, arguments: list[str]) -> str:
    """Return what a checker says of a wheel; "" if nothing."""
    stdin, stdout = process.stdin, process.stdout
    assert isinstance(stdin, IO) or stdin
    print(json.dumps([tool, arguments]), file=stdin, flush=True)
    status, said = json.loads(stdout.readline())  # type: ignore[union-attr]
    return last_words(said) or f"status {status}" if status else ""


def last_words(said: str) -> str:
    """Return the line that gives a checker's reason."""
    lines = [" ".join(NOISE.sub("", line).split()) for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"ERROR|[Ee]rror\b|W\d{3}|\. \[[\w-]+\]|FAILED|├─▶|╰─▶", line)]
    return (telling or lines or [""])[-1][:160]


@cache
def ours() -> frozenset[str]:
    return frozenset(str(tag) for tag in sys_tags())


def of_another(name: str) -> tuple[list[str], list[str]]:
    """Return the options by which pip and uv install a wheel for another system or Python than this."""
    try:
        tags = {str(tag) for tag in parse_wheel_filename(name)[3]}
    except ValueError:
        return [], []
    match = PLATFORM.search(name)
    if tags & ours() or not match:
        return [], []
    version = match["python"][2:]
    dotted = f"{version[0]}.{version[1:]}".rstrip(".")
    platforms = [word for platform in match["platform"].split(".") for word in ("--platform", platform)]
    pip = [*platforms, "--python-version", dotted, "--abi", match["abi"], "--implementation", match["python"][:2]]
    kind = "windows" if "win" in name else "macos" if "macosx" in name else ""
    uv = [*(["--python-platform", kind] if kind else []), *(["--python-version", dotted] if dotted != "3" else [])]
    return pip, uv


def judge(name: str, folder: Path, process: subprocess.Popen[str]) -> dict[str, str]:
    """Return what each tool says of a kind, without those that say nothing."""
    wheel = str(KINDS[name].make(folder / name))
    target = folder / name / "target"
    pip, uv = of_another(Path(wheel).name)
    plain = ["--no-deps", "--no-index", "--target", str(target)]
    only = ["--only-binary=:all:"] if pip else []
    more = ["--no-compile", "--no-cache-dir", "--isolated", "--disable-pip-version-check", "--quiet"]
    found = {"pip": ask(process, "pip", ["install", *plain, *more, *only, *pip, wheel])}
    for peer in list(PEERS)[2:-1]:
        found[peer] = ask(process, peer, [*OPTIONS.get(peer, []), wheel])
    if "abi3" in Path(wheel).name:
        found["abi3audit"] = ask(process, "abi3audit", [*OPTIONS["abi3audit"], wheel])
    words = [tools() / "uv", "pip", "install", "--no-config", "--no-cache", "--python", sys.executable, *uv]
    plain[-1] = str(folder / name / "uv")
    ended = subprocess.run([*words, *plain, wheel], capture_output=True, text=True, check=False)
    found["uv"] = last_words(ended.stderr) or "refused" if ended.returncode else ""
    if not found["pip"]:
        found |= imported(name, Path(wheel).name, target)
    return {tool: said for tool, said in found.items() if said}


def pythons_of(name: str, wheel: str) -> tuple[str, ...]:
    """Return the Pythons that a kind is imported with: those of its tag that are here, but one for a pure wheel."""
    match = PLATFORM.search(wheel)
    if KINDS[name].pythons or not match or match["python"].startswith("py"):
        return KINDS[name].pythons or ("3.11",)
    if "linux" not in match["platform"]:
        return ()
    return ("3.11", "3.12", "3.13") if match["abi"] == "abi3" else (f"3.{match['python'][3:]}",)


def imported(name: str, wheel: str, target: Path) -> dict[str, str]:
    """Return what the Pythons say that import a kind's module."""
    found = {}
    for version in pythons_of(name, wheel) if KINDS[name].imports else ():
        python = interpreters.find(Python.parse(version), os.environ)
        if python is None:
            continue
        code = f"import sys; sys.path.insert(0, {str(target)!r}); import {KINDS[name].imports}"
        ended = subprocess.run([python, "-IBc", code], capture_output=True, text=True, check=False, timeout=60)
        if ended.returncode:
            found[f"import {version}"] = last_words(ended.stderr) or f"status {ended.returncode}"
    return found


def main() -> None:
    """Ask about every kind, or those named, and write the record."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.flawed.oracle")
    parser.add_argument("names", nargs="*")
    names = parser.parse_args().names
    said: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))["kinds"] if names and RECORD.exists() else {}
    with tempfile.TemporaryDirectory() as folder, asking(Path(folder)) as process:
        for name in names or KINDS:
            said[name] = judge(name, Path(folder), process)
    record = {
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "tools": PEERS,
        "kinds": {name: said[name] for name in KINDS if name in said},
    }
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
