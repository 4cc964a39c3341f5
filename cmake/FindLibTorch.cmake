# Finds LibTorch 2.11 to 2.15 as the wheel `torch` lays it out, without its own CMake config (which asks for CUDA as a
# language when the wheel has CUDA, whatever is built against it).
#
# Looked for in this order: LibTorch_ROOT or Torch_ROOT (CMake or environment variable), .deps/libtorch/torch,
# CMAKE_PREFIX_PATH. Targets: sx::torch (CPU: libtorch_cpu and libc10), and with SX_CUDA sx::torch_cuda.
# Sets LibTorch_FOUND, LibTorch_VERSION, LibTorch_ROOT_DIR, LibTorch_CUDA (wheel has CUDA libraries).

find_path(LibTorch_ROOT_DIR include/ATen/core/Tensor.h
  HINTS ${LibTorch_ROOT} ${Torch_ROOT} $ENV{LibTorch_ROOT} $ENV{Torch_ROOT} ${PROJECT_SOURCE_DIR}/.deps/libtorch/torch
  NO_CMAKE_SYSTEM_PATH)
mark_as_advanced(LibTorch_ROOT_DIR)

if(LibTorch_ROOT_DIR)
  set(version_header ${LibTorch_ROOT_DIR}/include/torch/headeronly/version.h)
  if(NOT EXISTS ${version_header})
    set(version_header ${LibTorch_ROOT_DIR}/include/torch/csrc/api/include/torch/version.h)
  endif()
  set(LibTorch_VERSION "")
  if(EXISTS ${version_header})
    foreach(part MAJOR MINOR PATCH)
      file(STRINGS ${version_header} line REGEX "#define TORCH_VERSION_${part} ")
      string(REGEX MATCH "[0-9]+" ${part} "${line}")
    endforeach()
    set(LibTorch_VERSION ${MAJOR}.${MINOR}.${PATCH})
  endif()
  if(LibTorch_VERSION AND LibTorch_VERSION VERSION_LESS 2.11 OR LibTorch_VERSION VERSION_GREATER_EQUAL 2.16)
    message(WARNING "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR} is outside the supported range 2.11 to 2.15")
  endif()

  set(LibTorch_ABI 1)
  set(torch_config ${LibTorch_ROOT_DIR}/share/cmake/Torch/TorchConfig.cmake)
  if(EXISTS ${torch_config})
    file(STRINGS ${torch_config} line REGEX "_GLIBCXX_USE_CXX11_ABI=[01]")
    if(line MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
      set(LibTorch_ABI 0)
    endif()
  endif()
  find_library(LibTorch_cpu_LIBRARY torch_cpu PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  find_library(LibTorch_c10_LIBRARY c10 PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  mark_as_advanced(LibTorch_cpu_LIBRARY LibTorch_c10_LIBRARY)
  set(LibTorch_CUDA OFF)
  if(EXISTS ${LibTorch_ROOT_DIR}/lib/libtorch_cuda.so)
    set(LibTorch_CUDA ON)
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_ROOT_DIR LibTorch_cpu_LIBRARY LibTorch_c10_LIBRARY
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "run ./sx setup, set Torch_ROOT, or configure with -DSX_TORCH=OFF")

if(LibTorch_FOUND AND NOT TARGET sx::torch)
  # A CUDA wheel's libtorch_cpu needs libcupti and libcudart to load: from the toolkit, or from the wheels
  # nvidia-cuda-cupti and nvidia-cuda-runtime unzipped beside torch/, where its own RPATH finds them.
  set(rpath ${LibTorch_ROOT_DIR}/lib)
  file(GLOB beside ${LibTorch_ROOT_DIR}/../nvidia/*/lib)
  list(APPEND rpath ${beside})
  if(LibTorch_CUDA AND NOT beside)
    find_library(LibTorch_cupti_LIBRARY cupti HINTS /usr/local/cuda/extras/CUPTI/lib64 /usr/local/cuda/lib64)
    mark_as_advanced(LibTorch_cupti_LIBRARY)
    if(LibTorch_cupti_LIBRARY)
      get_filename_component(cupti_dir ${LibTorch_cupti_LIBRARY} DIRECTORY)
      list(APPEND rpath ${cupti_dir} /usr/local/cuda/lib64)
    endif()
  endif()

  add_library(sx_libtorch INTERFACE)
  add_library(sx::torch ALIAS sx_libtorch)
  # -idirafter: the wheel carries headers of other libraries too (fmt of another version), which must not come before
  # the system's.
  target_compile_options(sx_libtorch INTERFACE
    "SHELL:-idirafter ${LibTorch_ROOT_DIR}/include"
    "SHELL:-idirafter ${LibTorch_ROOT_DIR}/include/torch/csrc/api/include")
  target_compile_definitions(sx_libtorch INTERFACE _GLIBCXX_USE_CXX11_ABI=${LibTorch_ABI} AT_PER_OPERATOR_HEADERS)
  target_link_libraries(sx_libtorch INTERFACE ${LibTorch_cpu_LIBRARY} ${LibTorch_c10_LIBRARY})
  foreach(dir ${rpath})
    target_link_options(sx_libtorch INTERFACE "-Wl,-rpath,${dir}" "-Wl,-rpath-link,${dir}")
  endforeach()

  if(SX_CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(CMAKE_CUDA_STANDARD 20)
    add_library(sx_libtorch_cuda INTERFACE)
    add_library(sx::torch_cuda ALIAS sx_libtorch_cuda)
    # No symbol of these is referenced by name, so the linker would drop them and CUDA would not initialise.
    target_link_libraries(sx_libtorch_cuda INTERFACE sx::torch -Wl,--no-as-needed
      ${LibTorch_ROOT_DIR}/lib/libtorch_cuda.so ${LibTorch_ROOT_DIR}/lib/libc10_cuda.so -Wl,--as-needed CUDA::cudart)
    target_link_options(sx_libtorch_cuda INTERFACE -Wl,--allow-shlib-undefined)
  endif()
  message(STATUS "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR}: C++11 ABI ${LibTorch_ABI}, CUDA in the wheel ${LibTorch_CUDA}")
endif()
