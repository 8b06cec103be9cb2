"""What a release packs of a checkout is what `python -m build` packs of a clean clone, member by member."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from ci_tools.machine.process import output
from tests.builders.sources import committed, git, write
from tests.integration.conftest import CommandLine

pytestmark = [pytest.mark.slow, pytest.mark.long]

OURS = "/sboms/fatwheel.cdx.json"
# It has what setuptools-scm read of git, and is left out where a variable gives the version.
OF_VERSION = "/scm_version.json"
CONFIG = """\
package: demo
version: "1.0"
python: ["{python}"]
platforms:
  linux-cpu: {{owner: x, native: ["*.c", "*.rs"]}}
"""
MODULE = """\
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_c"};
PyMODINIT_FUNC PyInit__c(void) { return PyModule_Create(&module); }
"""
GENERATES = """\
import subprocess
from pathlib import Path
from setuptools import Extension, setup
FROM_SDIST = not Path(".git").is_dir()
if not FROM_SDIST:
    Path("demo/generated.c").write_bytes(Path("demo/module.in").read_bytes())
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
    Path("demo/commit.py").write_text(f"COMMIT = {commit!r}\\n")
setup(name="demo", version="1.0", packages=["demo"], ext_modules=[Extension("demo._c", ["demo/generated.c"])])
"""


def pyproject(backend: str, requires: str, more: str) -> str:
    system = f'[build-system]\nrequires = [{requires}]\nbuild-backend = "{backend}"\n'
    return f'{system}[project]\nname = "demo"\nrequires-python = ">=3.10"\n{more}'


SETUPTOOLS = ("setuptools.build_meta", '"setuptools>=77"')
SCM = ("setuptools.build_meta", '"setuptools>=77", "setuptools_scm>=8"')
DYNAMIC = 'dynamic = ["version"]\n'
RUST = {
    "pyproject.toml": pyproject("maturin", '"maturin>=1.9"', 'version = "1.0"\n[tool.maturin]\nbindings = "bin"\n'),
    "Cargo.toml": '[package]\nname = "demo"\nversion = "1.0.0"\nedition = "2021"\n',
    "Cargo.lock": 'version = 4\n[[package]]\nname = "demo"\nversion = "1.0.0"\n',
    "build.rs": 'fn main() { std::fs::write("{mark}", "").unwrap(); }\n',
}
CMAKE = {
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.26)\nproject(demo LANGUAGES C)\nif(NOT NAMED)\n"
                      'message(FATAL_ERROR "nothing names it")\nendif()\nadd_library(fast MODULE fast.c)\n'
                      "install(TARGETS fast LIBRARY DESTINATION demo)\n",
    "fast.c": "int one(void) { return 1; }\n",
    "named.cmake": 'file(TOUCH "{mark}")\nset(NAMED ON)\n',
    "CMakePresets.json": '{"version": 3, "configurePresets": [{"name": "named", "toolchainFile": "named.cmake"}]}\n',
}  # fmt: skip


def in_cmake(setting: str) -> dict[str, str]:
    more = f'version = "1.0"\n[tool.scikit-build]\n{setting}\n'
    return {**CMAKE, "pyproject.toml": pyproject("scikit_build_core.build", '"scikit-build-core>=0.10"', more)}


# The last four have a file of the build's own without which they do not compile; `{mark}` is where their build writes.
PROJECTS = {
    "scm-data": ("", {
        "pyproject.toml": pyproject(*SCM, f'{DYNAMIC}[tool.setuptools]\npackages = ["demo"]\n[tool.setuptools_scm]\n'),
        "demo/table.json": "{}",
    }),
    "scm-root": ("python", {
        "README.md": "x",
        "python/pyproject.toml": pyproject(*SCM, f'{DYNAMIC}[tool.setuptools_scm]\nroot = ".."\n'),
        "python/demo/__init__.py": "",
        "python/demo/table.json": "{}",
    }),
    "hatch-vcs": ("", {
        ".gitignore": "_version.py\n",
        "pyproject.toml": pyproject("hatchling.build", '"hatchling", "hatch-vcs"', f'{DYNAMIC}[tool.hatch]\n'
                                    'version.source = "vcs"\nbuild.hooks.vcs.version-file = "demo/_version.py"\n'),
    }),
    "meson": ("", {
        ".gitattributes": "notes.txt export-ignore\n",
        "notes.txt": "",
        "a.c": MODULE,
        "meson.build": "project('demo', 'c', version: '1.0')\npy = import('python').find_installation(pure: false)\n"
                       "py.extension_module('_c', 'a.c', subdir: 'demo', install: true)\n",
        "pyproject.toml": pyproject("mesonpy", '"meson-python"', 'version = "1.0"\n'),
    }),
    "manifest": ("", {
        "MANIFEST.in": "recursive-include docs *.md\ninclude demo/*.json\n",
        "docs/a.md": "", "docs/b.txt": "", "demo/table.json": "{}",
        "pyproject.toml": pyproject(*SETUPTOOLS, 'version = "1.0"\n[tool.setuptools]\npackages = ["demo"]\n'),
    }),
    "generated": ("", {
        ".gitignore": "generated.c\ncommit.py\n",
        "MANIFEST.in": "include demo/module.in\n",
        "demo/module.in": MODULE,
        "setup.py": GENERATES,
    }),
    "cargo-config": ("", {
        **RUST,
        ".cargo/config.toml": '[env]\nNAMED = "yes"\n',
        "src/main.rs": 'fn main() { println!("{}", env!("NAMED")); }\n',
    }),
    "rust-toolchain": ("", {
        **RUST,
        "rust-toolchain.toml": '[toolchain]\nchannel = "nightly"\n',
        "src/main.rs": "#![feature(rustc_attrs)]\nfn main() {}\n",
    }),
    "cmake-preset": ("", in_cmake("cmake.args = ['--preset=named']")),
    "cmake-toolchain": ("", in_cmake("cmake.define.CMAKE_TOOLCHAIN_FILE = 'named.cmake'")),
}  # fmt: skip


def members(folder: Path) -> dict[str, set[str]]:
    """Return what is in the wheel and in the sdist of a folder."""
    wheel, sdist = next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))
    packed = {wheel.name.split("-")[-1]: set(zipfile.ZipFile(wheel).namelist())}
    with tarfile.open(sdist) as archive:
        packed["sdist"] = {member.name for member in archive if member.isfile()}
    return {kind: {name for name in names if not name.endswith((OURS, OF_VERSION))} for kind, names in packed.items()}


@pytest.mark.parametrize("name", PROJECTS)
def test_a_release_packs_what_a_clean_clone_packs(name: str, tmp_path: Path, fatwheel: CommandLine) -> None:
    below, files = PROJECTS[name]
    if "Cargo.toml" in files and "nightly" not in str(output(["rustup", "toolchain", "list"])):
        pytest.skip("there is no nightly Rust")
    mark = tmp_path / "mark"
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    config = {f"{below}/fatwheel.yml".lstrip("/"): CONFIG.format(python=python)}
    files = {
        one: text.replace("{mark}", str(mark)) for one, text in {"demo/__init__.py": "", **files, **config}.items()
    }
    source = write(tmp_path / "a", files)
    committed(source)
    git(source, "tag", "v1.0")
    git(tmp_path, "clone", "--quiet", "a", "clone")
    assert fatwheel("plan", cwd=source / below).status == 0
    assert not mark.exists()  # planning starts nothing that they name
    ran = fatwheel(
        "release", "--to", f"dir:{tmp_path / 'index'}", "--here", "--out", tmp_path / "out", cwd=source / below
    )
    assert ran.status == 0, ran.stderr
    assert mark.exists() == any(str(mark) in text for text in files.values())
    plain = [sys.executable, "-m", "build", "--outdir", str(tmp_path / "plain"), str(tmp_path / "clone" / below)]
    subprocess.run(plain, check=True, capture_output=True)
    ours, theirs = members(tmp_path / "out"), members(tmp_path / "plain")
    assert [sorted(names) for names in ours.values()] == [sorted(names) for names in theirs.values()]


def test_what_an_sdist_lacks_is_named_where_its_build_fails(tmp_path: Path, fatwheel: CommandLine) -> None:
    hook = "hooks.custom = {}\nbuild.targets.sdist.only-include = ['demo', 'hatch_build.py']\n"
    files = {
        "pyproject.toml": pyproject("hatchling.build", '"hatchling"', f'version = "1.0"\n[tool.hatch]\nbuild.{hook}'),
        "hatch_build.py": "from hatchling.builders.hooks.plugin.interface import BuildHookInterface\n"
                          "class Words(BuildHookInterface):\n    def initialize(self, version, data):\n"
                          "        open('tables/words.txt').read()\n",
        "tables/words.txt": "", "demo/__init__.py": "", "notes.txt": "",
        "fatwheel.yml": "package: demo\npython: ['3.11']\nplatforms: {linux-cpu: {}}\n",
    }  # fmt: skip
    source = write(tmp_path, files)
    committed(source)
    ran = fatwheel("release", "--to", "dir:index", "--here", cwd=source)
    assert ran.status == 1
    assert "the source has tables/words.txt, and demo-1.0.tar.gz lacks it: the build failed" in ran.stderr


def test_a_wheel_is_kept_while_nothing_that_git_tells_is_another(tmp_path: Path, fatwheel: CommandLine) -> None:
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    files = {"fatwheel.yml": CONFIG.format(python=python), "demo/__init__.py": "", "demo/table.json": "{}"}
    source = write(tmp_path / "a", {**files, **PROJECTS["scm-data"][1]})
    committed(source)
    git(source, "tag", "v1.0")
    said = []
    for arguments in (("status",), ("status",), ("commit", "--allow-empty", "--message", "y"), ("tag", "another")):
        git(source, *arguments)
        said.append("keep demo-1.0" in fatwheel("build", "--job", "pure", "--out", tmp_path / "out", cwd=source).stderr)
    assert said == [False, True, False, False]
