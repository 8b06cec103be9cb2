import os
import sys

from setuptools import setup

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "install"))

from cupy_builder import build_ext, list_extensions  # noqa: E402

setup(packages=["cupy", "cupy._core"], ext_modules=list_extensions(), cmdclass={"build_ext": build_ext})
