"""Runs a project's setup.py in a sandbox, as the machine of each cell, and reads what it did."""
