"""One experiment of the laboratory: a setup.py runs confined, and what it asks and compiles is recorded."""
