include("${CMAKE_CURRENT_LIST_DIR}/Python.cmake")
