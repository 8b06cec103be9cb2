"""Reads fatwheel.yml into a request, and writes a starter config."""
