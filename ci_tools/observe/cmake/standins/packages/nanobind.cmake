# What nanobind's own CMake files define: nanobind_add_module, and the commands of which it is made.
set(nanobind_VERSION 2.9.2)
set(NB_DIR "${FATWHEEL_ROOT}/packages/nanobind")
set(NB_SUFFIX .cpython-fatwheel.so)
set(NB_SUFFIX_S .abi3.so)
if(NOT COMMAND nanobind_add_module)
  function(nanobind_add_module target)
    cmake_parse_arguments(PARSE_ARGV 1 ask
                          "STABLE_ABI;FREE_THREADED;NB_STATIC;NB_SHARED;PROTECT_STACK;LTO;NOMINSIZE;NOSTRIP;MUSL_DYNAMIC_LIBCPP;NB_SUPPRESS_WARNINGS"
                          "NB_DOMAIN;BACKEND_MODULE;BACKEND_PYPI;STABLE_ABI_VERSION" "")
    add_library(${target} MODULE ${ask_UNPARSED_ARGUMENTS})
    set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX ${NB_SUFFIX})
    # As nanobind-config.cmake has it: it needs CPython 3.12, and FindPython's component.
    if(ask_STABLE_ABI AND NOT FATWHEEL_PYTHON VERSION_LESS 3.12 AND TARGET Python::SABIModule)
      target_compile_definitions(${target} PRIVATE Py_LIMITED_API=0x030C0000)
      set_target_properties(${target} PROPERTIES SUFFIX ${NB_SUFFIX_S})
    endif()
    target_include_directories(${target} PRIVATE "${NB_DIR}/include" "${FATWHEEL_ROOT}/python")
  endfunction()
  function(nanobind_add_stub)
  endfunction()
  function(nanobind_build_library target)
    add_library(${target} INTERFACE)
  endfunction()
  foreach(part IN ITEMS opt_size disable_stack_protector extension extension_abi3 lto compile_options strip
                        set_visibility musl_static_libcpp link_options)
    cmake_language(EVAL CODE "function(nanobind_${part})\nendfunction()")
  endforeach()
endif()
