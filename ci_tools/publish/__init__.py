"""Publishes a release as one transaction, and marks a bad one."""
