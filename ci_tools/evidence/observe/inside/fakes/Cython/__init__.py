"""A Cython that says which C files it would write."""

__version__ = "3.2.0"
