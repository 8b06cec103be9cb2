"""Files of Windows as values."""
