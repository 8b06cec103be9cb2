#include <Python.h>
#include <c10/macros/Macros.h>

int launch_forward(int count);

static PyObject* run(PyObject*, PyObject*) { return PyLong_FromLong(launch_forward(C10_LIKELY(1))); }
static PyMethodDef methods[] = {{"run", run, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "flash_attn_2_cuda", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_flash_attn_2_cuda() { return PyModule_Create(&module); }
