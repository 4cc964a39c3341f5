// Who writes what: computed by every rank from its own layout.
#include "sextant/ckpt/save_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sextant/base/check.h"

namespace sx {
namespace {

std::uint64_t group_of(std::span<const std::int64_t> ranks) {
  std::uint64_t hash = 0x9e3779b97f4a7c15;
  for (const std::int64_t rank : ranks)
    hash = (hash ^ static_cast<std::uint64_t>(rank + 1)) * 0x100000001b3;
  return hash;
}

std::int64_t bytes_of(const TensorPart& part) {
  return part.values.numel() * static_cast<std::int64_t>(part.values.element_size());
}

struct Line {
  std::int64_t copy = 0;
  std::vector<std::size_t> parts;
  std::int64_t bytes = 0;
};

std::vector<TensorPart> joined(const std::vector<NamedTensor>& whole,
                               const std::vector<TensorPart>& parts, const Communicator& world) {
  std::vector<TensorPart> out = parts;
  for (const NamedTensor& named : whole) {
    TensorPart part{named.name, named.tensor.sizes().vec(), {}, named.tensor.detach().contiguous()};
    part.region = Region::whole(part.shape);
    part.copy = world.coord();
    part.copies = world.degree();
    out.push_back(std::move(part));
  }
  return out;
}

}  // namespace

TensorPart part_on_mesh(std::string name, const ShardSpec& spec, const DeviceMesh& mesh,
                        std::int64_t rank, at::Tensor values,
                        std::span<const std::int64_t> holders) {
  SX_CHECK(!spec.has_partial(), "{}: a reduction is still due: {}", name, spec.to_string());
  const Box own = spec.local_box(mesh, rank);
  SX_CHECK(values.numel() == own.num_elements(), "{}: {} values for a box of {}", name,
           values.numel(), own.num_elements());
  std::vector<std::int64_t> all(holders.begin(), holders.end());
  if (all.empty()) {
    for (std::int64_t r = 0; r < mesh.world_size(); ++r) all.push_back(mesh.rank_offset() + r);
  }
  std::vector<std::int64_t> same;
  for (const std::int64_t other : all) {
    if (other == rank || spec.local_box(mesh, other) == own) same.push_back(other);
  }
  TensorPart part{std::move(name), spec.global_shape(), Region::box(own.offset, own.size),
                  values.detach().contiguous()};
  const auto place = std::find(same.begin(), same.end(), rank);
  SX_CHECK(place != same.end(), "{}: rank {} does not hold it", part.name, rank);
  part.copy = place - same.begin();
  part.copies = static_cast<std::int64_t>(same.size());
  part.copy_group = group_of(same);
  return part;
}

std::vector<PlannedWrite> plan_writes(std::span<const TensorPart> parts) {
  std::map<std::pair<std::uint64_t, std::int64_t>, Line> lines;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const TensorPart& part = parts[i];
    SX_CHECK(part.copy >= 0 && part.copy < part.copies, "{}: copy {} of {}", part.name, part.copy,
             part.copies);
    Line& line = lines[{part.copies == 1 ? 0 : part.copy_group, part.copies}];
    SX_CHECK(line.parts.empty() || line.copy == part.copy, "{}: copy {} among copies {}", part.name,
             part.copy, line.copy);
    line.copy = part.copy;
    line.parts.push_back(i);
    line.bytes += bytes_of(part);
  }
  std::vector<PlannedWrite> writes;
  for (const auto& [key, line] : lines) {
    const std::int64_t copies = key.second;
    // bytes * copy / copies without passing 63 bits.
    const auto bound = [&](std::int64_t copy) {
      return line.bytes / copies * copy + line.bytes % copies * copy / copies;
    };
    const std::int64_t low = bound(line.copy), high = bound(line.copy + 1);
    std::int64_t begin = 0;
    for (const std::size_t i : line.parts) {
      const std::int64_t bytes = bytes_of(parts[i]);
      const auto element = static_cast<std::int64_t>(parts[i].values.element_size());
      const auto place = [&](std::int64_t at) {
        return std::clamp(at - begin, std::int64_t{0}, bytes) / element;
      };
      // The last copy ends with the line, whatever was rounded off.
      const std::int64_t first = place(low), last = place(high);
      if (first < last) writes.push_back({i, first, last});
      begin += bytes;
    }
  }
  std::sort(writes.begin(), writes.end(),
            [](const PlannedWrite& a, const PlannedWrite& b) { return a.part < b.part; });
  return writes;
}

AllParts all_parts(const CheckpointContent& content, const Communicator& world) {
  return {joined(content.model, content.model_parts, world),
          joined(content.optim, content.optim_parts, world)};
}

}  // namespace sx
