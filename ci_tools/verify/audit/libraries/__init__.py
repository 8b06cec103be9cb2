"""Rules about compiled files: the systems, Pythons, torches and GPUs that load them."""
