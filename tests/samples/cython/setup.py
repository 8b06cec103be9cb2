from Cython.Build import cythonize
from setuptools import Extension, setup

setup(
    packages=["edit_distance"],
    ext_modules=cythonize([Extension("edit_distance._distance", ["edit_distance/_distance.pyx"])]),
)
