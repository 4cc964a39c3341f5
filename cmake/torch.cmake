# LibTorch for the torch half of the tree: target sx::torch, and sx_use_torch() with the shared precompiled header.
find_package(LibTorch REQUIRED)

# Adds LibTorch's compile settings and, where the compiler has it, the precompiled header of sx_tensor.
function(sx_use_torch target)
  target_link_libraries(${target} PUBLIC sx::torch)
  if(TARGET sx_torch_pch)
    # The header is compiled with -fPIC; an executable's own -fPIE, which comes first, would not accept it.
    # -fpch-preprocess lets ccache work.
    target_compile_options(${target} PRIVATE -fPIC $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
    target_precompile_headers(${target} REUSE_FROM sx_torch_pch)
  endif()
endfunction()
