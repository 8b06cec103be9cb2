"""Makers of sources, wheels, indexes and releases, for tests."""
