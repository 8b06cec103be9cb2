"""Reads the device code that SYCL compilers embed, and what the formats of device code have in common."""
