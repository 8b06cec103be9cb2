"""`Cython.Build.Dependencies`, where `cythonize` is defined."""

from Cython.Build import cythonize

__all__ = ["cythonize"]
