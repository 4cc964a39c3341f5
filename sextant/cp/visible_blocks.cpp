// Positions are those inside a document. A rectangle is queries [a, b) x keys [e, f).
#include "sextant/cp/visible_blocks.h"

#include <algorithm>

#include "sextant/base/check.h"

namespace sx {
namespace {

struct Rectangle {
  std::int64_t a = 0, b = 0, e = 0, f = 0;
};

/// Without the queries that see nothing and the keys that nobody sees; false when nothing is left.
bool trim(Rectangle& r, const AttentionMask& mask) {
  if (r.a >= r.b || r.e >= r.f) return false;
  r.a = std::max(r.a, r.e - mask.right);
  r.b = std::min(r.b, r.f + mask.left);
  if (r.a >= r.b) return false;
  r.e = std::max(r.e, r.a - mask.left);
  r.f = std::min(r.f, r.b + mask.right);
  return r.e < r.f;
}

class Cutter {
 public:
  Cutter(const SeqPiece& query, const SeqPiece& key, const AttentionMask& mask,
         std::vector<AttentionBlock>& out)
      : query_(query), key_(key), mask_(mask), out_(out) {}

  void cut(Rectangle r) {
    if (!trim(r, mask_)) return;
    const bool left_open = r.e >= r.b - 1 - mask_.left, right_open = r.f - 1 <= r.a + mask_.right;
    if (left_open && right_open) return emit(r, AttentionBlock::Kind::kFull);
    if (left_open && mask_.right == 0) return cut_causal(r);
    if (r.b - r.a <= kBandQueries) return cut_band(r);
    for (std::int64_t a = r.a; a < r.b; a += kBandQueries) {
      cut({a, std::min(a + kBandQueries, r.b), r.e, r.f});
    }
  }

 private:
  /// Keys before the first query are seen by all, the diagonal square is causal, and the queries
  /// behind the last key see it whole.
  void cut_causal(const Rectangle& r) {
    if (r.e < r.a) cut({r.a, r.b, r.e, std::min(r.a, r.f)});
    const std::int64_t e = std::max(r.e, r.a);
    if (e >= r.f) return;
    emit({e, r.f, e, r.f}, AttentionBlock::Kind::kCausal);
    cut({r.f, r.b, e, r.f});
  }

  /// Keys that all queries of the tile see stand between two edges that some see.
  void cut_band(const Rectangle& r) {
    const std::int64_t e = std::max(r.e, r.b - 1 - mask_.left),
                       f = std::min(r.f, r.a + mask_.right + 1);
    if (e >= f) return emit(r, AttentionBlock::Kind::kBand);
    Rectangle left{r.a, r.b, r.e, e}, right{r.a, r.b, f, r.f};
    if (trim(left, mask_)) emit(left, AttentionBlock::Kind::kBand);
    emit({r.a, r.b, e, f}, AttentionBlock::Kind::kFull);
    if (!trim(right, mask_)) return;
    if (mask_.right == 0 && right.e >= right.b - 1 - mask_.left) return cut_causal(right);
    emit(right, AttentionBlock::Kind::kBand);
  }

  void emit(const Rectangle& r, AttentionBlock::Kind kind) {
    out_.push_back({query_.index + r.a - query_.position, r.b - r.a,
                    key_.index + r.e - key_.position, r.f - r.e, kind, r.e - r.a});
  }

  const SeqPiece& query_;
  const SeqPiece& key_;
  const AttentionMask& mask_;
  std::vector<AttentionBlock>& out_;
};

Rectangle rectangle_of(const SeqPiece& query, const SeqPiece& key) {
  return {query.position, query.position + query.length, key.position, key.position + key.length};
}

/// Calls `visit` for each pair of pieces of one document until it returns true.
template <class Visit>
bool for_pairs(std::span<const SeqPiece> queries, std::span<const SeqPiece> keys,
               const Visit& visit) {
  std::size_t first = 0;
  for (const SeqPiece& query : queries) {
    while (first < keys.size() && keys[first].document < query.document) ++first;
    for (std::size_t i = first; i < keys.size() && keys[i].document == query.document; ++i) {
      if (visit(query, keys[i])) return true;
    }
  }
  return false;
}

}  // namespace

AttentionMask AttentionMask::window(std::int64_t size) {
  SX_CHECK(size >= 1, "a window of {} keys", size);
  return {size - 1, 0};
}

std::vector<AttentionBlock> visible_blocks(std::span<const SeqPiece> queries,
                                           std::span<const SeqPiece> keys,
                                           const AttentionMask& mask) {
  std::vector<AttentionBlock> blocks;
  for_pairs(queries, keys, [&](const SeqPiece& query, const SeqPiece& key) {
    Cutter(query, key, mask, blocks).cut(rectangle_of(query, key));
    return false;
  });
  return blocks;
}

bool any_visible(std::span<const SeqPiece> queries, std::span<const SeqPiece> keys,
                 const AttentionMask& mask) {
  return for_pairs(queries, keys, [&](const SeqPiece& query, const SeqPiece& key) {
    Rectangle r = rectangle_of(query, key);
    return trim(r, mask);
  });
}

std::int64_t count_pairs(std::span<const AttentionBlock> blocks, const AttentionMask& mask) {
  std::int64_t pairs = 0;
  for (const AttentionBlock& block : blocks) {
    const std::int64_t n = block.num_queries;
    switch (block.kind) {
      case AttentionBlock::Kind::kFull: pairs += n * block.num_keys; break;
      case AttentionBlock::Kind::kCausal: pairs += n * (n + 1) / 2; break;
      case AttentionBlock::Kind::kBand:
        for (std::int64_t i = 0; i < n; ++i) {
          const std::int64_t low = std::max<std::int64_t>(0, i - block.shift - mask.left),
                             high = std::min(block.num_keys, i - block.shift + mask.right + 1);
          pairs += std::max<std::int64_t>(0, high - low);
        }
        break;
    }
  }
  return pairs;
}

}  // namespace sx
