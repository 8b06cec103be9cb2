"""`Cython.Distutils.build_ext`: the command under its older names."""

from Cython.Build import build_ext

new_build_ext = old_build_ext = build_ext
