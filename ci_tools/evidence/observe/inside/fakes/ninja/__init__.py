"""A ninja that is there."""

__version__ = "1.13.0"
