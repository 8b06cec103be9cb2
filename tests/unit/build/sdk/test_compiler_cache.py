"""Only jobs of a batch get a compiler cache, and only where there is one."""

from __future__ import annotations

import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from ci_tools.build.sdk import compiler_cache
from ci_tools.build.sdk.compiler_cache import CompilerCache, cache_for
from tests.builders.sources import world

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from ci_tools.model.plan import Job

TRUE = shutil.which("true") or ""


def job(batch: str) -> Job:
    return cast("Job", SimpleNamespace(batch=batch, accelerator=None))


def test_a_build_finds_the_cache_under_the_names_of_this_machines_compilers(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ccache", "gcc", "c++"):
        (programs / name).symlink_to(TRUE)
    cache = cache_for(job("linux-cpu"), tmp_path, world(tmp_path, PATH=str(programs)))
    (folder,) = cache.folders
    assert {path.name for path in folder.iterdir()} == {"gcc", "c++"}
    assert {path.readlink() for path in folder.iterdir()} == {programs / "ccache"}
    assert cache.variables["CCACHE_DIR"] == str(tmp_path / "cache" / "ccache")


def test_a_job_without_a_batch_has_none(tmp_path: Path) -> None:
    assert cache_for(job(""), tmp_path, world(tmp_path)) == CompilerCache()
    assert list(tmp_path.iterdir()) == []


def test_without_ccache_a_batch_has_the_same_folder_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler_cache.sys, "executable", str(tmp_path / "python"))
    cache = cache_for(job("linux-cpu"), tmp_path, world(tmp_path, PATH=str(tmp_path)))
    assert (*cache.variables, cache.folders, cache.summarize()) == ("DIST_EXTRA_CONFIG", (), "")


def test_what_the_cache_had_is_counted(tmp_path: Path) -> None:
    results = tmp_path / "log"
    assert CompilerCache(results=results).summarize() == ""
    results.write_text("# a.cpp\ndirect_cache_hit\n# b.cpp\npreprocessed_cache_hit\n# c.cpp\ncache_miss\n")
    assert CompilerCache(results=results).summarize() == "2 of 3 objects are from the compiler cache"
    results.write_text("# a.cpp\ncalled_for_link\n")
    assert CompilerCache(results=results).summarize() == ""
