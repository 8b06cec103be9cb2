import ast
import os
import re
import subprocess
from datetime import date

import setuptools
import torch
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension

THIRD_PARTY = ("cutlass/include", "json/include", "mio/include", "spdlog/include", "Block-Sparse-Attention/csrc/block_sparse_attn")


def targets():
    shown = subprocess.check_output([os.path.join(CUDA_HOME, "bin/nvcc"), "--version"], text=True)
    support_sm120 = tuple(map(int, re.search(r"V(\d+)\.(\d+)", shown).groups())) >= (12, 8)
    install_mode = os.getenv("NUNCHAKU_INSTALL_MODE", "FAST")
    if install_mode == "FAST":
        ret = []
        for number in range(torch.cuda.device_count()):
            sm = "{}{}".format(*torch.cuda.get_device_capability(number))
            if sm not in ret:
                ret.append(sm)
    else:
        assert install_mode == "ALL"
        ret = ["75", "80", "86", "89"]
        if support_sm120:
            ret.append("120a")
    return ret


if __name__ == "__main__":
    with open("nunchaku/__version__.py") as file:
        version = ast.literal_eval(file.read().partition("=")[2].strip())
    torch_version = torch.__version__.partition("+")[0]
    torch_major_minor_version = ".".join(torch_version.split(".")[:2])
    if "dev" in version:
        version = version + date.today().strftime("%Y%m%d")  # data
    version = version + "+torch" + torch_major_minor_version

    ROOT_DIR = os.path.dirname(__file__)

    archs = targets()
    if not archs:
        raise RuntimeError("no GPU here, and NUNCHAKU_INSTALL_MODE is not ALL")
    nvcc = ["-O3", "-std=c++17", f"--threads={len(archs)}"]
    if os.getenv("NUNCHAKU_BUILD_WHEELS", "0") == "0":
        nvcc += ["--generate-line-info", "-DWITH_LINE_INFO"]
    for arch in archs:
        nvcc += ["-gencode", f"arch=compute_{arch},code=sm_{arch}"]
    extension = CUDAExtension(
        "nunchaku._C",
        ["nunchaku/csrc/pybind.cpp", "src/kernels/misc_kernels.cu"],
        extra_compile_args={"cxx": ["-O2", "-std=c++17"], "nvcc": nvcc},
        include_dirs=[os.path.join(ROOT_DIR, "third_party", folder) for folder in THIRD_PARTY],
    )
    setuptools.setup(
        name="nunchaku",
        version=version,
        packages=["nunchaku"],
        ext_modules=[extension],
        cmdclass={"build_ext": BuildExtension},
    )
