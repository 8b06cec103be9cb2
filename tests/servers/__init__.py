"""Servers on this machine that stand in for those of others, for tests."""
