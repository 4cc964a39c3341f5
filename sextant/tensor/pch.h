// The precompiled header of all LibTorch targets: what nearly every one of their files needs. The
// headers of single operators are not here, but what each of them includes is (1.5 s a file).
// (With autograd's custom functions, which cost the six files that need them 3 s each, it would be
// 360 MB and every other file slower.)
#pragma once

#include <ATen/Context.h>
#include <ATen/DeviceGuard.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
