"""Reads fatwheel.yml into a request, and writes a first one."""
