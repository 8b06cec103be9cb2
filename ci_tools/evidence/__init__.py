"""What a project's source says, and what its build was seen to do."""
