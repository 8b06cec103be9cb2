"""Decides which wheels are built, for which cells, and why."""
