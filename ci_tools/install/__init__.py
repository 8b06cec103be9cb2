"""Installing from a smart sdist: the lock, the backend in it, and how both are put there."""
