#include <Python.h>
#include <c10/core/Device.h>
#include <mio/mmap.hpp>
#include <nlohmann/json.hpp>
#include <spdlog/version.h>

int launch_misc(int count);

static PyObject* run(PyObject*, PyObject*) { return PyLong_FromLong(launch_misc(c10::Device(c10::kCUDA, 0).is_cuda())); }
static PyMethodDef methods[] = {{"run", run, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, methods};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&module); }
