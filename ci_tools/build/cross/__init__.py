"""Compilers for another machine than the one that builds, and the build backends that take one."""
