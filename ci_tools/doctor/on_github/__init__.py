"""What only GitHub knows of a repository: its API, its settings, and changes of them."""
