"""Checks how a repository is set up to release."""
