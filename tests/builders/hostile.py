"""A project with every file that some program reads from where it stands: each leaves a mark outside if it is run."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.builders.sources import write

CONFIG = """\
package: demo
version: "1.0"
python: ["3.11", "3.12"]
platforms:
  linux-cpu:
"""
CLEAN = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n',
    "setup.py": """\
from setuptools import Extension, setup
fast = Extension("demo._fast", ["demo/fast.c"], py_limited_api=True, define_macros=[("Py_LIMITED_API", "0x030b0000")])
options = {"bdist_wheel": {"py_limited_api": "cp311"}}
setup(name="demo", version="1.0", packages=["demo"], ext_modules=[fast], options=options, python_requires=">=3.11")
""",
    "setup.cfg": "[metadata]\nkeywords = read-from-setup-cfg\n",
    ".gitattributes": "*.txt text\n",
    "demo/__init__.py": "from demo import _fast\n",
    "demo/fast.c": """\
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_fast", NULL, -1, NULL};
PyMODINIT_FUNC PyInit__fast(void) { return PyModule_Create(&module); }
""",
}
# One that cmake is asked about, for which pip fetches it.
CMAKE = {
    "fatwheel.yml": CONFIG.replace("platforms:", 'torch: ["2.10"]\nplatforms:'),
    "pyproject.toml": """\
[build-system]
requires = ["scikit-build-core>=0.10", "torch"]
build-backend = "scikit_build_core.build"
[project]
name = "demo"
version = "1.0"
dependencies = ["torch"]
""",
    "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.26)
project(demo LANGUAGES CXX)
find_package(Torch REQUIRED)
add_library(fast MODULE fast.cpp)
target_link_libraries(fast PRIVATE ${TORCH_LIBRARIES})
install(TARGETS fast LIBRARY DESTINATION demo)
""",
    "fast.cpp": "#include <torch/library.h>\nTORCH_LIBRARY(demo, m) {}\n",
    "demo/__init__.py": "",
}
# One whose settings name a preset, or a toolchain file: without it nothing is built.
NAMED = {
    **CMAKE,
    "CMakeLists.txt": CMAKE["CMakeLists.txt"].replace("find_package", "if(NAMED)\nfind_package") + "endif()\n",
    "CMakePresets.json": '{"version": 3, "configurePresets": [{"name": "named", "toolchainFile": "named.cmake"}]}\n',
    "named.cmake": "set(NAMED ON)\n",
}
NAMING = {
    "preset": "cmake.args = ['--preset', 'named']",
    "preset-in-one": "cmake.args = ['--preset=named']",
    "toolchain": "cmake.args = ['--toolchain', 'named.cmake']",
    "cache": "cmake.args = ['-C', 'named.cmake']",
    "argument": "cmake.args = ['-D', 'CMAKE_TOOLCHAIN_FILE:PATH=named.cmake']",
    "define": "cmake.define.CMAKE_TOOLCHAIN_FILE = 'named.cmake'",
    "include": "cmake.define.CMAKE_PROJECT_demo_INCLUDE = 'named.cmake'",
    "variable": "env.CMAKE_TOOLCHAIN_FILE = 'named.cmake'",
}
# A module that leaves its mark where it may write, which it may not in the cage, and has nothing that others expect.
MODULE = """\
try:
    open({mark!r}, "a").close()
except OSError:
    pass
"""
# Imported by a program, by Python itself, or by its own name (`python -m NAME`).
MODULES = (
    *("abi3audit", "auditwheel", "build", "ci_tools", "delvewheel", "json", "keyring", "logging", "packaging", "pip"),
    *("platform", "requests", "runpy", "setuptools", "sitecustomize", "subprocess", "sysconfig", "torch", "twine"),
    *("usercustomize", "venv", "wheel", "zipfile"),
)
INNOCENT = ("logging", "packaging")  # that many a project has at its top
HOOKS = ("fsmonitor-watchman", "post-checkout", "post-index-change", "pre-auto-gc", "reference-transaction")
# Every key of git's that names a program, or leads to one; `%` is the program.
GIT = (Path(__file__).parents[1] / "samples" / "hostile.gitconfig").read_text(encoding="utf-8")


def make_clean(folder: Path, files: Mapping[str, str] = CLEAN) -> Path:
    """Write a project, its settings and its commit, and nothing else."""
    return commit(write(folder, {"fatwheel.yml": CONFIG, **files}))


def make_innocent(folder: Path) -> Path:
    """Write the project with folders at its top that are called like what programs import."""
    return commit(write(folder, {**CLEAN, "fatwheel.yml": CONFIG, **{f"{name}/__init__.py": "" for name in INNOCENT}}))


def make_hostile(folder: Path, marks: Path, files: Mapping[str, str] = CLEAN) -> Path:
    """Write a project with all traps; whatever runs leaves a file in `marks`."""
    marks.mkdir()
    folder.mkdir()
    trap = marks.with_name("trap")
    trap.write_text(f'#!/bin/sh\n: > "{marks}/${{0##*/}}"\ncat\nexit 1\n', encoding="utf-8")
    trap.chmod(0o755)
    write(folder, {"fatwheel.yml": CONFIG, **files, **_list_traps(marks, folder)})
    subprocess.run(["chmod", "+x", folder / "c++", folder / "git", folder / "gcc"], check=True)
    commit(folder)
    for name in _programs(folder):
        (marks.with_name(name)).symlink_to(trap)
    _set_traps(folder, marks.parent)
    return folder


