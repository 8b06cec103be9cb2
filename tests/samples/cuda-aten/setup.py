import os

from setuptools import find_packages, setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension

if CUDA_HOME is None and os.environ.get("FORCE_CUDA") != "1":
    raise RuntimeError("fast-norm needs nvcc: set CUDA_HOME")

setup(
    name="fast-norm",
    version="0.3.0",
    packages=find_packages(),
    python_requires=">=3.10",
    install_requires=["torch"],
    ext_modules=[
        CUDAExtension(
            "fast_norm._C",
            ["csrc/norm.cpp", "csrc/norm_kernel.cu"],
            extra_compile_args={"cxx": ["-O3"], "nvcc": ["-O3", "--use_fast_math"]},
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
