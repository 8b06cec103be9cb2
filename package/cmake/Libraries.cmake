# What the library needs when it is loaded: torch's libraries and the CUDA runtime, which torch has loaded by then.

# Stubs with the names of torch's libraries, so that what is linked can name them as needed without having them.
function(make_torch_stubs)
  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/stub.cpp" "")
  foreach(NAME torch torch_cpu)
    add_library(${NAME} SHARED EXCLUDE_FROM_ALL "${CMAKE_CURRENT_BINARY_DIR}/stub.cpp")
    target_link_options(${NAME} PRIVATE -nostdlib)
  endforeach()
endfunction()

# Names stubs as needed. For CUDA, the loader finds torch's functions through libtorch.so, which needs libtorch_cuda.so
# where there is one.
function(link_without_torch TARGET)
  # A stub holds no symbol, and many linkers leave out what no symbol asks for.
  target_link_options(${TARGET} PRIVATE LINKER:--no-as-needed)
  target_link_libraries(${TARGET} PRIVATE ${ARGN})
  set_target_properties(${TARGET} PROPERTIES LINKER_LANGUAGE CXX SKIP_BUILD_RPATH TRUE)
endfunction()

# Shares the CUDA runtime with torch. Toolkits from wheels hold libcudart.so.13 but no libcudart.so.
function(link_shared_cudart TARGET)
  string(REGEX MATCH "^[0-9]+" MAJOR "${CMAKE_CUDA_COMPILER_VERSION}")
  find_library(CUDART libcudart.so.${MAJOR} HINTS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} REQUIRED NO_DEFAULT_PATH)
  target_link_libraries(${TARGET} PRIVATE "${CUDART}")
  set_target_properties(${TARGET} PROPERTIES CUDA_RUNTIME_LIBRARY None)
endfunction()
