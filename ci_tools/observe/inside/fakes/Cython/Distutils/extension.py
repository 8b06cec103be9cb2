"""`Cython.Distutils.extension`: an extension that has options of Cython, which change no file that is compiled."""

from __future__ import annotations

from typing import Any

import setuptools


class Extension(setuptools.Extension):
    """An extension with options of Cython."""

    def __init__(self, name: str, sources: list[str], **kwargs: Any) -> None:
        own = {key: value for key, value in kwargs.items() if not key.startswith("cython_")}
        super().__init__(name, sources, **own)
        for key in kwargs.keys() - own.keys():
            setattr(self, key, kwargs[key])
