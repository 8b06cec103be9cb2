"""A Cython that says which C files it would write: see MODULES in the folder above."""
