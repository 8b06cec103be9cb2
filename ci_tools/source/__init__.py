"""Reads a project: its files as git lists them, what they include, and what its build backend is told."""
