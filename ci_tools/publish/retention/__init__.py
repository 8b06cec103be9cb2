"""The GitHub Releases of a repository: which are superseded, which are kept and why, and the removal of the former."""
