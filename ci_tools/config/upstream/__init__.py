"""Reads what upstream has published of torch."""
