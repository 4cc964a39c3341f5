#include "sextant/token/piece_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sextant/token/byte_hash.h"

namespace sx {
namespace {

void make_key(std::string_view piece, std::uint64_t (&key)[2]) {
  key[0] = key[1] = 0;
  std::memcpy(key, piece.data(), piece.size());
  key[1] |= static_cast<std::uint64_t>(piece.size()) << 56;
}

}  // namespace

PieceCache::PieceCache(std::size_t slots) {
  if (slots == 0) return;
  slots_.resize(std::bit_ceil(std::max<std::size_t>(slots, 2)));
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(slots_.size()));
}

std::size_t PieceCache::slot_of(const std::uint64_t (&key)[2]) const {
  return mix64(key[0] ^ 0x9E3779B97F4A7C15u, key[1] ^ 0xD6E8FEB86659FD93u) >> shift_;
}

std::span<const TokenId> PieceCache::find(std::string_view piece) {
  if (slots_.empty() || piece.empty() || piece.size() > kMaxBytes) return {};
  std::uint64_t key[2];
  make_key(piece, key);
  const Slot& slot = slots_[slot_of(key)];
  if (slot.key[0] == key[0] && slot.key[1] == key[1]) {
    ++hits_;
    return {slot.ids, slot.count};
  }
  ++misses_;
  return {};
}

void PieceCache::put(std::string_view piece, std::span<const TokenId> ids) {
  if (slots_.empty() || piece.empty() || piece.size() > kMaxBytes || ids.empty() ||
      ids.size() > kMaxIds)
    return;
  std::uint64_t key[2];
  make_key(piece, key);
  Slot& slot = slots_[slot_of(key)];
  slot.key[0] = key[0];
  slot.key[1] = key[1];
  slot.count = static_cast<std::uint32_t>(ids.size());
  std::copy(ids.begin(), ids.end(), slot.ids);
}

}  // namespace sx
