"""The command line: its arguments, its verbs, and their output."""
