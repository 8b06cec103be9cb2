"""Checks whether a repository on GitHub is set up correctly for releases."""
