#include <Python.h>

int launch_cv2(int count);

static PyObject* add(PyObject*, PyObject*) { return PyLong_FromLong(launch_cv2(1)); }
static PyObject* information(PyObject*, PyObject*) { return PyUnicode_FromString("NVIDIA GPU arch: " ARCHITECTURES); }
static PyMethodDef methods[] = {
    {"add", add, METH_NOARGS, nullptr},
    {"getBuildInformation", information, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "cv2", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_cv2() { return PyModule_Create(&module); }
