// Compiled with -ffp-contract=off and alone (sextant/data/CMakeLists.txt): a compiler that joins a
// product and a difference gives another order.
#include "sextant/data/blend_megatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sextant/base/check.h"
#include "sextant/data/megatron_split.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sx {

namespace {

constexpr std::size_t kMaxDatasets = 32766;
constexpr std::size_t kLanes = 8;

/// Datasets that compete, in ascending order; filled up to a multiple of kLanes with ones that
/// never win (weight 0, count infinite).
struct Competitors {
  std::vector<double> weight;
  std::vector<double> count;
  std::vector<double> error;
  std::vector<std::int16_t> dataset;

  void clear() {
    weight.clear();
    count.clear();
    dataset.clear();
  }
  void add(double w, double c, std::size_t index) {
    weight.push_back(w);
    count.push_back(c);
    dataset.push_back(static_cast<std::int16_t>(index));
  }
  void fill_up() {
    while (weight.size() % kLanes != 0) add(0, std::numeric_limits<double>::infinity(), 0);
    error.resize(weight.size());
  }
};

/// Place of the first largest `weight * scale - count`.
using FindLargest = std::size_t (*)(Competitors&, double scale);

std::size_t find_separate(Competitors& c, double scale) {
  std::size_t best = 0;
  double largest = std::numeric_limits<double>::lowest();
  for (std::size_t i = 0; i < c.weight.size(); ++i) {
    const double error = c.weight[i] * scale - c.count[i];
    if (error > largest) {
      largest = error;
      best = i;
    }
  }
  return best;
}

std::size_t find_fused(Competitors& c, double scale) {
  std::size_t best = 0;
  double largest = std::numeric_limits<double>::lowest();
  for (std::size_t i = 0; i < c.weight.size(); ++i) {
    const double error = std::fma(c.weight[i], scale, -c.count[i]);
    if (error > largest) {
      largest = error;
      best = i;
    }
  }
  return best;
}

#if defined(__x86_64__)
// Two passes: the largest value, then the first place that has it.
[[gnu::target("avx2")]] std::size_t find_avx2(Competitors& c, double scale) {
  const std::size_t n = c.weight.size();
  const double* weight = c.weight.data();
  const double* count = c.count.data();
  double* error = c.error.data();
  const __m256d factor = _mm256_set1_pd(scale);
  __m256d top0 = _mm256_set1_pd(std::numeric_limits<double>::lowest()), top1 = top0;
  for (std::size_t i = 0; i < n; i += 8) {
    const __m256d a = _mm256_sub_pd(_mm256_mul_pd(_mm256_loadu_pd(weight + i), factor),
                                    _mm256_loadu_pd(count + i));
    const __m256d b = _mm256_sub_pd(_mm256_mul_pd(_mm256_loadu_pd(weight + i + 4), factor),
                                    _mm256_loadu_pd(count + i + 4));
    _mm256_storeu_pd(error + i, a);
    _mm256_storeu_pd(error + i + 4, b);
    top0 = _mm256_max_pd(top0, a);
    top1 = _mm256_max_pd(top1, b);
  }
  __m256d top = _mm256_max_pd(top0, top1);
  top = _mm256_max_pd(top, _mm256_permute2f128_pd(top, top, 1));
  top = _mm256_max_pd(top, _mm256_permute_pd(top, 5));
  for (std::size_t i = 0; i < n; i += 8) {
    const int a = _mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(error + i), top, _CMP_EQ_OQ));
    const int b =
        _mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(error + i + 4), top, _CMP_EQ_OQ));
    const auto found = static_cast<unsigned>(a | b << 4);
    if (found != 0) return i + static_cast<std::size_t>(__builtin_ctz(found));
  }
  return 0;
}

// The forms with a mask of ones: the plain ones warn with GCC 12.
[[gnu::target("avx512f")]] std::size_t find_avx512(Competitors& c, double scale) {
  const std::size_t n = c.weight.size();
  const double* weight = c.weight.data();
  const double* count = c.count.data();
  double* error = c.error.data();
  const __m512d factor = _mm512_set1_pd(scale);
  __m512d top = _mm512_set1_pd(std::numeric_limits<double>::lowest());
  for (std::size_t i = 0; i < n; i += 8) {
    const __m512d e = _mm512_sub_pd(_mm512_mul_pd(_mm512_loadu_pd(weight + i), factor),
                                    _mm512_loadu_pd(count + i));
    _mm512_storeu_pd(error + i, e);
    top = _mm512_maskz_max_pd(0xff, top, e);
  }
  top = _mm512_maskz_max_pd(0xff, top, _mm512_maskz_shuffle_f64x2(0xff, top, top, 0x4e));
  top = _mm512_maskz_max_pd(0xff, top, _mm512_maskz_shuffle_f64x2(0xff, top, top, 0xb1));
  top = _mm512_maskz_max_pd(0xff, top, _mm512_maskz_permute_pd(0xff, top, 0x55));
  for (std::size_t i = 0; i < n; i += 8) {
    const unsigned found = _mm512_cmp_pd_mask(_mm512_loadu_pd(error + i), top, _CMP_EQ_OQ);
    if (found != 0) return i + static_cast<std::size_t>(__builtin_ctz(found));
  }
  return 0;
}
#endif

