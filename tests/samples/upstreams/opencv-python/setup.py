import os
import sys

from skbuild import setup

contrib = os.environ.get("ENABLE_CONTRIB", "0") == "1"
name = "opencv_contrib_python" if contrib else "opencv_python"

setup(
    name=os.environ.get("OPENCV_PYTHON_PACKAGE_NAME", name),
    version="4.11.0.92",
    license="Apache 2.0",
    packages=["cv2"],
    package_data={"cv2": ["*.so"]},
    python_requires=">=3.6",
    install_requires=['numpy>=2; python_version>="3.9"'],
    cmake_source_dir="opencv",
    cmake_args=[
        f"-DPYTHON3_INCLUDE_DIR={__import__('sysconfig').get_paths()['include']}",
        f"-DPYTHON3_EXECUTABLE={sys.executable}",
        "-DPYTHON3_LIMITED_API=ON",
        *([f"-DOPENCV_EXTRA_MODULES_PATH={os.path.abspath('opencv_contrib/modules')}"] if contrib else []),
    ],
)
