// Initial values by counter: element i of a parameter needs nothing but (seed, name, i).
#include "sextant/tensor/init.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/base/rng.h"

namespace sx {
namespace {

/// Below this many elements a thread costs more than it gives.
constexpr std::int64_t kMinPerThread = 1 << 16;

template <class T>
void fill_range(T* out, const InitSpec& spec, const RandomStream& stream,
                std::int64_t valid_elements, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i, ++out) {
    if (i >= valid_elements) {
      *out = T(0);
    } else if (spec.kind == InitKind::kNormal) {
      *out = static_cast<T>(spec.mean + spec.std * stream.normal(static_cast<std::uint64_t>(i)));
    } else {
      *out = spec.kind == InitKind::kOnes ? T(1) : T(0);
    }
  }
}

template <class T>
void fill(T* out, std::int64_t count, const InitSpec& spec, const RandomStream& stream,
          std::int64_t valid_elements, std::int64_t begin, int num_threads) {
  const std::int64_t threads =
      std::clamp<std::int64_t>(count / kMinPerThread, 1, std::max(num_threads, 1));
  const auto part = [&](std::int64_t t) {
    const std::int64_t from = count * t / threads;
    const std::int64_t to = count * (t + 1) / threads;
    fill_range(out + from, spec, stream, valid_elements, begin + from, begin + to);
  };
  std::vector<std::jthread> workers;
  for (std::int64_t t = 1; t < threads; ++t) workers.emplace_back(part, t);
  part(0);
}

}  // namespace

void fill_init(at::Tensor& out, const InitSpec& spec, std::uint64_t seed, std::string_view fqn,
               std::int64_t row_elements, std::int64_t begin, int num_threads) {
  SX_CHECK(out.is_contiguous(), "{}: initial values need contiguous memory", fqn);
  const RandomStream stream(seed, "init:" + std::string(fqn));
  const std::int64_t count = out.numel();
  const std::int64_t valid = spec.valid_rows < 0 ? begin + count : spec.valid_rows * row_elements;
  const auto fill_as = [&](auto type) {
    using T = decltype(type);
    fill(static_cast<T*>(out.mutable_data_ptr()), count, spec, stream, valid, begin, num_threads);
  };
  switch (out.scalar_type()) {
    case c10::ScalarType::Double: return fill_as(double{});
    case c10::ScalarType::Float: return fill_as(float{});
    case c10::ScalarType::BFloat16: return fill_as(c10::BFloat16{});
    case c10::ScalarType::Half: return fill_as(c10::Half{});
    case c10::ScalarType::Byte: return fill_as(std::uint8_t{});
    default: SX_CHECK(false, "{}: initial values in {}", fqn, c10::toString(out.scalar_type()));
  }
}

}  // namespace sx