FindLargest finder(BlendRounding rounding, BlendLevel level) {
  if (rounding == BlendRounding::kFused) return find_fused;
  switch (level) {
    case BlendLevel::kScalar: return find_separate;
#if defined(__x86_64__)
    case BlendLevel::kAvx2: return find_avx2;
    case BlendLevel::kAvx512: return find_avx512;
#else
    default: return find_separate;
#endif
  }
  return find_separate;
}

Result<void> check_number(std::size_t datasets) {
  if (datasets > 0 && datasets <= kMaxDatasets) return {};
  return Error{ErrorKind::kInvalid,
               fmt::format("{} datasets; a blend takes 1 to {}", datasets, kMaxDatasets), "blend"};
}

/// Datasets that may win one of the next `steps` places from place t on. The errors at place t sum
/// to t (sum of weights) - t = 0 but for rounding, so the winner's is at least about 0, and an
/// error grows by its weight a place: who is further below 0 than that cannot win.
void choose_competitors(std::span<const double> weights, std::span<const double> counts,
                        std::uint64_t t, std::uint64_t steps, Competitors& out) {
  const auto place = static_cast<double>(t);
  const double margin = 1e-3 + 1e-12 * place;
  out.clear();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double reach = weights[i] * (place + static_cast<double>(steps)) - counts[i];
    if (reach >= -margin) out.add(weights[i], counts[i], i);
  }
  out.fill_up();
}

}  // namespace

std::vector<std::uint64_t> MegatronBlendIndex::counts(std::size_t num_datasets) const {
  std::vector<std::uint64_t> counts(num_datasets);
  for (const std::int16_t dataset : dataset_index) ++counts.at(static_cast<std::size_t>(dataset));
  return counts;
}

BlendLevel best_blend_level() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return BlendLevel::kAvx512;
  if (__builtin_cpu_supports("avx2")) return BlendLevel::kAvx2;
#endif
  return BlendLevel::kScalar;
}

Result<MegatronBlendIndex> blend_greedy(std::span<const double> weights, std::uint64_t size,
                                        BlendRounding rounding) {
  return blend_greedy(weights, size, rounding, best_blend_level());
}

Result<MegatronBlendIndex> blend_greedy(std::span<const double> weights, std::uint64_t size,
                                        BlendRounding rounding, BlendLevel level) {
  SX_TRY_VOID(check_number(weights.size()));
  for (const double weight : weights) {
    if (weight > 0 && std::isfinite(weight)) continue;
    return Error{ErrorKind::kInvalid,
                 fmt::format("a blend's weight is {}, all are finite and above 0", weight),
                 "blend"};
  }
  const FindLargest find = finder(rounding, level);
  MegatronBlendIndex index;
  index.dataset_index.resize(size);
  index.dataset_sample_index.resize(size);
  std::vector<double> counts(weights.size(), 0.0);
  // Choosing competitors pays with many datasets, and holds for weights that sum to 1 only.
  const bool choose = weights.size() >= 2 * kLanes &&
                      std::fabs(numpy_sum(weights.data(), weights.size()) - 1) < 1e-13;
  const std::uint64_t steps = choose ? std::max<std::uint64_t>(8, weights.size() / 4) : size;
  Competitors competitors;
  for (std::uint64_t t = 0; t < size;) {
    const std::uint64_t end = t + std::min(steps, size - t);
    if (choose && t > 0) {
      choose_competitors(weights, counts, t, end - t, competitors);
    } else {
      competitors.clear();
      for (std::size_t i = 0; i < weights.size(); ++i) competitors.add(weights[i], counts[i], i);
      competitors.fill_up();
    }
    for (; t < end; ++t) {
      const std::size_t winner =
          find(competitors, static_cast<double>(std::max<std::uint64_t>(t, 1)));
      const std::int16_t dataset = competitors.dataset[winner];
      index.dataset_index[t] = dataset;
      index.dataset_sample_index[t] = static_cast<std::int64_t>(competitors.count[winner]);
      competitors.count[winner] += 1;
      counts[static_cast<std::size_t>(dataset)] = competitors.count[winner];
    }
  }
  return index;
}

Result<MegatronBlendIndex> blend_exhaustive(std::span<const std::uint64_t> sizes,
                                            BlendRounding rounding) {
  SX_TRY_VOID(check_number(sizes.size()));
  const std::uint64_t total = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  const FindLargest find = finder(rounding, best_blend_level());
  MegatronBlendIndex index;
  index.dataset_index.resize(total);
  index.dataset_sample_index.resize(total);
  Competitors competitors;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) continue;
    competitors.add(static_cast<double>(sizes[i]) / static_cast<double>(total), 0, i);
  }
  competitors.fill_up();
  for (std::uint64_t t = 0; t < total; ++t) {
    const std::size_t winner =
        find(competitors, static_cast<double>(std::max<std::uint64_t>(t, 1)));
    const std::int16_t dataset = competitors.dataset[winner];
    const double count = competitors.count[winner];
    index.dataset_index[t] = dataset;
    index.dataset_sample_index[t] = static_cast<std::int64_t>(count);
    const bool used_up =
        static_cast<std::uint64_t>(count) + 1 == sizes[static_cast<std::size_t>(dataset)];
    competitors.count[winner] = used_up ? std::numeric_limits<double>::infinity() : count + 1;
  }
  return index;
}

}  // namespace sx
