"""Compiles kernels with nvcc for the architectures of CUPY_NVCC_GENERATE_CODE, and modules with Cython."""

import os
import subprocess

from Cython.Build import cythonize
from setuptools import Extension
from setuptools.command import build_ext as commands

CUDA = os.environ.get("CUDA_PATH") or os.environ.get("CUDA_HOME") or ""
KERNEL = "cupy/cuda/cupy_cub.cu"


def list_extensions():
    extension = Extension(
        "cupy._core._carray",
        ["cupy/_core/_carray.pyx"],
        include_dirs=["cupy/cuda", "third_party/cccl", "third_party/dlpack/include"],
        extra_compile_args=["-O0"],
        libraries=["cudart_static", "rt", "dl", "pthread"],
        library_dirs=[f"{CUDA}/lib64", f"{CUDA}/lib"],
    )
    return cythonize([extension], language_level=3)


def list_options():
    asked = os.environ.get("CUPY_NVCC_GENERATE_CODE")
    if not asked:
        raise RuntimeError("upstream compiles for a dozen architectures, and CUPY_NVCC_GENERATE_CODE names none")
    if asked == "current":
        raise RuntimeError("there is no GPU here")
    return [f"-gencode={one.strip()}" for one in asked.split(";")]


class build_ext(commands.build_ext):
    def build_extension(self, extension):
        target = os.path.join(self.build_temp, "cupy_cub.o")
        os.makedirs(self.build_temp, exist_ok=True)
        included = [f"-I{folder}" for folder in extension.include_dirs]
        command = [f"{CUDA}/bin/nvcc", *list_options(), "-O2", "-Xcompiler=-fPIC", *included, "-c", KERNEL, "-o", target]
        subprocess.run(command, check=True)
        extension.extra_objects = [target]
        super().build_extension(extension)
