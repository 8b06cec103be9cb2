"""The package that canary.yml builds: an extension module of one line."""

from setuptools import Extension, setup

setup(
    name="fatwheel-canary",
    version="1.0",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=[],
    ext_modules=[Extension("fatwheel_canary", ["canary.c"])],
)
