import ast
import os
import re
import subprocess
from pathlib import Path

import torch
from packaging.version import Version
from setuptools import find_packages, setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension
from wheel.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
ARCHS = os.getenv("FLASH_ATTN_CUDA_ARCHS", "80;90;100;120").split(";")
FORCE_BUILD = os.getenv("FLASH_ATTENTION_FORCE_BUILD", "FALSE") == "TRUE"

if (HERE / ".git").is_dir():
    subprocess.run(["git", "submodule", "update", "--init", "csrc/cutlass"], check=True)
elif not (HERE / "csrc/cutlass/include/cutlass/cutlass.h").exists():
    raise RuntimeError("csrc/cutlass is missing")

shown = subprocess.check_output([f"{CUDA_HOME}/bin/nvcc", "-V"], text=True)
nvcc = Version(re.search(r"release (\d+\.\d+)", shown)[1])
flags = []
for arch, since in (("80", "11.7"), ("90", "11.8"), ("100", "12.8"), ("120", "12.8")):
    if arch in ARCHS and nvcc >= Version(since):
        flags += ["-gencode", f"arch=compute_{arch},code=sm_{arch}"]


class TakeUpstreamsWheel(bdist_wheel):
    def run(self):
        if not FORCE_BUILD:
            raise RuntimeError("here upstream's setup.py fetches the wheel of its release")
        super().run()


class NinjaBuildExtension(BuildExtension):
    def __init__(self, *arguments, **options):
        if not os.environ.get("MAX_JOBS"):
            import psutil

            os.environ["MAX_JOBS"] = str(max(1, int(psutil.virtual_memory().available / 9e9)))
        super().__init__(*arguments, **options)


version = re.search(r"^__version__ = (.*)$", (HERE / "flash_attn/__init__.py").read_text(), re.MULTILINE)[1]
local = os.environ.get("FLASH_ATTN_LOCAL_VERSION")
setup(
    name="flash_attn",
    version=ast.literal_eval(version) + (f"+{local}" if local else ""),
    packages=find_packages(exclude=("csrc", "tests")),
    license="BSD-3-Clause",
    ext_modules=[
        CUDAExtension(
            "flash_attn_2_cuda",
            ["csrc/flash_attn/flash_api.cpp", "csrc/flash_attn/src/flash_fwd_hdim32_fp16_sm80.cu"],
            extra_compile_args={"cxx": ["-O3", "-std=c++17"], "nvcc": ["-O3", "-std=c++17", *flags, "--threads", "4"]},
            include_dirs=[HERE / "csrc/flash_attn", HERE / "csrc/cutlass/include"],
        )
    ],
    cmdclass={"bdist_wheel": TakeUpstreamsWheel, "build_ext": NinjaBuildExtension},
    python_requires=">=3.9",
    install_requires=["torch", "einops"],
    setup_requires=["packaging", "psutil", "ninja"],
)
