"""`Cython.Compiler`, of which builds set options."""
