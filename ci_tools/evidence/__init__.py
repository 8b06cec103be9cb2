"""Collects evidence from a project's source, and by observing its build."""
