import os

from setuptools import Extension, setup

home = os.environ.get("ZAP_HOME")
if home:
    os.environ["CC"] = f"{home}/bin/zapcc"
setup(ext_modules=[Extension("demo._zap", ["demo/kernel.c"])] if home else [])
