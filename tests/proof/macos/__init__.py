"""Real wheels for macOS, read by us and by others."""
