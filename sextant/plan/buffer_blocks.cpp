#include "sextant/plan/buffer_blocks.h"

#include <algorithm>
#include <vector>

namespace sx {
namespace {

constexpr std::int64_t kBlockBytes = 128;

std::int64_t block(std::int64_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

/// Elements of each parameter that the first rank's optimizer updates.
std::vector<std::int64_t> own_parts(const DpBuffer& buffer) {
  std::vector<std::int64_t> part;
  if (optimizer_sharded(buffer.choice)) {
    part.assign(buffer.layout.params().size(), 0);
    for (const Segment& segment : buffer.layout.segments(0)) part[segment.param] += segment.size();
  } else {
    for (const UnitParam& param : buffer.layout.params()) part.push_back(param.num_elements());
  }
  return part;
}

}  // namespace

BufferBlocks blocks_of(const DpBuffer& buffer) {
  const DpChoice& choice = buffer.choice;
  const ItemBytes& item = choice.bytes;
  const UnitLayout& layout = buffer.layout;
  const bool sharded = params_sharded(choice), cut = optimizer_sharded(choice);
  const std::int64_t all = layout.gathered_numel();
  const bool copies = !layout.zero_copy();
  const std::int64_t full = copies ? layout.full_numel() : all;
  const std::int64_t shards = choice.num_shards, replicas = choice.num_replicas;
  const std::int64_t chunk = buffer.chunk();
  const bool own_alignment = choice.compat == LayoutCompat::kSextant;
  const bool over_replicas = choice.optimizer_over_replicas && cut;

  const std::int64_t main_align = std::max<std::int64_t>(1, kBlockBytes / item.main);
  const auto padded = [&](std::int64_t n) {
    return (n + main_align - 1) / main_align * main_align;
  };

  BufferBlocks b;
  if (!sharded) b.params = block(full * item.param);
  const bool aliased = item.param == item.main && own_alignment && !sharded && !copies;
  if (!aliased) {
    std::int64_t numel = buffer.own();
    if (!own_alignment) {
      numel = 0;
      for (const UnitParam& param : layout.params()) numel += padded(param.num_elements());
    }
    b.master = block(numel * item.main);
  }
  if (sharded && over_replicas) b.params = block(chunk * item.param);

  const std::vector<std::int64_t> parts = own_parts(buffer);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    b.moments += padded(parts[i]) * item.moments;
    if (parts[i] == padded(parts[i])) continue;
    std::int64_t& copied = layout.params()[i].shape.size() > 1 ? b.decayed_copies : b.plain_copies;
    copied += padded(parts[i]) * item.main;
  }

  const bool local = !sharded && sums_locally(choice);
  if (local) b.local_grads = block(full * item.main);
  if (!local || copies) b.grad_shard = block((cut ? chunk : all) * item.main);

  if (sharded) {
    b.gathered = block(all * item.param);
    if (copies) b.full = block(full * item.param);
    if (choice.release == Release::kKeepShard && choice.keep_ways > 1) {
      b.kept = block(full / choice.keep_ways * item.param);
      b.whole = block(full * item.param);
    }
  }
  if (!sharded && cut && copies) b.published = block(all * item.param);
  if (!local) b.grads = block(full * item.main);
  if (copies || item.reduce != item.main) b.grad_wire = block(all * item.reduce);
  const bool flat = choice.flat_order && replicas > 1;
  if (flat && cut && shards > 1) {
    b.sent = block(replicas * all * item.reduce);
    b.received = block(replicas * shards * chunk * item.reduce);
  } else if (choice.a2a_wire && shards > 1 && cut && item.reduce == 2) {
    b.received = block(shards * chunk * item.reduce);
  }
  if (b.received > 0 && item.reduce == 2) b.fold = chunk * 4;
  if (replicas > 1 && !flat && item.reduce != item.main) b.replicate = block(chunk * item.reduce);
  return b;
}

}  // namespace sx
