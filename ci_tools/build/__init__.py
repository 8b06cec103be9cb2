"""Builds the jobs of a plan, each with a receipt."""
