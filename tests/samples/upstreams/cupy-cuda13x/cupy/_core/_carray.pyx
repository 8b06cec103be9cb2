# distutils: language = c++
cdef extern from "cupy_cub.h":
    int launch_cub(int count)


def add(int count):
    return launch_cub(count)
