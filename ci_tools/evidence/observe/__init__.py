"""Runs a project's setup.py in a sandbox that imitates each cell's machine, and interprets what it did."""
