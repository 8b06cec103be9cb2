"""Compares two plans, and names the change in the source that made them differ."""
