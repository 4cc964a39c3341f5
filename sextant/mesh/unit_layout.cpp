#include "sextant/mesh/unit_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/mesh/shard_spec.h"

namespace sx {
namespace {

constexpr std::int64_t kMegatronStart = 64;
constexpr std::int64_t kMegatronEnd = 128;
constexpr std::int64_t kBusElements = 65536;
constexpr std::int64_t kTorchFirstBucketBytes = std::int64_t{1} << 20;
constexpr std::int64_t kTorchBucketBytes = std::int64_t{25} << 20;
constexpr std::int64_t kFlatCompatBytes = 16;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Elements at which the n-th bucket (from 0) closes.
std::int64_t bucket_limit(const LayoutOptions& options, std::int64_t total, std::size_t n) {
  if (options.num_buckets > 0)
    return std::max<std::int64_t>(1, (total + options.num_buckets - 1) / options.num_buckets);
  if (options.bucket_elements > 0) return options.bucket_elements;
  if (options.compat == LayoutCompat::kTorch) {
    const std::int64_t bytes = n == 0 ? kTorchFirstBucketBytes : kTorchBucketBytes;
    return (bytes + options.item_bytes - 1) / options.item_bytes;
  }
  return std::max<std::int64_t>(40'000'000, 1'000'000 * options.degree);
}

}  // namespace

const char* to_string(LayoutKind kind) {
  switch (kind) {
    case LayoutKind::kBucket: return "bucket";
    case LayoutKind::kBucketPlain: return "bucket_plain";
    case LayoutKind::kFlat: return "flat";
    case LayoutKind::kPerParam: return "per_param";
    case LayoutKind::kBlock: return "block";
    case LayoutKind::kTensor: return "tensor";
  }
  return "?";
}

std::int64_t UnitParam::num_elements() const {
  std::int64_t product = 1;
  for (const std::int64_t rows : shape) product *= rows;
  return product;
}

UnitLayout::UnitLayout(std::vector<UnitParam> params, const LayoutOptions& options)
    : params_(std::move(params)), options_(options) {
  SX_CHECK(options.degree >= 1 && options.item_bytes >= 1 && options.align_bytes >= 1,
           "layout of degree {}, item {} bytes, alignment {}", options.degree, options.item_bytes,
           options.align_bytes);
  for (const UnitParam& param : params_) {
    for (const std::int64_t rows : param.shape)
      SX_CHECK(rows >= 0, "{} has a dim of {}", param.fqn, rows);
  }
  const bool own = options.compat == LayoutCompat::kSextant;
  align_ = own ? std::max<std::int64_t>(1, options.align_bytes / options.item_bytes) : 1;
  num_shards_ = options.kind == LayoutKind::kBucketPlain ? 1 : options.degree;
  bucket_of_.assign(params_.size(), 0);
  param_offset_.assign(params_.size(), 0);
  switch (options.kind) {
    case LayoutKind::kBucket:
    case LayoutKind::kBucketPlain: place_buckets(); break;
    case LayoutKind::kFlat: place_flat(); break;
    case LayoutKind::kPerParam: place_per_param(); break;
    case LayoutKind::kBlock: place_block(); break;
    case LayoutKind::kTensor: place_tensors(); break;
  }
  if (zero_copy()) {
    full_numel_ = buckets_.empty() ? 0 : buckets_.back().begin + buckets_.back().numel;
    shard_numel_ = full_numel_ / num_shards_;
    cut_regions();
  }
  measure_room();
}

void UnitLayout::place_buckets() {
  const bool plain = options_.kind == LayoutKind::kBucketPlain;
  const bool own = options_.compat == LayoutCompat::kSextant;
  const std::int64_t start = plain ? align_ : std::lcm(kMegatronStart, align_);
  std::int64_t end = plain ? align_ : std::lcm(num_shards_ * (own ? align_ : 1), kMegatronEnd);
  if (options_.pad_for_bus && !plain) end = std::lcm(end, kBusElements);

  std::int64_t at = 0;
  LayoutBucket bucket;
  const auto close = [&] {
    if (bucket.params.empty()) return;
    bucket.numel_unpadded = at - bucket.begin;
    bucket.numel = round_up(bucket.numel_unpadded, end);
    at = bucket.begin + bucket.numel;
    buckets_.push_back(std::move(bucket));
    bucket = LayoutBucket{.begin = at};
  };
  for (std::size_t i = params_.size(); i-- > 0;) {
    const bool alone = !plain && params_[i].own_bucket;
    if (alone) close();
    at = round_up(at, start);
    param_offset_[i] = at;
    bucket_of_[i] = buckets_.size();
    bucket.params.push_back(i);
    at += params_[i].num_elements();
    if (alone || at - bucket.begin >= bucket_limit(options_, num_elements(), buckets_.size()))
      close();
  }
  close();
}

void UnitLayout::one_region(std::vector<std::int64_t> starts, std::int64_t numel,
                            std::int64_t unpadded) {
  param_offset_ = std::move(starts);
  LayoutBucket region{.begin = 0, .numel = numel, .numel_unpadded = unpadded};
  region.params.resize(params_.size());
  std::iota(region.params.begin(), region.params.end(), std::size_t{0});
  if (!params_.empty()) buckets_.push_back(std::move(region));
}

void UnitLayout::place_flat() {
  const bool own = options_.compat == LayoutCompat::kSextant;
  const std::int64_t start =
      own ? align_ : std::max<std::int64_t>(1, kFlatCompatBytes / options_.item_bytes);
  std::vector<std::int64_t> starts;
  std::int64_t at = 0;
  for (const UnitParam& param : params_) {
    at = round_up(at, start);
    starts.push_back(at);
    at += param.num_elements();
  }
  one_region(std::move(starts), round_up(at, num_shards_ * align_), at);
}

void UnitLayout::place_per_param() {
  std::vector<std::int64_t> slots;
  for (const UnitParam& param : params_) {
    const auto dim = static_cast<std::size_t>(param.shard_dim);
    SX_CHECK(param.shard_dim >= 0 && (dim < param.shape.size() || param.shard_dim == 0),
             "{} has {} dims and is to be cut along dim {}", param.fqn, param.shape.size(),
             param.shard_dim);
    const std::int64_t rows = param.shape.empty() ? 1 : param.shape[dim];
    const std::int64_t first = chunk_range(rows, num_shards_, 0).size();
    const std::int64_t of_first = rows == 0 ? 0 : param.num_elements() / rows * first;
    slots.push_back(shard_numel_);
    shard_numel_ += round_up(of_first, align_);
  }
  std::int64_t at = 0;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    param_offset_[i] = at;
    at = round_up(at + params_[i].num_elements(), align_);
  }
  full_numel_ = at;
  one_region(param_offset_, shard_numel_ * num_shards_, shard_numel_ * num_shards_);

