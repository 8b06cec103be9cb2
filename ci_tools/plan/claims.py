"""Says which config of a repository a git tag belongs to, where the repository has several."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from ci_tools import catalog as catalogs
from ci_tools.config import loader, location
from ci_tools.errors import FatwheelError
from ci_tools.machine.context import Outside
from ci_tools.model.edition import is_named
from ci_tools.model.names import CONFIG_FILE
from ci_tools.model.request import Release, Request
from ci_tools.source import git

KEYS = re.compile(r"(?ms)(?=.*^package:)(?=.*^platforms:)")  # of a config with a name of its own


def find_owner(path: Path, tag: str, outside: Outside, takes: Callable[[Path], object] | None = None) -> str:
    """Return the other config of the repository that a tag belongs to; "" if it may be that of the config at `path`.

    The template of the tag decides, without a plan: a broken project holds no other back. Where it cannot, as if two
    projects have the same one or a project's own tool reads its tags, the owner is the config whose plan takes the tag:
    `takes` makes it, or raises. It is given once the plan of `path` has refused the tag.
    """
    mine = _load(path, outside)
    is_mine = mine is None or _names(mine, tag)
    if takes is None and (mine is None or is_mine or mine.release.tag == Release().tag):
        return ""
    others = list(_list_others(path, outside))
    named = [config for config, request in others if _names(request, tag)]
    if named and not is_mine:
        return _show(named[0], path)
    usual = [config for config, request in others if request.release.tag == Release().tag]
    asked = dict.fromkeys([*named, *usual]) if takes else ()
    return next((_show(config, path) for config in asked if takes and not _refuses(takes, config)), "")


def _names(request: Request, tag: str) -> bool:
    return is_named(tag, request.release.tag, str(request.name))


def _refuses(takes: Callable[[Path], object], config: Path) -> bool:
    try:
        takes(config)
    except FatwheelError:
        return True
    return False


def _load(path: Path, outside: Outside) -> Request | None:
    """Return what a config asks for; None if it cannot be read: its own run says so."""
    try:
        return loader.load(path, catalogs.load(), outside=outside)
    except FatwheelError:
        return None


def _list_others(path: Path, outside: Outside) -> Iterator[tuple[Path, Request]]:
    """Yield the other configs of the checkout around the config at `path`, those of recipes among them."""
    root = git.find(path.parent)
    if root is None:
        return
    for name in git.listed(root, outside.environ) or ():
        config = root / name
        if name.startswith(".github/") or config == path.resolve():
            continue
        if request := _load(config, outside) if _is_config(config) else None:
            yield config, request


def _is_config(path: Path) -> bool:
    if path.name == location.PROJECT_FILE:
        return f"[{'.'.join(location.TABLE)}" in path.read_text(encoding="utf-8", errors="replace")
    if path.suffix not in {".yml", ".yaml"}:
        return False
    return path.name == CONFIG_FILE or bool(KEYS.match(path.read_text(encoding="utf-8", errors="replace")))


def _show(config: Path, path: Path) -> str:
    """Return a config's path from the root of its repository."""
    return config.relative_to(git.find(path.parent) or config.parent).as_posix()
