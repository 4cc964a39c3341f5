// Copies and ordered sums of rows. Own loops: no atomics and no index_add, so the order of every
// sum is the one written down in the map, whatever the number of threads.
#include "sextant/ep/permute.h"

#include <ATen/Parallel.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstring>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr std::int64_t kGrainBytes = 64 * 1024;

std::int64_t width_of(const at::Tensor& x) {
  std::int64_t width = 1;
  for (std::int64_t dim = 1; dim < x.dim(); ++dim) width *= x.size(dim);
  return width;
}

at::Tensor with_rows(const at::Tensor& like, std::int64_t rows) {
  std::vector<std::int64_t> sizes = like.sizes().vec();
  sizes[0] = rows;
  return at::empty(sizes, like.options());
}

std::int64_t grain(std::int64_t row_bytes) {
  return std::max<std::int64_t>(1, kGrainBytes / std::max<std::int64_t>(1, row_bytes));
}

at::Tensor copied(const at::Tensor& given, const RowMap& map) {
  const at::Tensor x = given.contiguous();
  SX_CHECK(x.device().is_cpu() && x.dim() >= 1 && x.size(0) == map.num_sources,
           "{} rows for a map of {} sources", x.dim() == 0 ? 0 : x.size(0), map.num_sources);
  at::Tensor out = with_rows(x, map.num_rows());
  const auto bytes = static_cast<std::int64_t>(x.element_size()) * width_of(x);
  const auto* from = static_cast<const std::byte*>(x.const_data_ptr());
  auto* to = static_cast<std::byte*>(out.mutable_data_ptr());
  at::parallel_for(0, map.num_rows(), grain(bytes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::memcpy(to + r * bytes, from + map.source_of_row[static_cast<std::size_t>(r)] * bytes,
                  static_cast<std::size_t>(bytes));
    }
  });
  return out;
}

/// The sums of sources [begin, end).
template <class T, class Acc>
void sum_sources(const T* rows, T* out, const RowMap& map, std::int64_t width, std::int64_t begin,
                 std::int64_t end) {
  std::vector<Acc> total(static_cast<std::size_t>(width)), partial(total.size());
  for (std::int64_t s = begin; s < end; ++s) {
    const auto first = static_cast<std::size_t>(map.begin[static_cast<std::size_t>(s)]);
    const auto last = static_cast<std::size_t>(map.begin[static_cast<std::size_t>(s) + 1]);
    T* to = out + s * width;
    if (last - first <= 1) {
      if (last == first) {
        std::fill(to, to + width, T(0));
      } else {
        std::copy_n(rows + map.term[first] * width, width, to);
      }
      continue;
    }
    bool fresh = true, none = true;
    for (std::size_t i = first; i < last; ++i) {
      const T* row = rows + map.term[i] * width;
      for (std::int64_t j = 0; j < width; ++j) {
        const auto at = static_cast<std::size_t>(j);
        partial[at] = fresh ? static_cast<Acc>(row[j]) : partial[at] + static_cast<Acc>(row[j]);
      }
      fresh = map.ends_partial[i] != 0;
      if (!fresh) continue;
      for (std::size_t at = 0; at < total.size(); ++at) {
        const Acc rounded = static_cast<Acc>(static_cast<T>(partial[at]));
        total[at] = none ? rounded : total[at] + rounded;
      }
      none = false;
    }
    for (std::int64_t j = 0; j < width; ++j)
      to[j] = static_cast<T>(total[static_cast<std::size_t>(j)]);
  }
}

template <class T, class Acc>
void sum_all(const at::Tensor& rows, const at::Tensor& out, const RowMap& map) {
  const std::int64_t width = width_of(rows);
  const auto bytes = static_cast<std::int64_t>(sizeof(T)) * width;
  const T* from = rows.const_data_ptr<T>();
  T* to = out.mutable_data_ptr<T>();
  at::parallel_for(0, map.num_sources, grain(bytes), [&](std::int64_t begin, std::int64_t end) {
    sum_sources<T, Acc>(from, to, map, width, begin, end);
  });
}

at::Tensor summed(const at::Tensor& given, const RowMap& map) {
  const at::Tensor rows = given.contiguous();
  SX_CHECK(rows.device().is_cpu() && rows.dim() >= 1 && rows.size(0) == map.num_rows(),
           "{} rows for a map of {}", rows.dim() == 0 ? 0 : rows.size(0), map.num_rows());
  at::Tensor out = with_rows(rows, map.num_sources);
  switch (rows.scalar_type()) {
    case c10::kDouble: sum_all<double, double>(rows, out, map); break;
    case c10::kFloat: sum_all<float, float>(rows, out, map); break;
    case c10::kBFloat16: sum_all<c10::BFloat16, float>(rows, out, map); break;
    case c10::kHalf: sum_all<c10::Half, float>(rows, out, map); break;
    default: SX_CHECK(false, "rows of dtype {} are not added", c10::toString(rows.scalar_type()));
  }
  return out;
}

struct KeptMap : torch::CustomClassHolder {
  explicit KeptMap(std::shared_ptr<const RowMap> m) : map(std::move(m)) {}
  std::shared_ptr<const RowMap> map;
};
using Holder = c10::intrusive_ptr<torch::CustomClassHolder>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const RowMap& map_of(AutogradContext* ctx) {
  return *static_cast<KeptMap&>(*ctx->saved_data["map"].toCapsule()).map;
}

