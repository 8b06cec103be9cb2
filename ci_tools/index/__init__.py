"""The package index: its pages, its manifests, and the upkeep of both."""