def _list_traps(marks: Path, folder: Path) -> dict[str, str]:
    """Return the files that no program of Fatwheel's may heed, by their names."""
    modules = {name: MODULE.format(mark=str(marks / name)) for name in MODULES}
    packaged = {f"{name}/__init__.py": text for name, text in modules.items() if name in INNOCENT}
    alone = {f"{name}.py": text for name, text in modules.items() if name not in INNOCENT}
    script = f'#!/bin/sh\n: > "{marks}/${{0##*/}}"\nexit 1\n'
    nowhere = "http://127.0.0.1:9/simple"
    bare = {"HEAD": "ref: refs/heads/main\n", "objects/k": "", "refs/k": "", "config": GIT.replace("%", _trap(marks))}
    return {
        **packaged,
        **alone,
        **bare,
        **{f"inner/{name}": text for name, text in bare.items()},
        **dict.fromkeys(("c++", "gcc", "git"), script),
        ".pydistutils.cfg": f"[build_ext]\ninclude_dirs = {folder}/nowhere\n[install]\nprefix = {marks}\n",
        "pydistutils.cfg": f"[install]\nprefix = {marks}\n",
        "pip.conf": f"[global]\nindex-url = {nowhere}\nno-index = true\ntarget = {marks}/pip\n",
        "uv.toml": f'index-url = "{nowhere}"\nno-index = true\n',
        ".python-version": "2.7\n",
        ".npmrc": f"registry={nowhere}\nscript-shell={_trap(marks)}-npm\n",
        ".netrc": "default login trap password trap\n",
        ".pypirc": f"[distutils]\nindex-servers = pypi\n[pypi]\nrepository = {nowhere}\n",
        ".gitattributes": "* filter=trap diff=trap merge=trap\n*.c filter=a=b\n",
        "CMakeUserPresets.json": '{"version": 3, "configurePresets": [{"name": "default", "generator": "none"}]}\n',
        "toolchain.cmake": f"execute_process(COMMAND {_trap(marks)}-cmake)\n",
        "ccache.conf": f"compiler = {_trap(marks)}-ccache\nprefix_command = {_trap(marks)}-ccache-prefix\n",
        ".cargo/config.toml": f'[build]\nrustc-wrapper = "{_trap(marks)}-rustc"\n',
        "rust-toolchain.toml": '[toolchain]\nchannel = "trap"\n',
        "pyvenv.cfg": "home = /nowhere\ninclude-system-site-packages = true\n",
        ".env": f"CC={_trap(marks)}-env\nPIP_INDEX_URL={nowhere}\nPYTHONPATH=.\n",
        "Makefile": f"all: ; {_trap(marks)}-make\n",
        "containers.conf": f'[engine]\nruntime = "{_trap(marks)}-runtime"\n',
    }


def _trap(marks: Path) -> str:
    return str(marks.with_name("trap"))


def _programs(folder: Path) -> set[str]:
    """Return the names of the programs that the traps in a folder would start."""
    texts = (
        path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts
    )
    return {Path(found).name for text in texts for found in re.findall(r"/\S*/trap-[a-z-]+", text)}


def _set_traps(folder: Path, place: Path) -> None:
    """Set in the repository what a clone never has, but an unpacked archive: its settings, hooks and attributes."""
    git = folder / ".git"
    with (git / "config").open("a", encoding="utf-8") as file:
        file.write(GIT.replace("%", str(place / "trap")))
    for name in ("included", "included-if"):
        (git / name).write_text(f"[core]\n\tfsmonitor = {place}/trap-{name}\n", encoding="utf-8")
        (place / f"trap-{name}").symlink_to(place / "trap")
    (git / "info").mkdir(exist_ok=True)
    (git / "info" / "attributes").write_text("*.py filter=trap\n", encoding="utf-8")
    (git / "hooks").mkdir(exist_ok=True)
    for name in HOOKS:
        (git / "hooks" / name).unlink(missing_ok=True)
        (git / "hooks" / name).write_text(f'#!/bin/sh\n: > "{place}/marks/hook-{name}"\n', encoding="utf-8")
        (git / "hooks" / name).chmod(0o755)


def commit(folder: Path) -> Path:
    """Make a folder a repository with one commit of everything in it."""
    who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    when = {f"GIT_{role}_DATE": "2026-01-01T00:00:00Z" for role in ("AUTHOR", "COMMITTER")}
    git = ["git", "-C", str(folder), f"--git-dir={folder / '.git'}", f"--work-tree={folder}"]
    for words in (["init", "--quiet"], ["add", "--all", "--force"], ["commit", "--quiet", "-m", "all"]):
        subprocess.run([*git, *words], check=True, env={**os.environ, **who, **when})
    return folder
