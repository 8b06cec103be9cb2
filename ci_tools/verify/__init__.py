"""Checks built files: their bytes, where they run, and whether fewer wheels would suffice."""
