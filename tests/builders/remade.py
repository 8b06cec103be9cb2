"""A released C extension in a repository of its own, and what can be wrong with its wheel or where it is remade."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.formats.binaries.elf import Extent, read_elf
from tests.builders import own_backend
from tests.builders.sources import committed, git, write

WHEEL = "tiny-1.0-*.whl"
CONFIG = """\
package: tiny
python: ["{python}"]
platforms:
  linux-cpu: {{owner: us, native: ["*.cpp"], wheel-platform: linux}}
"""
# A compiler with another version, which makes other code: what stands in .comment is not all that differs.
OTHER = """\
#!/bin/sh
case "$*" in *--version*) echo "c++ (another) 99.1"; exit;; esac
exec {compiler} -DOTHER "$@"
"""
ANSWER = """\
#ifdef OTHER
extern "C" int answer() { return 43; }
#else
extern "C" int answer() { return 42; }
#endif
"""
CODE = own_backend.CODE + ANSWER


class Released(NamedTuple):
    """A wheel that was built from a tag, and the repository."""

    repository: Path
    wheel: Path
    commit: str


def make_repository(folder: Path, python: str, requires: str = "") -> Path:
    """Return a repository with a C extension and its first release's tag; `requires` is what builds it, or it does."""
    files = {
        **own_backend.FILES,
        "fast.cpp": CODE,
        "tiny/__init__.py": "",
        "fatwheel.yml": CONFIG.format(python=python),
    }
    if requires:
        del files["backend.py"]
        project = own_backend.PYPROJECT.replace("[]", f'["{requires}"]').replace('backend-path = ["."]\n', "")
        files["pyproject.toml"] = project
    committed(write(folder, files))
    git(folder, "tag", "v1.0")
    return folder


def write_upstream(folder: Path) -> bytes:
    """Write a repository of Python files with a tag, and return its sdist."""
    files = {"pyproject.toml": own_backend.PYPROJECT, "backend.py": own_backend.BACKEND, "tiny/__init__.py": ""}
    committed(write(folder, {**files, "PKG-INFO": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"}))
    git(folder, "tag", "v1.0")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as sdist:
        for path in (path for path in folder.iterdir() if path.name != ".git"):
            sdist.add(path, f"tiny-1.0/{path.name}")
    return packed.getvalue()


def make_recipe(folder: Path, source: str) -> Path:
    """Return a repository with a config for somebody else's source, and the tag of a release."""
    platforms = '{linux-cpu: {owner: us, native: ["*.cpp"]}}'
    config = f'package: tiny\nversion: "1.0"\nsource: {{{source}}}\npython: ["3.11"]\nplatforms: {platforms}\n'
    committed(write(folder, {"fatwheel.yml": config}))
    git(folder, "tag", "v1.0")
    return folder


def move_tag(repository: Path) -> str:
    """Move the release's tag to a new commit, and return that."""
    commit = committed(write(repository, {"tiny/more.py": "x = 1\n"}))
    git(repository, "tag", "--force", "v1.0")
    return commit


def put_other_compiler(folder: Path) -> Path:
    """Put a compiler with another version into a folder for PATH, and return the folder."""
    folder.mkdir()
    (folder / "c++").write_text(OTHER.format(compiler=shutil.which("c++")))
    (folder / "c++").chmod(0o755)
    return folder


def change_wheel(wheel: Path, folder: Path, change: Callable[[bytes], bytes]) -> Path:
    """Return a copy of a wheel whose library is changed; the rest of the archive is as it was."""
    copy = folder / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(copy, "w") as target:
        for info in source.infolist():
            content = source.read(info)
            target.writestr(info, change(content) if info.filename.endswith(".so") else content)
    return copy


def flip_answer(library: bytes) -> bytes:
    """Change one byte of the function `answer`."""
    elf = read_elf(Extent.whole(io.BytesIO(library)))
    address = next(one.address for one in elf.symbols(".symtab") if one.name == "answer")
    text = elf.named(".text")[0]
    at = library.index(b"\x2a\x00\x00\x00", text.offset + address - text.address)  # 42
    return library[:at] + b"\x2b" + library[at + 1 :]


def flip_raw_byte(wheel: Path, folder: Path) -> Path:
    """Return a copy of a wheel with one byte of the packed library changed, so that its checksum does not hold."""
    with zipfile.ZipFile(wheel) as archive:
        info = next(one for one in archive.infolist() if one.filename.endswith(".so"))
    content = bytearray(wheel.read_bytes())
    content[info.header_offset + 30 + len(info.filename) + info.compress_size * 3 // 4] ^= 1
    copy = folder / wheel.name
    copy.write_bytes(content)
    return copy


def write_wheel_of_others(path: Path, content: str = "") -> None:
    """Write a wheel of one module that another tool made: it says nothing of its build."""
    name, version = path.name.split("-")[:2]
    head = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{'backend' if content else name}.py", content)
        archive.writestr(f"{head}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{head}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{head}/RECORD", "")


def write_stating_wheel(path: Path, change: Callable[[dict[str, Any]], None] | None = None) -> Path:
    """Write a wheel that states a build; `change` changes its SBOM."""
    said = {"job": "linux-cpu", "source:commit": "c" * 40, "edition": "stable", "tag": "v1.0", "config": "fatwheel.yml"}
    sbom: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "components": [{"bom-ref": "build:maker", "name": "maker", "version": "1", "hashes": []}],
        "metadata": {
            "component": {
                "name": "demo",
                "version": "1.0",
                "properties": [{"name": f"fatwheel:{name}", "value": value} for name, value in said.items()],
                "externalReferences": [{"type": "vcs", "url": "https://example.org/demo"}],
            },
            "tools": {"components": [{"name": "fatwheel", "version": "0.1.0"}]},
        },
    }
    if change:
        change(sbom)
    write_wheel_of_others(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{'-'.join(path.name.split('-')[:2])}.dist-info/sboms/fatwheel.cdx.json", json.dumps(sbom))
    return path


# What a user who may not look into root's home sees of a Python there, with a folder of temporary files of its own.
AS_NOBODY = """\
set -e
mkdir "$PLACE/python" && mount --bind "$BASE" "$PLACE/python"
mount -t tmpfs -o mode=755 tmpfs "$CLOSED" && mkdir -p "$BASE" && mount --bind "$PLACE/python" "$BASE"
mount -t tmpfs -o mode=1777 tmpfs /tmp
chown -R 65534:65534 "$PLACE/home" && cd "$PLACE/home"
exec setpriv --reuid 65534 --regid 65534 --clear-groups env HOME="$PLACE/home" TMPDIR="$PLACE/home" "$@"
"""


def run_as_nobody(place: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command as the user nobody, in the folder `home` of a place that everybody may look into."""
    closed = next((str(one) for one in Path(sys.base_prefix).parents[::-1][1:] if not one.stat().st_mode & 1), "/mnt")
    env = {"PATH": os.environ["PATH"], "PLACE": str(place), "BASE": sys.base_prefix, "CLOSED": closed}
    given = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    command = ["unshare", "--mount", "sh", "-c", AS_NOBODY, "sh", *map(str, words)]
    return subprocess.run(command, env={**given, **env}, capture_output=True, text=True, check=False)
