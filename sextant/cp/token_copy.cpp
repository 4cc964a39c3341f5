#include "sextant/cp/token_copy.h"

namespace sx {
namespace {

/// Calls `copy(i, place, length)` for each run of neighbours.
template <class Copy>
void for_runs(std::span<const std::int64_t> places, const Copy& copy) {
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= places.size(); ++i) {
    if (i < places.size() && places[i] == places[i - 1] + 1) continue;
    copy(static_cast<std::int64_t>(begin), places[begin], static_cast<std::int64_t>(i - begin));
    begin = i;
  }
}

}  // namespace

void put_tokens(const at::Tensor& to, const at::Tensor& from,
                std::span<const std::int64_t> places) {
  for_runs(places, [&](std::int64_t i, std::int64_t place, std::int64_t length) {
    to.narrow(1, place, length).copy_(from.narrow(1, i, length));
  });
}

void take_tokens(const at::Tensor& to, const at::Tensor& from,
                 std::span<const std::int64_t> places) {
  for_runs(places, [&](std::int64_t i, std::int64_t place, std::int64_t length) {
    to.narrow(1, i, length).copy_(from.narrow(1, place, length));
  });
}

std::int64_t key_value_numel(const at::Tensor& k_BTGD, std::int64_t tokens) {
  return 2 * k_BTGD.size(0) * tokens * k_BTGD.size(2) * k_BTGD.size(3);
}

KeyValue key_value_views(const at::Tensor& flat, std::int64_t offset, const at::Tensor& like_BTGD,
                         std::int64_t tokens) {
  const std::int64_t half = key_value_numel(like_BTGD, tokens) / 2;
  const auto view = [&](std::int64_t begin) {
    return flat.narrow(0, begin, half)
        .view({like_BTGD.size(0), tokens, like_BTGD.size(2), like_BTGD.size(3)});
  };
  return {view(offset), view(offset + half)};
}

}  // namespace sx
