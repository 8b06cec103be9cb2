"""The place of one build, the commands that run there, and the errors they end with."""
