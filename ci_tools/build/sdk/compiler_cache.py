"""A compiler cache for the jobs of a batch: what one Python's build has compiled, the next need not compile again.

It is ccache, where this machine has it. A build finds links to it under the names of the compilers ("Run modes" in
https://ccache.dev/manual/latest.html). Objects that are the same for two Pythons are those whose preprocessed text is
the same: a source that includes Python.h is compiled for each. That takes the same paths in every build of a batch,
with a cache and without one, as paths become part of what is compiled (`__FILE__`, the folder in debug information).
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.catalog.accelerators.cuda import CUDA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_tools.machine.context import Outside
    from ci_tools.model.plan import Job

CCACHE = "ccache"
# setuptools compiles in build/temp.linux-x86_64-cpython-312, and reads this file after the project's own settings
# (distutils/dist.py, find_config_files).
SETTINGS = "DIST_EXTRA_CONFIG"
SAME_FOLDER = "[build]\nbuild_temp = build/temp\n"
CUDA_HOME = "CUDA_HOME"  # a build has its toolkit in the folder of that name in lower case
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++")
HITS = ("direct_cache_hit", "preprocessed_cache_hit")
# ccache preprocesses a file of several architectures only for the first of them, and would take an object that differs
# for another; with the list of headers that nvcc writes it looks at the files themselves, in full. Without such a list
# nvcc is called as it is.
NVCC = """\
#!/bin/sh
case " $* " in
  *" -MD "* | *" -MMD "*) CCACHE_DEPEND=1 exec {ccache} "$@" ;;
  *) exec "$@" ;;
esac
"""


class CompilerCache(NamedTuple):
    """Variables of a build, folders that come first on its PATH, and the log of what the cache had."""

    variables: Mapping[str, str] = {}
    folders: tuple[Path, ...] = ()
    results: Path | None = None

    def summarize(self) -> str:
        """Return how many objects the cache had, or "" if it was not asked."""
        if self.results is None or not self.results.is_file():
            return ""
        said = self.results.read_text(encoding="utf-8", errors="replace").splitlines()
        hits = sum(line in HITS for line in said)
        asked = hits + said.count("cache_miss")
        return f"{hits} of {asked} objects are from the compiler cache" if asked else ""


def cache_for(job: Job, scratch: Path, outside: Outside) -> CompilerCache:
    """Return what a job's build gets so that it can share objects with the others of its batch, if it is in one."""
    if not job.batch:
        return CompilerCache()
    settings = scratch / "setuptools.cfg"
    settings.write_text(SAME_FOLDER, encoding="utf-8")
    same_paths = {SETTINGS: str(settings)}
    program = _find_ccache(outside.environ) if os.name == "posix" else None
    if program is None:
        return CompilerCache(same_paths)
    folder, search = scratch / "compilers", outside.environ.get("PATH", os.defpath)
    folder.mkdir()
    for name in COMPILERS:
        if shutil.which(name, path=search):
            (folder / name).symlink_to(program)
    results = scratch / "ccache.log"
    variables = {
        **same_paths,
        "CCACHE_CONFIGPATH": os.devnull,  # no settings of the user's, who may trade certainty for speed (sloppiness)
        "CCACHE_COMPILERCHECK": "content",  # each build has its own copy of a fetched compiler
        "CCACHE_DIR": str(outside.cache / CCACHE),
        "CCACHE_MAXSIZE": "1G",
        "CCACHE_STATSLOG": str(results),
    }
    if job.accelerator and job.accelerator.kind == CUDA:
        nvcc = scratch / CUDA_HOME.lower() / "bin" / "nvcc"
        launcher = folder / "nvcc-by-ccache"
        launcher.write_text(NVCC.format(ccache=program), encoding="utf-8")
        launcher.chmod(0o755)
        variables |= {"CMAKE_CUDA_COMPILER_LAUNCHER": str(launcher), "PYTORCH_NVCC": f"{launcher} {nvcc}"}
    return CompilerCache(variables, (folder,), results)


def _find_ccache(environ: Mapping[str, str]) -> Path | None:
    """Return ccache: the one on PATH, or the one that was installed beside Fatwheel."""
    places = (environ.get("PATH"), str(Path(sys.executable).parent))
    found = next(filter(None, (shutil.which(CCACHE, path=place) for place in places)), None)
    return Path(found) if found else None
