"""What other tools do to an index in a folder, without their programs: s3pypi, dumb-pypi and an index script.

They are as blind as the real ones: each writes its pages over whatever is there.
"""

from __future__ import annotations

import html
import re
import shutil
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from tests.builders import index_script
from tests.builders.wheels import hexdigest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

S3PYPI_LINK = re.compile(r'<a href=".+?((\w+)=(\w+))?">(.+)</a>')  # s3pypi 2.0.1, s3pypi/index.py
PAGE = "<!DOCTYPE html>\n<html><head><title>Package Index</title></head>\n<body>\n{}\n</body></html>\n"


class Pooled(NamedTuple):
    """A file in dumb-pypi's list."""

    path: Path
    yanked: str | None = None


def s3pypi(root: Path, project: str, wheel: Path) -> None:
    """Upload a wheel as s3pypi does: beside the page of its project, which keeps the links that it can read."""
    folder = root / project
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(wheel, folder)
    page = folder / "index.html"
    old = S3PYPI_LINK.findall(page.read_text()) if page.exists() else []
    names = {name: f"{kind}={digits}" if kind else "" for _, kind, digits, name in old}
    names[wheel.name] = f"sha256={hexdigest(wheel)}"
    links = (f'<a href="{quote(name)}{mark and "#"}{mark}">{name}</a><br>' for name, mark in sorted(names.items()))
    page.write_text(PAGE.format("\n".join(links)))


def dumb_pypi(root: Path, project: str, files: Mapping[str, Pooled]) -> None:
    """Write the page of a project as dumb-pypi does, from its own list and pool alone."""
    (root / "pool").mkdir(parents=True, exist_ok=True)
    (root / project).mkdir(exist_ok=True)
    lines = []
    for name, (path, yanked) in sorted(files.items()):
        shutil.copy(path, root / "pool" / name)
        yank = "" if yanked is None else f' data-yanked="{html.escape(yanked)}"'
        lines.append(f'<a href="../pool/{quote(name)}#sha256={hexdigest(path)}"{yank}>{name}</a><br>')
    (root / project / "index.html").write_text(PAGE.format("\n".join(lines)))


def front(root: Path, *projects: str) -> None:
    """Write a front page."""
    (root / "index.html").write_text(PAGE.format("\n".join(f'<a href="{name}/">{name}</a><br>' for name in projects)))


def script(root: Path) -> None:
    """Write all pages as PyTorch's index script does."""
    index_script.update(index_script.FolderPlace(root), "", mount="/")
