"""Rules about what a wheel says of itself: its name, its tags, and the files of dist-info."""
