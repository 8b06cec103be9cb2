"""A small smart sdist, the wheel that its lock lists, and the variables of who installs it."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.install.lock import LockedWheel, write_lock
from ci_tools.install.smart_sdist import make_smart
from ci_tools.machine.storage import sha256_of
from ci_tools.model.names import FileName, Sha256
from tests.builders.installers import command, options_of, run_client
from tests.builders.wheels import make
from tests.servers.prepared import Called

CUDA = "demo-1.0+cu130-py3-none-any.whl"  # for any machine, so that it is imported on this one
PYPROJECT = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "demo"
version = "1.0"
"""
# A backend that an installer has to fetch, and that is small.
OF_FLIT = """[build-system]
requires = ["flit_core>=3.9"]
build-backend = "flit_core.buildapi"

[project]
name = "demo"
version = "1.0"
description = "Demo."
"""
COMPILED = "kind = 'compiled'\n"


class Release(NamedTuple):
    """A smart sdist, and the wheel that its lock lists."""

    sdist: Path
    wheel: Path


def plain_sdist(folder: Path, files: Mapping[str, str]) -> Path:
    """Write an sdist with these files."""
    path = folder / "demo-1.0.tar.gz"
    folder.mkdir(parents=True, exist_ok=True)
    metadata = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in {"PKG-INFO": metadata, **files}.items():
            info = tarfile.TarInfo(f"demo-1.0/{name}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def release(
    folder: Path,
    *urls: str,
    files: Mapping[str, str] | None = None,
    **known: Any,  # noqa: ANN401 - the fields of a LockedWheel
) -> Release:
    """Return a smart sdist, with more files, whose lock has one wheel at some addresses, each the start of one."""
    own = {"demo.py": b"kind = 'prebuilt'\n", "demo_data.bin": os.urandom(1 << 16)}
    wheel = make(folder / "assets", CUDA, own)
    return Release(smart_sdist([locked(wheel, *urls, **known)], folder, files), wheel)


def release_of(wheel: Path, folder: Path, *urls: str, **known: Any) -> Release:  # noqa: ANN401 - see above
    """Return a smart sdist whose lock has this wheel, whatever it holds."""
    return Release(smart_sdist([locked(wheel, *urls, **known)], folder), wheel)


def locked(wheel: Path, *urls: str, **known: Any) -> LockedWheel:  # noqa: ANN401 - see above
    """Return what a lock says of a wheel."""
    return LockedWheel(
        file=FileName(wheel.name),
        urls=tuple(f"{url}/{wheel.name}" for url in urls),
        sha256=Sha256(sha256_of(wheel)),
        size=wheel.stat().st_size,
        **known,
    )


def smart_sdist(wheels: Sequence[LockedWheel], folder: Path, files: Mapping[str, str] | None = None) -> Path:
    """Write a smart sdist with these wheels in its lock, and with more files."""
    own = {"pyproject.toml": PYPROJECT, "demo.py": COMPILED, **(files or {})}
    plain = plain_sdist(folder / "plain", own)
    path = folder / plain.name
    with path.open("wb") as sink:
        make_smart(plain, sink, lambda system: write_lock("demo", "1.0", FileName(plain.name), system, wheels))
    return path


def environ_of(tmp_path: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an installer: those of a user, with an empty cache."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PYTHON", "DEMO_"))}
    return {**kept, "XDG_CACHE_HOME": str(tmp_path / "cache"), "no_proxy": "127.0.0.1", **variables}


def install(client: str, sdist: Path, tmp_path: Path, *options: str, **variables: str) -> Called:
    """Install an sdist into the folder `there`, as a user does who wants to hear more."""
    words = [word for word in options_of(client) if word not in {"--quiet", "--isolated"}]
    environ = environ_of(tmp_path, {**command(client)[1], **variables})
    return run_client(client, [*words, *options, "-v", "--target", tmp_path / "there", sdist], environ)
