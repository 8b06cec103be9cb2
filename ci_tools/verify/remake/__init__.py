"""Makes a published wheel again from what it states of its build, and compares the two."""
