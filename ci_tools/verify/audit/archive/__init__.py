"""Rules about the archive and the files in it."""
