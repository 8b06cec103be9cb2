"""The machine that a run is on: processes, files, locks, Python interpreters, object stores, the sandbox."""
