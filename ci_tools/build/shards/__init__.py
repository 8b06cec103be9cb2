"""Compiles the units of one build on several machines: list, assign, compile a shard on each, link."""
