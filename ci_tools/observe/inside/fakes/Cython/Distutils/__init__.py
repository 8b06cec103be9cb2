"""`Cython.Distutils`: the command that has Cython write C files, under its older name."""
