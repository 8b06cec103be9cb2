__version__ = "2.8.2"