  segments_.resize(static_cast<std::size_t>(num_shards_));
  for (std::int64_t coord = 0; coord < num_shards_; ++coord) {
    for (std::size_t i = 0; i < params_.size(); ++i) {
      const UnitParam& param = params_[i];
      const auto dim = static_cast<std::size_t>(param.shard_dim);
      const std::int64_t rows = param.shape.empty() ? 1 : param.shape[dim];
      const RowRange own = chunk_range(rows, num_shards_, coord);
      std::int64_t inner = 1;
      for (std::size_t d = dim + 1; d < param.shape.size(); ++d) inner *= param.shape[d];
      const std::int64_t run = own.size() * inner;
      const std::int64_t outer = run == 0 ? 0 : param.num_elements() / (rows * inner);
      for (std::int64_t o = 0; o < outer; ++o) {
        const std::int64_t begin = (o * rows + own.begin) * inner;
        const std::int64_t offset = slots[i] + o * run;
        segments_[static_cast<std::size_t>(coord)].push_back(
            {i, begin, begin + run, offset, coord * shard_numel_ + offset});
      }
    }
  }
}

namespace {

/// The smallest start >= `from` (a multiple of `align`) at which no cut at a multiple of `shard`
/// falls inside a block of `block` elements of a parameter of `numel`; -1 when there is none.
/// `shard` is a multiple of `align`.
std::int64_t fit(std::int64_t from, std::int64_t numel, std::int64_t block, std::int64_t shard,
                 std::int64_t align) {
  std::int64_t start = from;
  for (int tries = 0; tries < 2; ++tries) {
    const std::int64_t cut = round_up(start + 1, shard);
    if (start + numel <= cut) return start;
    // As far to the left as possible with whole blocks up to the cut; a second cut needs shards of
    // whole blocks.
    const std::int64_t step = std::lcm(block, align);
    const std::int64_t shifted = cut - (cut - start) / step * step;
    const bool one_cut = shifted + numel <= cut + shard;
    if (shifted < cut && (one_cut || shard % block == 0)) return shifted;
    start = cut;
  }
  return -1;
}

}  // namespace

