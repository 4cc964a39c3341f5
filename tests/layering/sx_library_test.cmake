# cmake -DSOURCE_DIR=<root> -P: configures small projects that break the rules of sx_library and expects each to be
# refused with its reason, and one that keeps them to be accepted.
set(work ${CMAKE_CURRENT_BINARY_DIR}/sx_library_test)
set(num_failed 0)

# expect(<name> <regex of the message, empty = accepted> <lines of the project>)
function(expect name message lines)
  file(REMOVE_RECURSE ${work})
  file(WRITE ${work}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(p LANGUAGES NONE)
list(APPEND CMAKE_MODULE_PATH ${SOURCE_DIR}/cmake)
include(sx_library)
${lines}")
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${work} -B ${work}/build RESULT_VARIABLE code OUTPUT_VARIABLE out
                  ERROR_VARIABLE err)
  string(REGEX REPLACE "[ \n]+" " " err "${err}")
  if("${message}" STREQUAL "" AND code EQUAL 0)
    message(STATUS "ok: ${name} is accepted")
  elseif(NOT "${message}" STREQUAL "" AND NOT code EQUAL 0 AND err MATCHES "${message}")
    message(STATUS "ok: ${name} is refused")
  else()
    message(SEND_ERROR "${name}: exit ${code}, expected \"${message}\", got: ${err}")
  endif()
  file(REMOVE_RECURSE ${work})
endfunction()

set(base "sx_library(NAME base LAYER 0)\n")
set(tensor "sx_library(NAME tensor LAYER 4 TORCH DEPS base)\n")
expect("a chain of growing layers" "" "${base}sx_library(NAME text LAYER 1 DEPS base)\nsx_library(NAME crawl LAYER 2 DEPS base text)\n")
expect("a torch library on a torch library" "" "${base}${tensor}sx_library(NAME nn LAYER 5 TORCH DEPS base tensor)\n")
expect("the same layer" "sx_b \\(layer 1\\) may not depend on sx_a \\(layer 1\\): only smaller layers"
       "sx_library(NAME a LAYER 1)\nsx_library(NAME b LAYER 1 DEPS a)\n")
expect("a larger layer" "sx_b \\(layer 1\\) may not depend on sx_a \\(layer 3\\)"
       "sx_library(NAME a LAYER 3)\nsx_library(NAME b LAYER 1 DEPS a)\n")
expect("a torch-free library on a torch library" "sx_plan is torch-free and may not depend on sx_tensor"
       "${base}${tensor}sx_library(NAME plan LAYER 6 DEPS tensor)\n")
expect("a library that is not there" "sx_a depends on sx_gone, which is not defined before it"
       "sx_library(NAME a LAYER 1 DEPS gone)\n")
expect("a library without a layer" "NAME and LAYER are needed" "sx_library(NAME a)\n")
