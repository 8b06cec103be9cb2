"""`python -m Cython`, and `python -m cython`."""

import sys

from Cython.Build import translate

translate(sys.argv[1:])
