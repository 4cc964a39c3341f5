#include "sextant/token/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr std::size_t kShortPiece = 64;
constexpr std::uint32_t kEnd = 0xffffffff;

constexpr std::uint64_t packed_pair(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(left) << 43 | static_cast<std::uint64_t>(right) << 22;
}
constexpr std::uint64_t kRankMask = (std::uint64_t{1} << 22) - 1;

std::size_t slot_of(std::uint64_t key, unsigned shift) {
  return (key * 0x9E3779B97F4A7C15u) >> shift;
}

}  // namespace

BpeMerger::BpeMerger(const Vocab& vocab) {
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    byte_ids_[b] = *vocab.find(std::string_view(&byte, 1));
  }
  std::vector<std::uint64_t> pairs;
  for (TokenId id = 0; id < vocab.num_ordinary(); ++id) {
    const std::string_view token = vocab.token(id);
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = vocab.find(token.substr(0, cut));
      if (!left) continue;
      const auto right = vocab.find(token.substr(cut));
      if (right) pairs.push_back(packed_pair(*left, *right) | id);
    }
  }
  build_slots(pairs);
  build_byte_pairs();
}

BpeMerger::BpeMerger(std::span<const TokenId> byte_ids, std::span<const BpeMerge> merges) {
  SX_CHECK(merges.size() <= kMaxMerges, "{} merges", merges.size());
  SX_CHECK(byte_ids.empty() || byte_ids.size() == 256, "{} byte ids", byte_ids.size());
  std::copy(byte_ids.begin(), byte_ids.end(), byte_ids_);
  std::vector<std::uint64_t> pairs;
  pairs.reserve(merges.size());
  results_.reserve(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const BpeMerge& merge = merges[rank];
    SX_CHECK((merge.left | merge.right) >> 21 == 0, "ids {} and {} of a merge", merge.left,
             merge.right);
    pairs.push_back(packed_pair(merge.left, merge.right) | rank);
    results_.push_back(merge.result);
  }
  if (results_.empty()) results_.push_back(0);  // not a rank vocabulary, even without merges
  build_slots(pairs);
  if (!byte_ids.empty()) build_byte_pairs();
}

void BpeMerger::build_slots(std::span<const std::uint64_t> pairs) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(pairs.size() * 2, 2));
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(size));
  slots_.assign(size, kFree);
  for (const std::uint64_t pair : pairs) {
    std::size_t slot = slot_of(pair & ~kRankMask, shift_);
    while (slots_[slot] != kFree && ((slots_[slot] ^ pair) & ~kRankMask) != 0)
      slot = (slot + 1) & (size - 1);
    if (slots_[slot] == kFree) ++num_pairs_;
    slots_[slot] = pair;
  }
}

void BpeMerger::build_byte_pairs() {
  byte_pairs_.resize(std::size_t{256} * 256);
  for (std::size_t i = 0; i < byte_pairs_.size(); ++i)
    byte_pairs_[i] = pair_rank(byte_ids_[i >> 8], byte_ids_[i & 255]);
}

std::uint32_t BpeMerger::pair_rank(TokenId left, TokenId right) const {
  const std::uint64_t key = packed_pair(left, right);
  for (std::size_t slot = slot_of(key, shift_); slots_[slot] != kFree;
       slot = (slot + 1) & (slots_.size() - 1)) {
    if ((slots_[slot] & ~kRankMask) == key)
      return static_cast<std::uint32_t>(slots_[slot] & kRankMask);
  }
  return kNoRank;
}

void BpeMerger::merge(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(piece[i]); };
  if (piece.size() < kShortPiece) {
    TokenId ids[kShortPiece];
    std::uint32_t ranks[kShortPiece];  // ranks[i] of (ids[i], ids[i + 1])
    for (std::size_t i = 0; i < piece.size(); ++i) ids[i] = byte_ids_[byte_at(i)];
    for (std::size_t i = 0; i + 1 < piece.size(); ++i)
      ranks[i] = byte_pairs_[std::size_t{byte_at(i)} << 8 | byte_at(i + 1)];
    merge_short(ids, ranks, piece.size(), out);
    return;
  }
  scratch.ids.resize(piece.size());
  for (std::size_t i = 0; i < piece.size(); ++i) scratch.ids[i] = byte_ids_[byte_at(i)];
  merge_long(scratch.ids, scratch, out);
}

void BpeMerger::merge_ids(std::span<TokenId> ids, Scratch& scratch,
                          std::vector<TokenId>& out) const {
  if (ids.size() >= kShortPiece) {
    merge_long(ids, scratch, out);
    return;
  }
  std::uint32_t ranks[kShortPiece];
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) ranks[i] = pair_rank(ids[i], ids[i + 1]);
  merge_short(ids.data(), ranks, ids.size(), out);
}

void BpeMerger::merge_short(TokenId* ids, std::uint32_t* ranks, std::size_t count,
                            std::vector<TokenId>& out) const {
  while (count > 1) {
    const auto best = static_cast<std::size_t>(std::min_element(ranks, ranks + count - 1) - ranks);
    if (ranks[best] == kNoRank) break;
    ids[best] = result_of(ranks[best]);
    std::memmove(ids + best + 1, ids + best + 2, (count - best - 2) * sizeof(TokenId));
    std::memmove(ranks + best, ranks + best + 1, (count - best - 2) * sizeof(std::uint32_t));
    --count;
    if (best + 1 < count) ranks[best] = pair_rank(ids[best], ids[best + 1]);
    if (best > 0) ranks[best - 1] = pair_rank(ids[best - 1], ids[best]);
  }
  out.insert(out.end(), ids, ids + count);
}

void BpeMerger::merge_long(std::span<const TokenId> ids, Scratch& scratch,
                           std::vector<TokenId>& out) const {
  SX_CHECK(ids.size() < kEnd, "a piece of {} parts", ids.size());
  const auto size = static_cast<std::uint32_t>(ids.size());
  std::vector<Part>& parts = scratch.parts;
  std::vector<HeapEntry>& heap = scratch.heap;
  parts.resize(size);
  heap.clear();
  for (std::uint32_t i = 0; i < size; ++i)
    parts[i] = {ids[i], kNoRank, i == 0 ? kEnd : i - 1, i + 1 == size ? kEnd : i + 1};
  for (std::uint32_t i = 0; i + 1 < size; ++i) {
    parts[i].rank = pair_rank(parts[i].id, parts[i + 1].id);
    if (parts[i].rank != kNoRank) heap.push_back({parts[i].rank, i});
  }
  std::make_heap(heap.begin(), heap.end());

  const auto renew = [&](std::uint32_t pos) {
    Part& part = parts[pos];
    part.rank = part.next == kEnd ? kNoRank : pair_rank(part.id, parts[part.next].id);
    if (part.rank == kNoRank) return;
    heap.push_back({part.rank, pos});
    std::push_heap(heap.begin(), heap.end());
  };
  while (!heap.empty()) {
    const HeapEntry top = heap.front();
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
    Part& part = parts[top.pos];
    if (part.rank != top.rank) continue;  // changed or gone since it was pushed
    Part& gone = parts[part.next];
    part.id = result_of(top.rank);
    part.next = gone.next;
    gone.rank = kNoRank;
    if (part.next != kEnd) parts[part.next].prev = top.pos;
    renew(top.pos);
    if (part.prev != kEnd) renew(part.prev);
  }
  if (size == 0) return;
  for (std::uint32_t i = 0; i != kEnd; i = parts[i].next) out.push_back(parts[i].id);
}

}  // namespace sx
