import torch
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension

with_cuda = torch.version.cuda is not None and CUDA_HOME is not None
kind = CUDAExtension if with_cuda else CppExtension
sources = ["csrc/binding.cpp", *(["csrc/scale.cu"] if with_cuda else [])]

setup(
    ext_modules=[kind("classic._C", sources, define_macros=[("WITH_CUDA", None)] if with_cuda else [])],
    cmdclass={"build_ext": BuildExtension},
)
