"""Runs a project's own build confined, on copies that imitate each cell's machine, and collects the evidence of it."""
