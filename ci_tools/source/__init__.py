"""Reads a project: its files as git lists them, what they include, and the settings of its build backend."""
