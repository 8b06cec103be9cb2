"""The parts of torch and CUDA that a build needs, without an installed torch or CUDA toolkit."""
