"""A file that is the build's own is heeded as `python -m build` heeds it: by the build, and by nothing before."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from ci_tools.machine.process import output
from tests.builders.sources import committed, git, write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.conftest import CommandLine

pytestmark = [pytest.mark.slow, pytest.mark.long]

CONFIG = f"""\
package: demo
version: "1.0"
python: ["{sys.version_info[0]}.{sys.version_info[1]}"]
platforms:
  linux-cpu: {{owner: x, native: ["*.c", "*.rs"], wheel-platform: linux}}
"""
PYPROJECT = """\
[build-system]
requires = ["{0}"]
build-backend = "{1}"
[project]
name = "demo"
version = "1.0"
"""
LOCK = 'version = 4\n[[package]]\nname = "demo"\nversion = "1.0.0"\n'
COMMON = {"fatwheel.yml": CONFIG, "demo/__init__.py": ""}
CARGO = '[package]\nname = "demo"\nversion = "1.0.0"\nedition = "2021"\n'
MAKE = """\
cmake_minimum_required(VERSION 3.26)
project(demo LANGUAGES C)
if(NOT NAMED)
message(FATAL_ERROR "nothing names it")
endif()
add_library(fast MODULE fast.c)
install(TARGETS fast LIBRARY DESTINATION demo)
install(FILES "${NAMED}" DESTINATION demo)
"""
# What some of them start or write: it leaves a mark outside, at `{mark}`, when a program heeds the file.
NAMED = 'file(TOUCH "{mark}")\nset(NAMED "${CMAKE_CURRENT_LIST_DIR}/named.cmake")\n'
WRITES = 'fn main() { std::fs::write("{mark}", "").unwrap(); }\n'
PRESETS = '{"version": 3, "configurePresets": [{"name": "named", "toolchainFile": "named.cmake"}]}\n'


def in_rust(main: str, **files: str) -> dict[str, str]:
    text = PYPROJECT.format("maturin>=1.9", "maturin") + '[tool.maturin]\nbindings = "bin"\n'
    return {"pyproject.toml": text, "Cargo.toml": CARGO, "Cargo.lock": LOCK, "src/main.rs": main, **files}


def in_cmake(setting: str, **files: str) -> dict[str, str]:
    text = PYPROJECT.format("scikit-build-core>=0.10", "scikit_build_core.build") + f"[tool.scikit-build]\n{setting}\n"
    sources = {"CMakeLists.txt": MAKE, "fast.c": "int one(void) { return 1; }\n", "named.cmake": NAMED}
    return {"pyproject.toml": text, **sources, **files}


# The file that is meant, and the project: without that file its build fails, or packs something else.
PROJECTS = {
    "cargo-config": (".cargo/config.toml", in_rust(
        'fn main() { println!("{}", env!("NAMED")); }\n',
        **{".cargo/config.toml": '[env]\nNAMED = "yes"\n', "build.rs": WRITES},
    )),
    "rust-toolchain": ("rust-toolchain.toml", in_rust(
        "#![feature(rustc_attrs)]\nfn main() {}\n",
        **{"rust-toolchain.toml": '[toolchain]\nchannel = "nightly"\n', "build.rs": WRITES},
    )),
    "preset": ("named.cmake", in_cmake("cmake.args = ['--preset=named']", **{"CMakePresets.json": PRESETS})),
    "toolchain": ("named.cmake", in_cmake("cmake.define.CMAKE_TOOLCHAIN_FILE = 'named.cmake'")),
    "gitattributes": (".gitattributes", {
        "pyproject.toml": PYPROJECT.format("meson-python", "mesonpy"),
        ".gitattributes": "notes.txt export-ignore\n",
        "notes.txt": "",
        "a.c": "int one(void) { return 1; }\n",
        "meson.build": "project('demo', 'c', version: '1.0')\npy = import('python').find_installation(pure: false)\n"
                       "shared_module('a', 'a.c', install: true, install_dir: py.get_install_dir() / 'demo')\n",
    }),
}  # fmt: skip


def members(folder: Path) -> set[str]:
    """Return what is in the sdist and the wheel of a folder; nothing if its build has failed."""
    names = {name for wheel in folder.glob("*.whl") for name in zipfile.ZipFile(wheel).namelist()}
    for sdist in folder.glob("*.tar.gz"):
        with tarfile.open(sdist) as archive:
            names |= {member.name for member in archive if member.isfile()}
    return {name for name in names if not name.endswith("/sboms/fatwheel.cdx.json")} if names else set()


def build_plainly(source: Path, out: Path) -> set[str]:
    """Return what `python -m build` packs of a commit's clone."""
    committed(source)
    git(source.parent, "clone", "--quiet", source.name, f"{source.name}-clone")
    command = [sys.executable, "-m", "build", "--outdir", out, f"{source}-clone"]
    failed = subprocess.run(command, check=False, capture_output=True).returncode
    return set() if failed else members(out)


@pytest.mark.parametrize("kind", PROJECTS)
def test_a_file_of_the_builds_own_is_heeded_as_in_the_plain_way(
    kind: str, tmp_path: Path, fatwheel: CommandLine
) -> None:
    name, files = PROJECTS[kind]
    if "Cargo.toml" in files and "nightly" not in str(output(["rustup", "toolchain", "list"])):
        pytest.skip("there is no nightly Rust")
    mark = tmp_path / "mark"
    files = {one: text.replace("{mark}", str(mark)) for one, text in (COMMON | files).items()}
    plain = build_plainly(write(tmp_path / "a", files), tmp_path / "plain")
    without = write(tmp_path / "b", {one: text for one, text in files.items() if one != name})
    assert plain - {f"demo-1.0/{name}"} != build_plainly(without, tmp_path / "other")
    mark.unlink(missing_ok=True)
    planned = fatwheel("plan", "--format", "json", cwd=tmp_path / "a")
    assert not mark.exists()
    job = json.loads(planned.stdout)["jobs"][0]["name"]
    ran = fatwheel("build", "--job", f"sdist,{job}", "--out", tmp_path / "ours", cwd=tmp_path / "a")
    assert members(tmp_path / "ours") == plain, ran.stderr
    assert mark.exists() == any(str(mark) in text for text in files.values())
