#include <Python.h>

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fatwheel_canary"};

PyMODINIT_FUNC PyInit_fatwheel_canary(void) { return PyModule_Create(&module); }
