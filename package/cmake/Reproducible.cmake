# The same bytes from the same sources, whichever folder and process they are built in.

# Writes NEW for OLD, given as OLD=NEW, wherever a source's or a header's path would get into the library. Where two
# fit, the later one holds.
function(hide_paths TARGET)
  list(TRANSFORM ARGN PREPEND "-ffile-prefix-map=")
  foreach(OPTION IN LISTS ARGN)
    target_compile_options(${TARGET} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:${OPTION}>" "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${OPTION}>")
  endforeach()
endfunction()

# Names of what only one source sees hold a random number unless the source has a seed of its own.
function(seed_names)
  foreach(SOURCE IN LISTS ARGN)
    cmake_path(GET SOURCE FILENAME SEED)
    set_property(SOURCE "${SOURCE}" APPEND PROPERTY COMPILE_OPTIONS
      "$<IF:$<COMPILE_LANGUAGE:CUDA>,-Xcompiler=-frandom-seed=${SEED},-frandom-seed=${SEED}>")
  endforeach()
endfunction()

# A local symbol's name holds the process id of nvcc.
function(strip_symbols TARGET)
  target_link_options(${TARGET} PRIVATE LINKER:-s)
  set_target_properties(${TARGET} PROPERTIES
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN TRUE)
endfunction()
