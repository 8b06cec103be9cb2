from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="torch-clip",
    version="1.0",
    packages=["torch_clip"],
    python_requires=">=3.10",
    install_requires=["torch>=2.4"],
    ext_modules=[CppExtension("torch_clip._C", ["csrc/clip.cpp"])],
    cmdclass={"build_ext": BuildExtension},
)
