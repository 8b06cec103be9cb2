"""GitHub: its API, the steps of a workflow, attestations, issues and comments."""
