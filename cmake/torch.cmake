# LibTorch for the torch half of the tree: target sx::torch, and sx_use_torch() with the shared precompiled headers.
find_package(LibTorch REQUIRED)

# sx_use_torch(TARGET [test]): LibTorch's compile settings and, where the compiler has it, the precompiled header of
# sx_tensor; for a test the one that holds GoogleTest too.
function(sx_use_torch target)
  target_link_libraries(${target} PUBLIC sx::torch)
  set(pch sx_torch_pch)
  if("test" IN_LIST ARGN)
    set(pch sx_torch_test_pch)
  endif()
  if(TARGET ${pch})
    # The header is compiled with -fPIC; an executable's own -fPIE, which comes first, would not accept it.
    # -fpch-preprocess lets ccache work.
    target_compile_options(${target} PRIVATE -fPIC $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
    target_precompile_headers(${target} REUSE_FROM ${pch})
  endif()
endfunction()
