# Bodies for instruction sets that not every CPU has: each is a source of its own, named after its set, and only the CPU
# that has the set is given it at run time.

set(INSTRUCTIONS_avx2 -mavx2 -mfma)
set(INSTRUCTIONS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma)
set(INSTRUCTIONS_avx512_bf16 ${INSTRUCTIONS_avx512} -mavx512bf16)

# Leaves the sources out that are for another processor than the one that is built for.
function(keep_sources_for_this_cpu LIST)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    list(FILTER ${LIST} EXCLUDE REGEX "/avx[^/]*\\.cpp$")
    set(${LIST} "${${LIST}}" PARENT_SCOPE)
  endif()
endfunction()

function(set_instructions)
  foreach(SOURCE IN LISTS ARGN)
    cmake_path(GET SOURCE STEM NAME)
    set_property(SOURCE "${SOURCE}" APPEND PROPERTY COMPILE_OPTIONS ${INSTRUCTIONS_${NAME}})
  endforeach()
endfunction()