struct CopyRows : torch::autograd::Function<CopyRows> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Holder& map) {
    ctx->saved_data["map"] = c10::IValue::make_capsule(map);
    return copied(x, map_of(ctx));
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {summed(grads[0], map_of(ctx)), at::Tensor()};
  }
};

struct SumRows : torch::autograd::Function<SumRows> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& rows, const Holder& map) {
    ctx->saved_data["map"] = c10::IValue::make_capsule(map);
    return summed(rows, map_of(ctx));
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {copied(grads[0], map_of(ctx)), at::Tensor()};
  }
};

}  // namespace

ExpertSort sort_by_expert(std::span<const std::int32_t> experts, std::int64_t topk,
                          ExpertRange range, SumOrder order) {
  const auto slots = static_cast<std::size_t>(topk);
  const std::size_t num_tokens = slots == 0 ? 0 : experts.size() / slots;
  ExpertSort sorted;
  sorted.rows_of_expert.assign(static_cast<std::size_t>(range.count), 0);
  const auto wanted = [&](std::size_t pair) {
    return experts[pair] >= 0 && experts[pair] >= range.first &&
           experts[pair] < range.first + range.count;
  };
  const auto local = [&](std::size_t pair) {
    return static_cast<std::size_t>(experts[pair] - range.first);
  };
  for (std::size_t pair = 0; pair < experts.size(); ++pair) {
    if (wanted(pair)) ++sorted.rows_of_expert[local(pair)];
  }
  std::vector<std::int64_t> next(sorted.rows_of_expert.size(), 0);
  for (std::size_t e = 1; e < next.size(); ++e)
    next[e] = next[e - 1] + sorted.rows_of_expert[e - 1];
  const auto rows =
      static_cast<std::size_t>(next.empty() ? 0 : next.back() + sorted.rows_of_expert.back());

  auto tokens = std::make_shared<RowMap>();
  auto pairs = std::make_shared<RowMap>();
  tokens->num_sources = static_cast<std::int64_t>(num_tokens);
  pairs->num_sources = static_cast<std::int64_t>(experts.size());
  tokens->source_of_row.resize(rows);
  pairs->source_of_row.resize(rows);
  const std::vector<std::size_t> first(next.begin(), next.end());
  std::vector<std::size_t> chosen;
  for (std::size_t token = 0; token < num_tokens; ++token) {
    chosen.clear();
    for (std::size_t slot = 0; slot < slots; ++slot) {
      const std::size_t pair = token * slots + slot;
      if (wanted(pair)) {
        const auto row = static_cast<std::size_t>(next[local(pair)]++);
        SX_CHECK(row == first[local(pair)] ||
                     tokens->source_of_row[row - 1] != static_cast<std::int64_t>(token),
                 "token {} names expert {} twice", token, experts[pair]);
        tokens->source_of_row[row] = static_cast<std::int64_t>(token);
        pairs->source_of_row[row] = static_cast<std::int64_t>(pair);
        pairs->term.push_back(static_cast<std::int64_t>(row));
        pairs->ends_partial.push_back(1);
        chosen.push_back(pair);
      }
      pairs->begin.push_back(static_cast<std::int64_t>(pairs->term.size()));
    }
    const auto coordinate = [&](std::size_t pair) {
      return order == SumOrder::kSlot ? 0 : experts[pair] / range.per_coordinate;
    };
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&](std::size_t a, std::size_t b) { return coordinate(a) < coordinate(b); });
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      tokens->term.push_back(pairs->term[static_cast<std::size_t>(pairs->begin[chosen[i]])]);
      const bool last =
          i + 1 == chosen.size() || coordinate(chosen[i]) != coordinate(chosen[i + 1]);
      tokens->ends_partial.push_back(last ? 1 : 0);
    }
    tokens->begin.push_back(static_cast<std::int64_t>(tokens->term.size()));
  }
  sorted.tokens = std::move(tokens);
  sorted.pairs = std::move(pairs);
  return sorted;
}

std::shared_ptr<const RowMap> transpose_blocks(
    const std::vector<std::vector<std::int64_t>>& counts) {
  auto map = std::make_shared<RowMap>();
  const std::size_t inner = counts.empty() ? 0 : counts[0].size();
  std::vector<std::vector<std::int64_t>> start(counts.size(), std::vector<std::int64_t>(inner));
  for (std::size_t o = 0; o < counts.size(); ++o) {
    for (std::size_t i = 0; i < inner; ++i) {
      start[o][i] = map->num_sources;
      map->num_sources += counts[o][i];
    }
  }
  map->term.resize(static_cast<std::size_t>(map->num_sources));
  for (std::size_t i = 0; i < inner; ++i) {
    for (std::size_t o = 0; o < counts.size(); ++o) {
      for (std::int64_t n = 0; n < counts[o][i]; ++n) {
        const std::int64_t source = start[o][i] + n;
        map->term[static_cast<std::size_t>(source)] = map->num_rows();
        map->source_of_row.push_back(source);
      }
    }
  }
  for (std::int64_t s = 1; s <= map->num_sources; ++s) map->begin.push_back(s);
  map->ends_partial.assign(map->term.size(), 1);
  return map;
}

at::Tensor copy_rows(const at::Tensor& x, std::shared_ptr<const RowMap> map) {
  const Holder holder = c10::make_intrusive<KeptMap>(std::move(map));
  return CopyRows::apply(x, holder);
}

at::Tensor sum_rows(const at::Tensor& rows, std::shared_ptr<const RowMap> map) {
  const Holder holder = c10::make_intrusive<KeptMap>(std::move(map));
  return SumRows::apply(rows, holder);
}

}  // namespace sx
