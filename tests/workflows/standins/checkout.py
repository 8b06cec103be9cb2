"""Stands for actions/checkout: clones a repository of this run, shallow and without tags unless told otherwise."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from standin import INPUTS, SETTINGS, WORKSPACE, given, hand_on, refuse


def git(*arguments: str, folder: Path) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        refuse(f"The process git failed with exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


def reference() -> str:
    """Return what to check out: what the step names, else the commit that started this run, else the default branch."""
    if INPUTS["ref"] in SETTINGS["pins"]:
        return "HEAD"
    if INPUTS["ref"] or INPUTS["repository"] != os.environ["GITHUB_REPOSITORY"]:
        return INPUTS["ref"] or "HEAD"
    return os.environ["GITHUB_SHA"]


def main() -> None:
    source = SETTINGS["repositories"].get(INPUTS["repository"])
    if source is None:
        refuse(f"Repository not found: {INPUTS['repository']}")
    target = (WORKSPACE / INPUTS["path"]).resolve()
    if not target.is_relative_to(WORKSPACE.resolve()):
        refuse(f"Repository path '{target}' is not under '{WORKSPACE}'")
    empty(target)
    git("init", "--quiet", folder=target)
    git("remote", "add", "origin", Path(source).as_uri(), folder=target)
    depth = [] if INPUTS["fetch-depth"] == "0" else ["--depth", INPUTS["fetch-depth"]]
    tags = "--tags" if given("fetch-tags") or not depth else "--no-tags"
    git("fetch", "--quiet", tags, *depth, "--", "origin", reference(), folder=target)
    git("-c", "advice.detachedHead=false", "checkout", "--quiet", "FETCH_HEAD", folder=target)
    if os.environ["GITHUB_REF"].startswith("refs/tags/") and reference() == os.environ["GITHUB_SHA"]:
        git("update-ref", os.environ["GITHUB_REF"], "HEAD", folder=target)  # the tag that started this run is fetched
    if given("persist-credentials"):
        git("config", "http.extraheader", f"AUTHORIZATION: basic {INPUTS['token']}", folder=target)
    hand_on(ref=INPUTS["ref"], commit=git("rev-parse", "HEAD", folder=target))


def empty(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir() if given("clean") else ():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


main()
