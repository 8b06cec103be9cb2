import os
import sys
import sysconfig

from skbuild import setup


def main():
    build_contrib = os.environ.get("ENABLE_CONTRIB", "0") == "1"
    package_name = "opencv_contrib_python" if build_contrib else "opencv_python"
    cmake_source_dir = "opencv"

    cmake_args = (
        [
            "-DPYTHON3_EXECUTABLE=%s" % sys.executable,
            "-DPYTHON3_INCLUDE_DIR=%s" % sysconfig.get_paths()["include"],
            "-DPYTHON3_SUFFIX=%s" % sysconfig.get_config_var("EXT_SUFFIX"),
            "-DBUILD_DOCS=OFF",
            "-DPYTHON3_LIMITED_API=ON",
            "-DBUILD_OPENEXR=ON",
        ]
        + (
            ["-DOPENCV_EXTRA_MODULES_PATH=" + os.path.abspath("opencv_contrib/modules")]
            if build_contrib
            else []
        )
    )

    setup(
        name=os.environ.get("OPENCV_PYTHON_PACKAGE_NAME", package_name),
        version="4.11.0.92",
        license="Apache 2.0",
        packages=["cv2"],
        package_data={"cv2": ["*.so"]},
        python_requires=">=3.6",
        install_requires=['numpy>=2; python_version>="3.9"'],
        cmake_args=cmake_args,
        cmake_source_dir=cmake_source_dir,
    )


if __name__ == "__main__":
    main()
