"""TOML from untrusted sources: its values, their places in the file, and edits of single keys."""
