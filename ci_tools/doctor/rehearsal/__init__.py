"""Rehearses the runs that events start, before anything is pushed."""
