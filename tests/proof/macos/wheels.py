"""Wheels of the index for macOS: our reading of their libraries beside LIEF's and macholib's, and the audit's errors.

`python -m tests.proof.macos.wheels` reads each wheel of the record again and writes it; names of wheels add these.
"""

from __future__ import annotations

import argparse
import datetime as dt
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from ci_tools.formats.binaries.macho import MachO, read_macho
from ci_tools.machine.storage import cache_folder, fill_once
from ci_tools.model.files import Level
from ci_tools.verify.audit import audit
from tests.servers.uploads import UV

RECORD = Path(__file__).with_name("wheels.json")
PEERS = {"pip": "26.3", "lief": "1.0.0", "macholib": "1.16.4"}
LIMITS = {"pypi": 100 << 20, "github": 2 << 30}


def tools() -> Path:
    """Return the Python that has the peers, made once in the user's cache."""
    pins = [f"{name}=={version}" for name, version in PEERS.items()]

    def fill(folder: Path) -> None:
        subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
        subprocess.run([UV, "pip", "install", "--quiet", "--python", folder / "bin/python", *pins], check=True)

    return fill_once(cache_folder(os.environ) / "macos" / "_".join(pins), fill, print) / "bin/python"


def fetch(name: str, folder: Path) -> Path:
    """Download a wheel by its file name."""
    project, version, *_, platforms = name.removesuffix(".whl").split("-")
    options = [word for one in platforms.split(".") for word in ("--platform", one)]
    words = ["--no-deps", "--only-binary", ":all:", "--python-version", "3.11", *options, "--dest", folder]
    subprocess.run([tools(), "-m", "pip", "download", "-qqq", *words, f"{project}=={version}"], check=True)
    return folder / name


def ours(part: MachO) -> dict[str, Any]:
    """Return our reading of one part in the words of the peers."""
    return {
        "machine": part.machine,
        "minimum": part.minimum and list(part.minimum),
        "name": part.name,
        "needed": [list(one) for one in part.needed],
        "run_paths": list(part.run_paths),
        "required": sorted(part.required | part.weak),
        "defined": sorted(part.defined),
    }


def look(wheel: Path) -> dict[str, Any]:
    """Return what a wheel's record says."""
    said = subprocess.run(
        [tools(), Path(__file__).with_name("peers.py"), wheel], check=True, capture_output=True, text=True
    )
    theirs = json.loads(said.stdout)
    differences = []
    with zipfile.ZipFile(wheel) as archive:
        for name, parts in theirs.items():
            read = read_macho(io.BytesIO(archive.read(name)))
            assert len(read) == len(parts), name
            differences += [
                f"{name}: {key} of {peer}"
                for part, readings in zip(read, parts, strict=True)
                for peer, reading in zip(("LIEF", "macholib"), readings, strict=True)
                for key, value in reading.items()
                if ours(part)[key] != value
            ]
    found = audit(wheel, job=None, limits=LIMITS, work=wheel.parent / "work")
    errors = [f"{one.rule}: {one.message}: {one.found}" for one in found if one.level is Level.ERROR]
    parts = sum(map(len, theirs.values()))
    return {"files": len(theirs), "parts": parts, "differences": differences, "errors": errors}


def main() -> None:
    """Look at each wheel of the record, or at the named ones, and write the record."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.macos.wheels")
    parser.add_argument("names", nargs="*")
    names = parser.parse_args().names
    known: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))["wheels"] if RECORD.exists() else {}
    for name in names or [*known]:
        with tempfile.TemporaryDirectory() as folder:
            known[name] = look(fetch(name, Path(folder)))
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    record = {"date": today, "tools": PEERS, "wheels": dict(sorted(known.items()))}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
