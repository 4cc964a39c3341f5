# Two precompiled headers for the torch-free half (the torch half has its own, sextant/tensor/pch.h): nearly every source
# includes the JSON and format libraries, every test GoogleTest besides, and they cost a second per file. Sources still
# include what they use: the target check_headers and the fuzz preset compile without these.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(sx_pch_headers <algorithm> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span> <string>
      <string_view> <utility> <variant> <vector> <fmt/format.h> ${PROJECT_SOURCE_DIR}/cmake/json_instances.h)
  file(WRITE ${CMAKE_BINARY_DIR}/pch/empty.cpp "")
  add_library(sx_json STATIC cmake/json_instances.cpp)
  set_target_properties(sx_json PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(sx_json PUBLIC nlohmann_json::nlohmann_json)
  target_compile_options(sx_json PRIVATE $<$<CONFIG:RelWithDebInfo>:-Og>)  # half the time of -O1
  foreach(kind core test)
    add_library(sx_${kind}_pch STATIC ${CMAKE_BINARY_DIR}/pch/empty.cpp)
    target_link_libraries(sx_${kind}_pch PUBLIC fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)
    target_compile_options(sx_${kind}_pch PRIVATE -fpch-preprocess)
  endforeach()
  target_link_libraries(sx_test_pch PUBLIC GTest::gtest GTest::gmock)
  target_compile_options(sx_test_pch PRIVATE ${SX_TEST_OPTIONS})
  target_precompile_headers(sx_core_pch PRIVATE ${sx_pch_headers})
  target_precompile_headers(sx_test_pch PRIVATE ${sx_pch_headers} <gmock/gmock.h> <gtest/gtest.h>)
endif()

# sx_use_pch(TARGET core|test)
function(sx_use_pch target kind)
  if(TARGET sx_${kind}_pch)
    # The header is compiled with -fPIC; an executable's own -fPIE would not accept it. -fpch-preprocess is for ccache.
    target_compile_options(${target} PRIVATE -fPIC -fpch-preprocess)
    target_precompile_headers(${target} REUSE_FROM sx_${kind}_pch)
    target_link_libraries(${target} PRIVATE sx_json)
  endif()
endfunction()
