"""`Cython.Tempita`: templates of sources. A text stays as it is, with all that a template may leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Template:
    """A template that is its own result."""

    def __init__(self, content: str, *_: Any, **__: Any) -> None:
        self.content = content

    @classmethod
    def from_filename(cls, filename: Any, *_: Any, **__: Any) -> Template:
        """Return the template in a file."""
        return cls(Path(filename).read_text(encoding="utf-8"))

    def substitute(self, *_: Any, **__: Any) -> str:
        """Return the text."""
        return self.content


def sub(content: str, *_: Any, **__: Any) -> str:
    """Return the text."""
    return content
