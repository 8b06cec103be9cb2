"""Indexes that other people's tools have written, for tests: s3pypi's, dumb-pypi's, and the PyTorch bucket.

Each is a real tree of small wheels.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from email import message_from_bytes
from pathlib import Path

from ci_tools.machine.storage import cache_folder, fill_once
from tests.builders.wheels import hexdigest, members_of
from tests.servers.buckets import BUCKET, CREDENTIALS, NO_PROXY, Bucket
from tests.servers.prepared import Other, run_prepared
from tests.servers.uploads import UV

PEERS = ("dumb-pypi==1.15.0", "s3pypi==2.0.1")
TYPES = {".html": "text/html", ".json": "application/vnd.pypi.simple.v1+json"}


def peer(program: str) -> Path:
    """Return a program of a peer, installed into the user's cache once; raise LookupError where it cannot be had."""

    def fill(folder: Path) -> None:
        subprocess.run([UV, "venv", "--quiet", "--relocatable", "--python", sys.executable, str(folder)], check=True)
        install = [UV, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), *PEERS]
        subprocess.run(install, check=True)

    folder = cache_folder(os.environ) / "servers" / "indexers"
    if not folder.is_dir():  # its own compiled modules are written into it later, no seal stays true
        try:
            fill_once(folder, fill, print)
        except subprocess.CalledProcessError as error:
            raise LookupError(f"{' and '.join(PEERS)} cannot be installed: {error}") from None
    return folder / "bin" / program


def _run_peer(program: str, words: Iterable[str | Path], variables: Mapping[str, str]) -> None:
    """Run a peer's program, forked from one that has started."""
    python = peer(program).with_name("python")
    peers = Other("tests.servers.peers_program", python, python.parents[1])
    done = run_prepared([program, *map(str, words)], env={**os.environ, **variables}, program=peers)
    assert done.returncode == 0, done.stderr


def s3pypi_upload(
    bucket: Bucket, prefix: str, wheels: Iterable[Path], *, put_root_index: bool = True, index_html: bool = False
) -> None:
    """Upload with the real s3pypi, whose pages lie at keys that end with a slash, or are called `index.html`."""
    options = ["--put-root-index"] * put_root_index + ["--index.html"] * index_html
    words: list[str | Path] = ["upload", *wheels, "--bucket", BUCKET, "--prefix", prefix, *options]
    # The endpoint is that of its locks as well.
    _run_peer("s3pypi", words, {**CREDENTIALS, **NO_PROXY, "AWS_ENDPOINT_URL": bucket.endpoint})


# ---------------------------------------------------------------- dumb-pypi


def dumb_pypi_build(out: Path, pool: Path, *, details: bool = False) -> Path:
    """Write pages for the files of a pool with the real dumb-pypi, and return the folder that is the index.

    A pool at `out/pool` makes a tree that can be served whole. With `details` dumb-pypi is told of hashes,
    requires-python and metadata, without them of file names alone.
    """
    files = sorted(path for path in pool.iterdir() if not path.name.endswith(".metadata"))
    told = [_described(file) if details else file.name for file in files]
    option, names = ("--package-list-json" if details else "--package-list"), out.with_name(f"{out.name}.list")
    names.write_text("".join(f"{line}\n" for line in told))
    url = f"../../{os.path.relpath(pool, out)}"
    _run_peer("dumb-pypi", [option, names, "--output-dir", out, "--packages-url", url], {})
    return out / "simple"


def _described(file: Path) -> str:
    """Return what dumb-pypi is told of a file; METADATA of a wheel is laid beside it."""
    entry: dict[str, object] = {"filename": file.name, "hash": f"sha256={hexdigest(file)}", "upload_timestamp": 10**9}
    if file.suffix == ".whl":
        beside = lay_metadata(file)
        entry["core_metadata"] = f"sha256={hexdigest(beside)}"
        entry["requires_python"] = message_from_bytes(beside.read_bytes())["Requires-Python"]
    return json.dumps(entry)


def lay_metadata(wheel: Path) -> Path:
    """Write the METADATA of a wheel beside it (PEP 658)."""
    members = members_of(wheel)
    beside = wheel.with_name(f"{wheel.name}.metadata")
    beside.write_bytes(next(data for name, data in members.items() if name.endswith(".dist-info/METADATA")))
    return beside


def upload_tree(bucket: Bucket, prefix: str, folder: Path) -> None:
    """Put every file of a folder into a bucket, as `aws s3 sync` does."""
    client = bucket.client()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        key = f"{prefix}/{path.relative_to(folder).as_posix()}"
        kind = TYPES.get(path.suffix, "binary/octet-stream")
        client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes(), ContentType=kind)


def upload_wheels(bucket: Bucket, folder: str, wheels: Iterable[Path], *, noted: bool = True) -> None:
    """Put wheels as pytorch/test-infra's workflows do: `noted` with their sha256, and with METADATA beside them."""
    client = bucket.client()
    for wheel in wheels:
        key, metadata = f"{folder}/{wheel.name}", {"checksum-sha256": hexdigest(wheel)}
        client.put_object(Bucket=BUCKET, Key=key, Body=wheel.read_bytes(), Metadata=metadata if noted else {})
        if noted:
            beside = lay_metadata(wheel).read_bytes()
            client.put_object(Bucket=BUCKET, Key=f"{key}.metadata", Body=beside, ChecksumAlgorithm="SHA256")
