"""Observes the configure step of a project that cmake builds: which targets it makes for a cell, of which sources.

cmake itself runs, confined; no compiler does. `standins` answer for the cell what a configure step asks of its builder.
"""
