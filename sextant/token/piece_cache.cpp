#include "sextant/token/piece_cache.h"

namespace sx {

LongPieceCache::LongPieceCache(std::size_t slots) {
  if (slots == 0) return;
  slots_.resize(std::bit_ceil(slots));
  store_limit_ = slots_.size() * 16;
}

std::span<const TokenId> LongPieceCache::find(std::string_view piece, std::uint64_t hash) const {
  if (slots_.empty()) return {};
  const Slot& slot = slots_[hash & (slots_.size() - 1)];
  if (slot.size != piece.size() || slot.check != static_cast<std::uint32_t>(hash >> 32)) return {};
  const TokenId* at = store_.data() + slot.at;
  if (std::memcmp(at, piece.data(), piece.size()) != 0) return {};
  return {at + (piece.size() + 3) / 4, slot.count};
}

void LongPieceCache::put(std::string_view piece, std::uint64_t hash, std::span<const TokenId> ids) {
  if (slots_.empty() || piece.empty() || piece.size() > kMaxBytes) return;
  const std::size_t head = (piece.size() + 3) / 4;
  if (head + ids.size() > store_limit_) return;
  if (store_.size() + head + ids.size() > store_limit_) {
    store_.clear();
    std::fill(slots_.begin(), slots_.end(), Slot{});
  }
  Slot& slot = slots_[hash & (slots_.size() - 1)];
  slot = {static_cast<std::uint32_t>(hash >> 32), static_cast<std::uint32_t>(store_.size()),
          static_cast<std::uint16_t>(piece.size()), static_cast<std::uint16_t>(ids.size())};
  store_.resize(store_.size() + head);
  std::memcpy(store_.data() + slot.at, piece.data(), piece.size());
  store_.insert(store_.end(), ids.begin(), ids.end());
}

}  // namespace sx
