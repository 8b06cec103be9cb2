"""Builds the website: this checkout as `dev` and, where asked, the newest release of each minor version.

`python -m docs.site [--out FOLDER] [--releases] [--path /fatwheel/]`. Exit status: 0, or 1 for a page that is not as it
has to be: a broken link or anchor, a page in no list, a block that is not what it says.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from docs.site.check import broken_links
from docs.site.stage import EXTRA, stage
from docs.site.versions import newest_releases, write_versions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
DEV = "dev"  # what is not released yet


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what is asked for, and return the exit status."""
    options = _parser().parse_args(arguments)
    out = options.out.resolve()
    if options.version:
        return _build(out, options.version, options.index)
    shutil.rmtree(out, ignore_errors=True)
    status = _build(out / DEV, DEV, options.index)
    tags = newest_releases(_git("tag", "--list", "v*").split()) if options.releases else {}
    for version, tag in tags.items():
        status = status or _build_release(out / version, version, tag, options.index)
    if not status:
        write_versions(out, [*tags, DEV], options.path)
        print(f"the site is in {options.out}: python -m http.server --directory {options.out}")  # noqa: T201
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("dist/site"), help="the folder of the site (%(default)s)")
    parser.add_argument("--releases", action="store_true", help="build the releases too, from their tags")
    parser.add_argument("--version", default="", help="build only this checkout, under this name")
    parser.add_argument("--index", type=Path, default=Path("dist/index"), help="the finder's index (%(default)s)")
    parser.add_argument("--path", default=_path(os.environ), help="the path of the site on its server (%(default)s)")
    return parser


def _build_release(out: Path, version: str, tag: str, index: Path) -> int:
    """Build a release as its own commit says, in a checkout of its own."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        _git("worktree", "add", "--detach", str(checkout), tag)
        try:
            command = [sys.executable, "-m", "docs.site", "--version", version, "--out", str(out)]
            return subprocess.run([*command, "--index", str(index.resolve())], cwd=checkout, check=False).returncode
        finally:
            _git("worktree", "remove", "--force", str(checkout))


def _build(out: Path, version: str, index: Path) -> int:
    """Build this checkout under a name; return 1 where a page or a link is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder) / "pages"
        stage(ROOT, pages, index, _repository(os.environ))
        settings = ["-D", f"version={version}", "-D", f"release={version}", "-D", f"html_extra_path={pages / EXTRA}"]
        command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--builder", "html"]
        places = ["--conf-dir", str(ROOT / "docs" / "site"), "--doctree-dir", f"{folder}/kept", str(pages), str(out)]
        if subprocess.run([*command, *settings, *places], check=False).returncode:
            return 1
    broken = list(broken_links(out))
    print("\n".join(broken), file=sys.stderr, end="\n" if broken else "")  # noqa: T201
    return int(bool(broken))


def _repository(environ: Mapping[str, str]) -> str:
    """Return the address of the repository's files on a GitHub runner, elsewhere an empty text."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA")
    if not all(environ.get(name) for name in names):
        return ""
    server, repository, _ = (environ[name] for name in names)
    return f"{server}/{repository}/blob/{_git('rev-parse', 'HEAD')}"


def _path(environ: Mapping[str, str]) -> str:
    """Return the path of the site on GitHub Pages: `/NAME/` for a project, `/` for a site of its own domain."""
    name = environ.get("GITHUB_REPOSITORY", "").partition("/")[2]
    return "/" if not name or name.endswith(".github.io") else f"/{name}/"


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
