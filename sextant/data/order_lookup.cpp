#include "sextant/data/order_lookup.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/data/megatron_dataset.h"

namespace sx {

std::string UnitKey::to_string() const { return fmt::format("{}:{}:{}", member, epoch, unit); }

Result<UnitKey> parse_unit_key(std::string_view text) {
  const Error bad{ErrorKind::kInvalid, "a key is MEMBER:EPOCH:UNIT, three whole numbers",
                  std::string(text)};
  std::uint64_t numbers[3] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    const auto [next, code] = std::from_chars(at, end, numbers[i]);
    if (code != std::errc() || (i < 2 ? next == end || *next != ':' : next != end)) return bad;
    at = next + 1;
  }
  if (numbers[0] > 0xfffffffe) return bad;
  return UnitKey{static_cast<std::uint32_t>(numbers[0]), numbers[1], numbers[2]};
}

Result<OrderLookup> OrderLookup::make(std::shared_ptr<const Dataset> dataset,
                                      const LoaderOptions& options) {
  LoaderOptions own = options;
  if (own.block_tokens == 0) own.block_tokens = own.seq_len;
  if (!own.pool) own.pool = HostPool::make();
  if (own.seq_len % own.block_tokens != 0) {
    return Error{ErrorKind::kInvalid, "the row length is no multiple of the block",
                 "training.seq_len"};
  }
  if (dataset->megatron()) {
    MegatronOrder order(dataset->megatron());
    return OrderLookup(std::move(dataset), std::move(own), std::move(order));
  }
  SX_TRY(NativeOrder order,
         NativeOrder::make(dataset,
                           {own.seed, static_cast<std::uint64_t>(own.block_tokens), own.shuffle}));
  return OrderLookup(std::move(dataset), std::move(own), std::move(order));
}

std::optional<std::uint64_t> OrderLookup::size() const {
  if (const auto* order = std::get_if<MegatronOrder>(&order_)) return order->size();
  return std::nullopt;
}

std::uint64_t OrderLookup::positions_per_step() const {
  const BatchMaker maker(dataset_, order_, options_, 0);
  return maker.rows_per_step() * maker.blocks_per_row();
}

Result<OrderLookup::Entry> OrderLookup::at(std::uint64_t position) const {
  LoaderOptions one = options_;  // a batch of the one row that begins here
  one.seq_len = one.block_tokens;
  one.micro_batch_size = one.micro_batches = one.data_world = 1;
  one.data_rank = 0;
  SX_CHECK(!size() || position < *size(), "position {} of {}", position, *size());
  SX_TRY(Batch batch, BatchMaker(dataset_, order_, one, position).make(0));
  const SampleKey& key = batch.keys[0];
  return Entry{
      {key.member, key.epoch, key.unit}, key, {batch.tokens().begin(), batch.tokens().end()}};
}

Result<std::vector<std::uint64_t>> OrderLookup::positions_of(const UnitKey& key) const {
  const auto refuse = [&](std::string message) {
    return Error{ErrorKind::kInvalid, std::move(message), key.to_string()};
  };
  if (key.member >= dataset_->members().size()) {
    return refuse(fmt::format("member {} of {}", key.member, dataset_->members().size()));
  }
  std::vector<std::uint64_t> found;
  if (const auto* order = std::get_if<MegatronOrder>(&order_)) {
    if (key.unit >= order->dataset().members()[key.member]->size() || key.epoch != 0) {
      return refuse(fmt::format("{} has samples 0 to {} of epoch 0",
                                dataset_->members()[key.member].path_id,
                                order->dataset().members()[key.member]->size() - 1));
    }
    for (std::uint64_t k = 0; k < order->size(); ++k) {
      const OrderBlock block = order->at(k);
      if (block.member == key.member && block.unit == key.unit) found.push_back(k);
    }
    return found;
  }
  const auto& order = std::get<NativeOrder>(order_);
  if (key.unit >= order.blocks_per_epoch(key.member)) {
    return refuse(fmt::format("{} has {} blocks an epoch", dataset_->members()[key.member].path_id,
                              order.blocks_per_epoch(key.member)));
  }
  if (const auto position = order.position_of(key.member, key.epoch, key.unit)) {
    found.push_back(*position);
  }
  return found;
}

Hash128 OrderLookup::hash_of_steps(std::uint64_t steps) const {
  const BatchMaker maker(dataset_, order_, options_, 0);
  Hash128 hash;
  for (std::uint64_t step = 0; step < steps; ++step) hash = maker.hash_step(hash, step);
  return hash;
}

}  // namespace sx
