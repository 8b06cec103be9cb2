"""`Cython.Distutils.old_build_ext`: the command as it was before it could cythonize."""

from Cython.Distutils.build_ext import old_build_ext

__all__ = ["old_build_ext"]
