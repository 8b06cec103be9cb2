"""Checks a release as a whole: what no single file of it shows."""
