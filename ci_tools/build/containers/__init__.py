"""Builds in the container image of a job, where this machine's C library is not the one of its wheel."""
