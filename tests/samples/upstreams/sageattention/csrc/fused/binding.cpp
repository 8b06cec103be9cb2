#include <Python.h>
#include <c10/macros/Macros.h>

static PyObject* run(PyObject*, PyObject*) { return PyLong_FromLong(C10_LIKELY(1)); }
static PyMethodDef methods[] = {{"run", run, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_fused", nullptr, -1, methods};
PyMODINIT_FUNC PyInit__fused() { return PyModule_Create(&module); }
