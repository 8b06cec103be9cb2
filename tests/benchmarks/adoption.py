"""An index of 100,000 files that others filled, adopted: in a folder without a hash, and in a bucket with them."""

from __future__ import annotations

import hashlib
import os
import resource
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from ci_tools.index.foreign import adoption
from ci_tools.machine.context import Outside, Silent
from ci_tools.publish.targets.addresses import index_of
from tests.builders.wheels import make
from tests.servers.buckets import BUCKET, CREDENTIALS, moto

PROJECTS = int(os.environ.get("FATWHEEL_BENCHMARK_PROJECTS", "1000"))
VERSIONS = 100


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, figure, unit, limit)."""
    count = f"{PROJECTS * VERSIONS:,}"
    with tempfile.TemporaryDirectory(prefix="fatwheel-adoption-") as folder:
        _fill_folder(Path(folder))
        yield f"{count} wheels in a folder, no hash on any page, adopted", _adopt(f"dir:{folder}"), "s", 600
    yield "memory at most", _memory(), "MB", 1500
    os.environ |= CREDENTIALS
    with moto() as bucket:
        _fill_bucket(bucket.client())
        yield f"{count} wheels in a bucket, hashes on their pages, adopted", _adopt(bucket.target("whl")), "s", 900
    yield "memory at most", _memory(), "MB", 1500


def _adopt(target: str) -> float:
    outside = Outside(environ=os.environ, cache=Path(os.devnull), reporter=Silent())
    started = time.perf_counter()
    found = adoption.adopt(index_of(target, outside), (), outside)
    assert sum(row.new for row in found.projects) == PROJECTS * VERSIONS
    return time.perf_counter() - started


def _memory() -> float:
    """Return how much memory this process had at most, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def _names(number: int) -> list[str]:
    return [f"project{number:04}-{version}.0-py3-none-any.whl" for version in range(VERSIONS)]


def _fill_folder(root: Path) -> None:
    """Write wheels that differ in name and METADATA only, and pages without a word of them."""
    made = make(root / ".made")
    for number in range(PROJECTS):
        folder = root / f"project{number:04}"
        folder.mkdir()
        for name in _names(number):
            _copy(made, folder / name)
        (folder / "index.html").write_text("".join(f'<a href="{name}">{name}</a><br>\n' for name in _names(number)))
    (root / "index.html").write_text("".join(f'<a href="project{number:04}/">x</a>\n' for number in range(PROJECTS)))
    made.unlink()


def _copy(made: Path, path: Path) -> None:
    project, version = path.name.split("-")[:2]
    fields = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{project}-{version}.dist-info/METADATA", fields)
        archive.writestr("payload", made.read_bytes())


def _fill_bucket(client: object) -> None:
    """Put wheels of a byte each and their METADATA, with all that a page can say of them."""
    put = client.put_object  # type: ignore[attr-defined]
    for number in range(PROJECTS):
        rows = []
        for name in _names(number):
            project, version = name.split("-")[:2]
            metadata = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n".encode()
            put(Bucket=BUCKET, Key=f"whl/{name}", Body=b"x")
            put(Bucket=BUCKET, Key=f"whl/{name}.metadata", Body=metadata)
            said = f'data-requires-python="&gt;=3.8" data-core-metadata="sha256={hashlib.sha256(metadata).hexdigest()}"'
            rows.append(f'<a href="/whl/{name}#sha256={hashlib.sha256(b"x").hexdigest()}" {said}>{name}</a><br>\n')
        put(Bucket=BUCKET, Key=f"whl/project{number:04}/index.html", Body="".join(rows).encode())
