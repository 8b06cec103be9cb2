# What the environment asks for. Each function stops the build with one sentence when it cannot tell.

# Whether a variable of the environment is set, and to something else than what means no.
function(read_switch NAME RESULT)
  set(${RESULT} FALSE PARENT_SCOPE)
  if("$ENV{${NAME}}") # true for 1, ON, YES and TRUE, as scikit-build-core has it
    set(${RESULT} TRUE PARENT_SCOPE)
  endif()
endfunction()

# The nvcc of the toolkit that CUDA_HOME names.
function(read_cuda_compiler RESULT)
  set(COMPILER "$ENV{CUDA_HOME}/bin/nvcc")
  if(NOT EXISTS "${COMPILER}")
    message(FATAL_ERROR "CUDA_HOME must name a CUDA toolkit that holds bin/nvcc, got \"$ENV{CUDA_HOME}\"")
  endif()
  set(${RESULT} "${COMPILER}" PARENT_SCOPE)
endfunction()

# TORCH_CUDA_ARCH_LIST as it was given, with semicolons, and as CMake writes it: 9.0 is 90-real, +PTX adds 90-virtual.
function(read_cuda_architectures AS_GIVEN AS_CMAKE)
  string(REGEX REPLACE "[ ;]+" ";" GIVEN "$ENV{TORCH_CUDA_ARCH_LIST}")
  list(FILTER GIVEN EXCLUDE REGEX "^$")
  if(NOT GIVEN)
    set(GIVEN 9.0 10.0+PTX)
  endif()
  set(ARCHITECTURES)
  foreach(ENTRY IN LISTS GIVEN)
    if(NOT ENTRY MATCHES "^([0-9]+)\\.([0-9][af]?)(\\+PTX)?$")
      message(FATAL_ERROR
        "TORCH_CUDA_ARCH_LIST must list architectures such as 9.0, 9.0a or 10.0+PTX, got \"${ENTRY}\"")
    endif()
    list(APPEND ARCHITECTURES "${CMAKE_MATCH_1}${CMAKE_MATCH_2}-real")
    if(CMAKE_MATCH_3)
      list(APPEND ARCHITECTURES "${CMAKE_MATCH_1}${CMAKE_MATCH_2}-virtual")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES ARCHITECTURES)
  set(${AS_GIVEN} "${GIVEN}" PARENT_SCOPE)
  set(${AS_CMAKE} "${ARCHITECTURES}" PARENT_SCOPE)
endfunction()

# The folder that holds torch/: no library of torch's is needed, so its headers alone will do.
function(find_torch_include RESULT)
  set(INCLUDE "$ENV{FATWHEEL_TORCH_INCLUDE}")
  if(NOT INCLUDE)
    find_package(Python REQUIRED COMPONENTS Interpreter)
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -c "import torch; print(torch.__path__[0] + '/include', end='')"
      OUTPUT_VARIABLE INCLUDE
      ERROR_QUIET)
  endif()
  if(NOT EXISTS "${INCLUDE}/torch/csrc/stable/library.h")
    message(FATAL_ERROR "FATWHEEL_TORCH_INCLUDE must name a folder that holds torch 2.10's headers "
      "(torch/csrc/stable/library.h) or newer ones, or torch must be importable by ${Python_EXECUTABLE} "
      "(pip install --no-build-isolation); got \"${INCLUDE}\"")
  endif()
  set(${RESULT} "${INCLUDE}" PARENT_SCOPE)
endfunction()

# The folder of the kernels: the sdist holds it within; in the repository it lies beside the package.
function(find_kernels RESULT)
  set(KERNELS "${PROJECT_SOURCE_DIR}/kernels")
  if(NOT IS_DIRECTORY "${KERNELS}")
    cmake_path(SET KERNELS NORMALIZE "${PROJECT_SOURCE_DIR}/../kernels")
  endif()
  set(${RESULT} "${KERNELS}" PARENT_SCOPE)
endfunction()
