"""Compile units: each compiler call of a build, taken from the store if its object is there.

`desk` makes the key of an object from what `calls` reads in the call, `manifests` in the compiler, `seeds` in names,
and `passes` in the text.
"""
