__version__ = "13.6.0"
