"""The computer that a run is on: processes, files, locks, Pythons, object stores, the sandbox."""
