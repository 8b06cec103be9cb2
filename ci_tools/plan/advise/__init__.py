"""Finds what a project could change to need fewer wheels."""