void UnitLayout::place_block() {
  const std::int64_t wanted = options_.block_elements > 0 ? options_.block_elements : align_;
  std::vector<std::int64_t> blocks;
  std::int64_t least = 0;
  for (const UnitParam& param : params_) {
    const std::int64_t row =
        std::max<std::int64_t>(1, param.shape.empty() ? 1 : param.shape.back());
    // Rows that are no whole number of blocks are kept whole.
    blocks.push_back(row % wanted == 0 ? wanted : row);
    least = round_up(least, align_) + param.num_elements();
  }
  const auto place = [&](std::int64_t shard, std::vector<std::int64_t>& starts) {
    std::int64_t at = 0;
    starts.clear();
    for (std::size_t i = 0; i < params_.size(); ++i) {
      const std::int64_t start =
          fit(round_up(at, align_), params_[i].num_elements(), blocks[i], shard, align_);
      if (start < 0) return std::int64_t{-1};
      starts.push_back(start);
      at = start + params_[i].num_elements();
    }
    return at;
  };
  // The smallest shard that works. A parameter cut more than once needs shards of whole blocks, so
  // steps of alignment are tried first, then of whole blocks; one shard for everything always
  // works.
  std::vector<std::int64_t> starts;
  const std::int64_t smallest = round_up((least + num_shards_ - 1) / num_shards_, align_);
  const auto works = [&](std::int64_t shard) {
    const std::int64_t end = place(shard, starts);
    if (end < 0 || end > shard * num_shards_) return false;
    one_region(starts, shard * num_shards_, end);
    return true;
  };
  constexpr int kSteps = 512;
  std::int64_t shard = std::max(smallest, align_);
  for (int i = 0; i < kSteps; ++i, shard += align_) {
    if (works(shard)) return;
  }
  std::int64_t step = std::lcm(align_, wanted);
  for (const std::int64_t block : blocks) {
    const std::int64_t next = std::lcm(step, block);
    if (next <= least) step = next;
  }
  shard = round_up(smallest, step);
  for (int i = 0; i < kSteps; ++i, shard += step) {
    if (works(shard)) return;
  }
  const bool whole = works(round_up(std::max<std::int64_t>(least, 1), align_));
  SX_CHECK(whole, "no cut of {} elements into {} shards of whole blocks", least, num_shards_);
}

void UnitLayout::place_tensors() {
  std::vector<std::size_t> by_size(params_.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [this](std::size_t a, std::size_t b) {
    return params_[a].num_elements() > params_[b].num_elements();
  });
  std::vector<std::int64_t> load(static_cast<std::size_t>(num_shards_), 0);
  std::vector<std::size_t> owner(params_.size());
  for (const std::size_t i : by_size) {
    const auto least = std::min_element(load.begin(), load.end());
    owner[i] = static_cast<std::size_t>(least - load.begin());
    *least += round_up(params_[i].num_elements(), align_);
  }
  const std::int64_t shard = load.empty() ? 0 : *std::max_element(load.begin(), load.end());
  std::vector<std::int64_t> filled(static_cast<std::size_t>(num_shards_), 0);
  std::vector<std::int64_t> starts;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    starts.push_back(static_cast<std::int64_t>(owner[i]) * shard + filled[owner[i]]);
    filled[owner[i]] += round_up(params_[i].num_elements(), align_);
    last = std::max(last, starts.back() + params_[i].num_elements());
  }
  one_region(std::move(starts), shard * num_shards_, last);
}

