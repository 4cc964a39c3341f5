#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/cp/routes.h"
#include "sextant/cp/token_copy.h"
#include "sextant/tensor/memory_tracker.h"

namespace sx {
namespace {

std::size_t at_index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Walks over the parts of a flat buffer: for each member, one [B, tokens, heads, D] per tensor.
class PartWalk {
 public:
  PartWalk(const at::Tensor& flat, std::int64_t rows, std::int64_t d)
      : flat_(flat), rows_(rows), d_(d) {}
  at::Tensor next(std::int64_t tokens, std::int64_t heads) {
    const std::int64_t numel = rows_ * tokens * heads * d_;
    offset_ += numel;
    return flat_.narrow(0, offset_ - numel, numel).view({rows_, tokens, heads, d_});
  }

 private:
  const at::Tensor& flat_;
  std::int64_t rows_, d_, offset_ = 0;
};

std::int64_t heads_of(std::span<const HeadSplit> splits, std::int64_t member) {
  std::int64_t heads = 0;
  for (const HeadSplit& split : splits) heads += split[at_index(member)].second;
  return heads;
}

std::int64_t total(const std::vector<std::int64_t>& counts) {
  std::int64_t sum = 0;
  for (const std::int64_t n : counts) sum += n;
  return sum;
}

std::int64_t num_heads(const HeadSplit& split) {
  std::int64_t heads = 0;
  for (const auto& [first, count] : split) heads = std::max(heads, first + count);
  return heads;
}

bool is_disjoint(const HeadSplit& split) {
  std::int64_t end = 0;
  for (const auto& [first, count] : split) {
    if (count > 0 && first < end) return false;
    end = std::max(end, first + count);
  }
  return true;
}

}  // namespace

HeadShares::HeadShares(std::int64_t query_heads, std::int64_t key_heads, std::int64_t degree)
    : per_group(key_heads == 0 ? 1 : query_heads / key_heads) {
  SX_CHECK(key_heads >= 1 && query_heads % key_heads == 0, "{} query heads over {} key heads",
           query_heads, key_heads);
  for (std::int64_t r = 0; r < degree; ++r) {
    const std::int64_t begin = r * query_heads / degree, end = (r + 1) * query_heads / degree;
    query.emplace_back(begin, end - begin);
    const std::int64_t first = begin / per_group;
    key.emplace_back(first, begin == end ? 0 : (end - 1) / per_group + 1 - first);
  }
}

std::vector<HeadRun> HeadShares::runs(std::int64_t coord) const {
  const auto [begin, count] = query[at_index(coord)];
  const std::int64_t end = begin + count, first_key = key[at_index(coord)].first;
  std::vector<HeadRun> out;
  std::int64_t at = begin;
  while (at < end) {
    const bool whole_group = at % per_group == 0 && at + per_group <= end;
    const std::int64_t stop =
        whole_group ? end / per_group * per_group : std::min(end, (at / per_group + 1) * per_group);
    const std::int64_t keys = whole_group ? (stop - at) / per_group : 1;
    out.push_back({at - begin, stop - at, at / per_group - first_key, keys});
    at = stop;
  }
  return out;
}

ScatterRoute::ScatterRoute(std::shared_ptr<const CpPlan> plan_in, const CpPlan& joined,
                           std::int64_t first_in, Communicator& comm_in)
    : plan(std::move(plan_in)), comm(&comm_in), first(first_in) {
  SX_CHECK(joined.degree() * comm->degree() == plan->degree() && first % comm->degree() == 0,
           "groups of {} in a plan for {} ranks", comm->degree(), plan->degree());
  const std::int64_t group = first / comm->degree();
  num_tokens = joined.num_tokens(group);
  for (std::int64_t member = 0; member < comm->degree(); ++member) {
    places.push_back(indices_in(plan->tokens(first + member), joined.tokens(group)));
  }
}

std::vector<at::Tensor> scatter_heads(const ScatterRoute& route, std::span<const at::Tensor> xs,
                                      std::span<const HeadSplit> splits) {
  const std::int64_t me = route.comm->coord(), degree = route.comm->degree();
  const std::int64_t rows = xs[0].size(0), own_tokens = xs[0].size(1), d = xs[0].size(3);
  std::vector<std::int64_t> send_counts, recv_counts;
  for (std::int64_t j = 0; j < degree; ++j) {
    send_counts.push_back(rows * own_tokens * d * heads_of(splits, j));
    recv_counts.push_back(rows * d * heads_of(splits, me) *
                          static_cast<std::int64_t>(route.places[at_index(j)].size()));
  }
  std::vector<at::Tensor> out;
  for (const HeadSplit& split : splits) {
    out.push_back(
        at::empty({rows, route.num_tokens, split[at_index(me)].second, d}, xs[0].options()));
  }
  const MemoryScope scope(MemoryCategory::kCommBuffers);
  const at::Tensor sent = at::empty({total(send_counts)}, xs[0].options());
  const at::Tensor received = at::empty({total(recv_counts)}, xs[0].options());
  PartWalk to(sent, rows, d), from(received, rows, d);
  for (std::int64_t j = 0; j < degree; ++j) {
    for (std::size_t x = 0; x < xs.size(); ++x) {
      const auto [head, count] = splits[x][at_index(j)];
      to.next(own_tokens, count).copy_(xs[x].narrow(2, head, count));
    }
  }
  route.comm->start_all_to_all(received, sent, send_counts, recv_counts, {.unit = "heads"}).wait();
  for (const std::vector<std::int64_t>& places : route.places) {
    for (std::size_t x = 0; x < xs.size(); ++x) {
      put_tokens(
          out[x],
          from.next(static_cast<std::int64_t>(places.size()), splits[x][at_index(me)].second),
          places);
    }
  }
  return out;
}

std::vector<at::Tensor> gather_heads(const ScatterRoute& route, std::span<const at::Tensor> xs,
                                     std::span<const HeadSplit> splits, c10::ScalarType dtype) {
  const std::int64_t me = route.comm->coord(), degree = route.comm->degree();
  const std::int64_t rows = xs[0].size(0), d = xs[0].size(3);
  const auto own_tokens = static_cast<std::int64_t>(route.places[at_index(me)].size());
  const at::TensorOptions wire = xs[0].options().dtype(dtype);
  std::vector<std::int64_t> send_counts, recv_counts;
  for (std::int64_t j = 0; j < degree; ++j) {
    send_counts.push_back(rows * d * heads_of(splits, me) *
                          static_cast<std::int64_t>(route.places[at_index(j)].size()));
    recv_counts.push_back(rows * own_tokens * d * heads_of(splits, j));
  }
  at::Tensor sent, received;
  {
    const MemoryScope scope(MemoryCategory::kCommBuffers);
    sent = at::empty({total(send_counts)}, wire);
    received = at::empty({total(recv_counts)}, wire);
  }
  PartWalk to(sent, rows, d), from(received, rows, d);
  for (const std::vector<std::int64_t>& places : route.places) {
    for (const at::Tensor& x : xs) {
      take_tokens(to.next(static_cast<std::int64_t>(places.size()), x.size(2)), x, places);
    }
  }
  route.comm->start_all_to_all(received, sent, send_counts, recv_counts, {.unit = "heads"}).wait();
  std::vector<at::Tensor> out;
  for (const HeadSplit& split : splits) {
    const std::vector<std::int64_t> shape = {rows, own_tokens, num_heads(split), d};
    out.push_back(is_disjoint(split) ? at::empty(shape, wire)
                                     : at::zeros(shape, wire.dtype(merge_dtype(dtype))));
  }
  for (std::int64_t j = 0; j < degree; ++j) {
    for (std::size_t x = 0; x < xs.size(); ++x) {
      const auto [head, count] = splits[x][at_index(j)];
      const at::Tensor to_heads = out[x].narrow(2, head, count);
      const at::Tensor part = from.next(own_tokens, count);
      if (is_disjoint(splits[x])) {
        to_heads.copy_(part);
      } else {
        to_heads.add_(part);
      }
    }
  }
  for (at::Tensor& x : out) x = x.to(dtype);
  return out;
}

}  // namespace sx
