"""Projects built by Fatwheel and the plain way, by `python -m build` of a clean clone: each member beside the other's.

`python -m tests.proof.plain_way` does every project of plain_way.toml and writes the record; with names, only those.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from ci_tools.build import jobs as building
from ci_tools.errors import FatwheelError
from ci_tools.formats.binaries.elf import Extent, read_elf
from ci_tools.formats.path_patterns import matcher_of
from ci_tools.formats.wheel import SBOM
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder, write_atomically
from ci_tools.model.plan import SDIST, JobKind
from ci_tools.plan import make
from ci_tools.verify.files import CHECKS
from ci_tools.verify.left_out import find_left_out
from tests.builders.sources import committed, git
from tests.proof.starters import unpacked
from tests.proof.truth import HERE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from collections.abc import Mapping

RECORD = HERE / "plain_way.json"
SAMPLES = HERE.parent / "samples"
FIELDS = ("name", "version", "sha256", "sample")
# The config lies beside the clone, so that both ways have the same files.
CONFIG = """\
package: {name}
source: {{path: {source}}}
python: ["{python}"]
platforms:
  linux-cpu: {{owner: "@proof", wheel-platform: linux}}
"""
MADE = re.compile(r"(^|/)(PKG-INFO|\.git|[^/]+\.egg-info)$")  # what an sdist has, and no checkout
SAID = re.compile(r"^(Generator|Version|Tag|Build): .*\n", re.MULTILINE)  # of WHEEL and METADATA: by whom and for what


def main() -> None:
    """Build every project, or those named, both ways, and write the record after each."""
    wanted = projects()
    names = sys.argv[1:] or [one["name"] for one in wanted]
    found = {one["name"]: one for one in (json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else ())}
    for project in (one for one in wanted if one["name"] in names):
        with tempfile.TemporaryDirectory() as scratch:
            found[project["name"]] = record(project, Path(scratch))
        print(json.dumps(found[project["name"]], indent=1), flush=True)
        known = [found[one["name"]] for one in wanted if one["name"] in found]
        with write_atomically(RECORD) as file:
            file.write(f"{json.dumps(known, indent=1, ensure_ascii=False)}\n".encode())


def projects() -> list[dict[str, Any]]:
    """Return the projects that are built."""
    tables: list[dict[str, Any]] = tomllib.loads((HERE / "plain_way.toml").read_text(encoding="utf-8"))["project"]
    return tables


def record(project: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return how the files of both ways differ; `folder` is empty."""
    outside = Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    said = {name: project[name] for name in FIELDS if name in project}
    said["date"] = dt.datetime.now(dt.timezone.utc).date().isoformat()
    source = _make_repository(project, folder / "source", outside)
    try:
        ours, left_out = _build_ours(project, source, folder, outside)
    except FatwheelError as error:
        return {**said, "failed": str(error).splitlines()[:9]}
    plain = _build_plainly(source, folder)
    return {
        **said,
        "members": {kind: len(ours[kind]) for kind in ("sdist", "wheel")},
        "differences": {kind: compare(ours[kind], plain[kind]) for kind in ("sdist", "wheel")},
        "in_no_wheel": left_out,
    }


def _make_repository(project: dict[str, Any], folder: Path, outside: Outside) -> Path:
    """Write a project's source into a repository with its version's tag."""
    root = SAMPLES / project["sample"] if "sample" in project else unpacked(project, outside).root
    shutil.copytree(root, folder, symlinks=True)
    for path in sorted(folder.rglob("*"), reverse=True):
        if MADE.search(path.relative_to(folder).as_posix()):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    committed(folder)
    git(folder, "tag", f"v{project['version']}")
    return folder


def _build_ours(
    project: dict[str, Any], source: Path, folder: Path, outside: Outside
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the members of the sdist and the wheel that Fatwheel builds, and what it says of files in no wheel."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    config = folder / "fatwheel.yml"
    config.write_text(CONFIG.format(**project | {"python": python, "source": source.name}), encoding="utf-8")
    planned = make.make_plan(config, outside)
    made = building.build(planned, [SDIST, planned.plan.jobs[0].name], folder / "ours", outside, CHECKS)
    sdist, wheel = (one.path for one in made[:2])
    compiles = planned.plan.jobs[0].kind is JobKind.NATIVE
    left_out = find_left_out(planned.tree, "", [wheel], compiles=compiles)
    return {"sdist": read_sdist(sdist), "wheel": read_wheel(wheel)}, list(left_out)


def _build_plainly(source: Path, folder: Path) -> dict[str, dict[str, str]]:
    """Return the members of the sdist, and of the wheel that is made from it, of a clean clone."""
    git(folder, "clone", "--quiet", str(source), "clone")
    command = [sys.executable, "-m", "build", "--installer", "uv", "--outdir", str(folder / "plain"), "clone"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"the plain way failed:\n{ran.stdout[-3000:]}{ran.stderr[-1000:]}")
    (sdist,), (wheel,) = ((folder / "plain").glob(pattern) for pattern in ("*.tar.gz", "*.whl"))
    return {"sdist": read_sdist(sdist), "wheel": read_wheel(wheel)}


def compare(ours: Mapping[str, str], plain: Mapping[str, str]) -> dict[str, str]:
    """Return each member that only one of two files has, or that differs, and how."""
    missing, more = sorted(plain.keys() - ours.keys()), sorted(ours.keys() - plain.keys())
    changed = sorted(name for name in ours.keys() & plain.keys() if ours[name] != plain[name])
    return {
        **dict.fromkeys(missing, "only the plain one has it"),
        **dict.fromkeys(more, "only Fatwheel's has it"),
        **dict.fromkeys(changed, "its content differs"),
    }


def list_unexplained(found: Mapping[str, Any], project: Mapping[str, Any]) -> list[str]:
    """Return the members that differ in what was recorded of a project, and for which the project has no reason."""
    is_explained = matcher_of(project.get("explained", {}))
    return [name for differences in found["differences"].values() for name in differences if not is_explained(name)]


def read_sdist(path: Path) -> dict[str, str]:
    """Return what each file of an sdist holds, by its name below the top folder."""
    with tarfile.open(path) as archive:
        files = [member for member in archive.getmembers() if not member.isdir()]
        contents = {one.name.partition("/")[2]: one.linkname or _bytes_of(archive, one) for one in files}
    return {name: _shown(name, content) for name, content in contents.items()}


def _bytes_of(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file else b""


def read_wheel(path: Path) -> dict[str, str]:
    """Return what each member of a wheel holds; RECORD repeats it, and the SBOM names a build's tools."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith(("/", "/RECORD", SBOM))]
        return {_plain_name(name): _shown(name, archive.read(name)) for name in names}


def _plain_name(name: str) -> str:
    """Return a member's name without a local version."""
    return re.sub(r"\+[^/]*(?=\.(?:dist-info|data)/)", "", name)


def _shown(name: str, content: bytes | str) -> str:
    """Return a hash of what a member says: of a library its symbols, of METADATA and WHEEL not the version and tag."""
    if isinstance(content, str):
        return f"link to {content}"
    if ".so" in name and content[:4] == b"\x7fELF":
        symbols = read_elf(Extent.whole(io.BytesIO(content))).symbols(".dynsym")
        return " ".join(sorted(f"{symbol.name}{'' if symbol.section else '?'}" for symbol in symbols))
    if name.endswith((".dist-info/METADATA", ".dist-info/WHEEL", "PKG-INFO")):
        content = SAID.sub("", content.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    main()
