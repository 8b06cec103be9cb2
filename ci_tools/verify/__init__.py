"""Checks what was built: its bytes, where it runs, and whether fewer wheels would do."""
