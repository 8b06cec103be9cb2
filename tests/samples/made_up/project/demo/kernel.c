#include <Python.h>

const char image[] = ZAP_IMAGES;
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_zap"};

PyMODINIT_FUNC PyInit__zap(void) {
    module.m_doc = image;
    return PyModule_Create(&module);
}
