#include "sextant/data/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/data/permutation.h"

namespace sx {

Result<NativeOrder> NativeOrder::make(std::shared_ptr<const Dataset> dataset,
                                      const Options& options) {
  SX_CHECK(options.block_tokens > 0, "blocks of 0 tokens");
  const std::uint64_t block = options.block_tokens;
  std::vector<Member> members;
  std::vector<std::uint64_t> weights;
  for (const DatasetMember& member : dataset->members()) {
    const std::uint64_t tokens = member.source->num_tokens();
    if (member.weight > 0 && tokens < block + 1) {
      return Error{
          ErrorKind::kInvalid,
          fmt::format("{} has {} tokens, a block takes {} + 1", member.path_id, tokens, block),
          member.path_id};
    }
    const std::uint64_t blocks =
        tokens < 1 || tokens - 1 < 2 * block ? 1 : (tokens - 1) / block - 1;
    members.push_back({RandomStream(options.seed, "data.order:" + member.path_id),
                       RandomStream(options.seed, "data.phase:" + member.path_id), tokens, blocks});
    weights.push_back(member.weight);
  }
  return NativeOrder(options, std::move(members), NativeBlend(std::move(weights)));
}

OrderBlock NativeOrder::at(std::uint64_t position) const {
  const BlendItem item = blend_.at(position);
  const Member& member = members_[item.member];
  OrderBlock block;
  block.member = item.member;
  block.epoch = item.k / member.blocks;
  const std::uint64_t place = item.k % member.blocks;
  block.unit =
      options_.shuffle ? Permutation(member.order, block.epoch, member.blocks)(place) : place;
  const bool phased = member.tokens - 1 >= 2 * options_.block_tokens;
  const std::uint64_t phase = phased ? member.phase.u64(block.epoch) % options_.block_tokens : 0;
  block.first = phase + block.unit * options_.block_tokens;
  block.length = options_.block_tokens;
  return block;
}

std::optional<std::uint64_t> NativeOrder::position_of(std::uint32_t index, std::uint64_t epoch,
                                                      std::uint64_t unit) const {
  const Member& member = members_[index];
  const std::uint64_t place =
      options_.shuffle ? Permutation(member.order, epoch, member.blocks).inverse(unit) : unit;
  const std::uint64_t k = epoch * member.blocks + place;
  // The first position behind which more than k items of the member are past: doubled, then halved.
  std::uint64_t low = 0, high = 1;
  while (blend_.counts(high)[index] <= k) {
    low = high;
    high *= 2;
    if (high > std::uint64_t{1} << 61) return std::nullopt;
  }
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (blend_.counts(middle)[index] <= k ? low : high) = middle;
  }
  return low;
}

SequentialOrder::SequentialOrder(const Dataset& dataset, std::uint64_t block_tokens)
    : block_tokens_(block_tokens) {
  SX_CHECK(block_tokens > 0, "blocks of 0 tokens");
  for (const DatasetMember& member : dataset.members()) {
    const std::uint64_t tokens = member.source->num_tokens();
    const std::uint64_t targets = tokens > 0 ? tokens - 1 : 0;
    tokens_.push_back(tokens);
    starts_.push_back(starts_.back() + (targets + block_tokens - 1) / block_tokens);
    num_targets_ += targets;
  }
}

OrderBlock SequentialOrder::at(std::uint64_t position) const {
  SX_CHECK(position < size(), "position {} of {}", position, size());
  const auto member = static_cast<std::size_t>(
      std::upper_bound(starts_.begin(), starts_.end(), position) - starts_.begin() - 1);
  OrderBlock block;
  block.member = static_cast<std::uint32_t>(member);
  block.unit = position - starts_[member];
  block.first = block.unit * block_tokens_;
  block.length = std::min(block_tokens_, tokens_[member] - 1 - block.first);
  return block;
}

std::uint64_t MegatronOrder::size() const { return dataset_->size(); }

OrderBlock MegatronOrder::at(std::uint64_t position) const {
  const MegatronDataset::Place place = dataset_->at(position).value();
  const std::uint64_t row = dataset_->members()[place.member]->row_of(place.sample).value();
  return {.member = place.member, .unit = row, .length = dataset_->config().seq_len};
}

}  // namespace sx
