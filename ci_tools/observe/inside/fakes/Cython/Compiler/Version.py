"""`Cython.Compiler.Version`."""

from Cython import __version__

version = __version__
