import os
import re
import subprocess

import torch
from packaging.version import Version
from setuptools import find_packages, setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension

KNOWN = {"8.0": "80", "8.6": "86", "8.9": "89", "9.0": "90a", "12.0": "120"}

if CUDA_HOME is None:
    raise RuntimeError("sageattention is built with nvcc: set CUDA_HOME")
release = re.search(r"release (\d+\.\d+)", subprocess.check_output([f"{CUDA_HOME}/bin/nvcc", "-V"], text=True))[1]
if Version(release) < Version("12.8"):
    raise RuntimeError(f"CUDA {release} is too old")

wanted = set(filter(None, re.split("[;,]", os.environ.get("TORCH_CUDA_ARCH_LIST", ""))))
for number in range(torch.cuda.device_count() if not wanted else 0):
    wanted.add("{}.{}".format(*torch.cuda.get_device_capability(number)))
if not wanted:
    raise RuntimeError("no GPU here, and TORCH_CUDA_ARCH_LIST names none")

nvcc = ["-O3", "-std=c++17", "--use_fast_math"]
for arch in sorted(wanted & KNOWN.keys()):
    nvcc += ["-gencode", f"arch=compute_{KNOWN[arch]},code=sm_{KNOWN[arch]}"]
flags = {"cxx": ["-O2", "-std=c++17"], "nvcc": nvcc}
sources = ["csrc/fused/binding.cpp", "csrc/fused/fused.cu"]
extensions = [CUDAExtension("sageattention._fused", sources, extra_compile_args=flags)]
if wanted & {"8.9", "9.0", "12.0"}:
    sources = ["csrc/qattn/binding_sm89.cpp", "csrc/qattn/attention_sm89.cu"]
    extensions.append(CUDAExtension("sageattention._qattn_sm89", sources, extra_compile_args=flags))

setup(
    name="sageattention",
    version="2.2.0",
    license="Apache 2.0 License",
    packages=find_packages(),
    python_requires=">=3.9",
    ext_modules=extensions,
    cmdclass={"build_ext": BuildExtension},
)
