"""Installing from a smart sdist: the lock, the backend that lies in it, and how both get there."""
