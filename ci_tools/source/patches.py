"""Applies a config's patches to a copy of the source: strictly, and only those that are still needed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.errors import InputError, Problem, RejectedInput
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import fill_once
from ci_tools.model.request import Patch
from ci_tools.source import git

if TYPE_CHECKING:
    from ci_tools.source.files import Tree

FAILED = re.compile(r"^error: patch failed: (?P<place>.+:\d+)$", re.MULTILINE)
ERROR = re.compile(r"^error: (?P<what>.+)$", re.MULTILINE)
HINT = "adapt the patch to this version of the source, or remove it if nothing needs it any more"


def patch_tree(tree: Tree, patches: Sequence[Patch], folder: Path, outside: Outside) -> Path:
    """Return a copy of the tree, in the cache, with the patches applied in order; their files are below `folder`.

    Raises RejectedInput for a patch that does not exist, no longer applies, or is no longer needed: each hunk must fit
    the source line by line, and the source must not have it already.
    """
    texts = {patch.file: _read(patch, folder) for patch in patches}
    name = hashlib.sha256("\0".join((tree.sha256, *texts.values())).encode()).hexdigest()  # their order counts

    def apply_all(copy: Path) -> None:
        tree.copy_to(copy)
        for patch in patches:
            _apply(patch, folder / patch.file, copy, outside.environ)

    return fill_once(outside.cache / "sources" / f"patched-{name}", apply_all, outside.reporter.say)


def _read(patch: Patch, folder: Path) -> str:
    """Return the text of a patch; raise RejectedInput if it cannot be read."""
    try:
        return (folder / patch.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = f'there is no patch "{patch.file}", expected a file in UTF-8 beside the config'
        raise RejectedInput([Problem(patch.where, what)]) from error


def _apply(patch: Patch, path: Path, copy: Path, environ: Mapping[str, str]) -> None:
    """Apply one patch to a folder, or raise RejectedInput with the file and line of the hunk that stops it."""
    refused = git.apply_patch(path, copy, environ)
    if not refused:
        return
    if not git.apply_patch(path, copy, environ, "--reverse", "--check"):  # it can be taken back: it is in already
        what = f"the patch {patch.file} is no longer needed: the source already has what it changes"
        raise RejectedInput([Problem(patch.where, what)], hint="remove it from the config")
    places = FAILED.findall(refused)
    at = f"its hunk at {', '.join(places)} finds other lines there" if places else _first_error(refused)
    raise RejectedInput([Problem(patch.where, f"the patch {patch.file} no longer applies: {at}")], hint=HINT)


def _first_error(printed: str) -> str:
    found = ERROR.search(printed)
    if found is None:
        raise InputError(f"git apply failed: {printed.strip()}")
    return found["what"]
