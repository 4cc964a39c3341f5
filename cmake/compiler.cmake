# Language level, warnings, caches and linkers: what holds for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(host_only $<NOT:$<COMPILE_LANGUAGE:CUDA>>)  # nvcc has no such options
# An ignored Result stops the build in every preset.
add_compile_options("$<${host_only}:-Wall;-Wextra;-Wnon-virtual-dtor;-Woverloaded-virtual>"
                    "$<${host_only}:-Wno-missing-field-initializers;-Werror=unused-result>")

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 takes inlined std::string code for overflows (GCC bugs 105329, 105651).
  add_compile_options("$<${host_only}:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>")
  # g++ collects its garbage after a gigabyte, which few sources reach: a twentieth of the time.
  add_compile_options("$<${host_only}:--param=ggc-min-expand=300;--param=ggc-min-heapsize=1000000>")
  if(CMAKE_UNITY_BUILD)
    # Several sources in one: each is then an included file to the warning, which asks about headers.
    add_compile_options(-Wno-subobject-linkage)
  endif()
endif()

find_program(SX_CCACHE ccache)
mark_as_advanced(SX_CCACHE)
if(SX_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness is what ccache asks for with a precompiled header.
  set(CMAKE_C_COMPILER_LAUNCHER ${SX_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${SX_CCACHE})
endif()
find_program(SX_MOLD mold)
mark_as_advanced(SX_MOLD)
if(SX_MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_link_options(-fuse-ld=mold)
endif()
