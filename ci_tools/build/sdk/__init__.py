"""What a build needs of torch and CUDA, fetched in parts: torch is not installed, and neither is a CUDA toolkit."""