void UnitLayout::cut_regions() {
  segments_.resize(static_cast<std::size_t>(num_shards_));
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const LayoutBucket& bucket = buckets_[b];
    const std::int64_t shard = bucket_shard_numel(b);
    for (const std::size_t i : bucket.params) {
      const std::int64_t first = param_offset_[i] - bucket.begin;
      const std::int64_t last = first + params_[i].num_elements();
      for (std::int64_t at = first; at < last;) {
        const std::int64_t coord = at / shard;
        const std::int64_t end = std::min(last, (coord + 1) * shard);
        segments_[static_cast<std::size_t>(coord)].push_back(
            {i, at - first, end - first, bucket_shard_offset(b) + at - coord * shard,
             bucket.begin + at});
        at = end;
      }
    }
  }
  for (std::vector<Segment>& own : segments_) {
    std::sort(own.begin(), own.end(),
              [](const Segment& a, const Segment& b) { return a.shard_offset < b.shard_offset; });
  }
}

void UnitLayout::measure_room() {
  std::vector<std::size_t> order(params_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    // Empty parameters stand before the one that begins where they do.
    return std::pair(param_offset_[a], params_[a].num_elements()) <
           std::pair(param_offset_[b], params_[b].num_elements());
  });
  param_room_.assign(params_.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int64_t end = i + 1 < order.size() ? param_offset_[order[i + 1]] : full_numel_;
    param_room_[order[i]] = end - param_offset_[order[i]];
  }
}

std::int64_t UnitLayout::num_elements() const {
  std::int64_t total = 0;
  for (const UnitParam& param : params_) total += param.num_elements();
  return total;
}

const std::vector<Segment>& UnitLayout::segments(std::int64_t coord) const {
  SX_CHECK(coord >= 0 && coord < degree(), "coordinate {} of {}", coord, degree());
  static const std::vector<Segment> none;
  if (segments_.empty()) return none;
  return segments_[static_cast<std::size_t>(num_shards_ == 1 ? 0 : coord)];
}

std::vector<UnitLayout::Piece> UnitLayout::pieces(std::size_t param) const {
  std::vector<Piece> found;
  for (std::int64_t coord = 0; coord < num_shards_; ++coord) {
    for (const Segment& segment : segments(coord)) {
      if (segment.param == param) found.push_back({coord, segment});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Piece& a, const Piece& b) { return a.segment.begin < b.segment.begin; });
  return found;
}

std::string UnitLayout::to_string() const {
  std::string text =
      fmt::format("{} over {}: {} elements, shard {}, gathered {}\n", sx::to_string(options_.kind),
                  degree(), num_elements(), shard_numel(), gathered_numel());
  for (std::int64_t coord = 0; coord < num_shards_; ++coord) {
    for (const Segment& segment : segments(coord)) {
      text += fmt::format("{} {}[{}:{}] at {}\n", coord, params_[segment.param].fqn, segment.begin,
                          segment.end, segment.shard_offset);
    }
  }
  return text;
}

std::vector<std::pair<std::size_t, std::size_t>> split_by_cap(std::span<const UnitParam> params,
                                                              std::int64_t item_bytes,
                                                              std::int64_t cap_bytes) {
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  std::int64_t held = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::int64_t bytes = params[i].num_elements() * item_bytes;
    if (runs.empty() || held + bytes > cap_bytes) {
      runs.emplace_back(i, i);
      held = 0;
    }
    runs.back().second = i + 1;
    held += bytes;
  }
  return runs;
}

}  // namespace sx
