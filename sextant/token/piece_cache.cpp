#include "sextant/token/piece_cache.h"

namespace sx {

PieceCache::PieceCache(std::size_t max_slots) {
  if (max_slots == 0) return;
  max_lines_ = std::bit_ceil(std::max<std::size_t>(max_slots, 2)) / 2;
  resize(std::min(max_lines_, kFirstSlots / 2));
}

void PieceCache::resize(std::size_t lines) {
  std::vector<Line> old = std::move(lines_);
  lines_ = std::vector<Line>(lines);
  mask_ = lines - 1;
  used_ = 0;
  for (const Line& line : old) {
    // The older first, so that the newer keeps its place in front.
    for (const Slot* slot : {&line.slots[1], &line.slots[0]}) {
      if (slot->count != 0) place(*slot, slot->key.hash());
    }
  }
}

void PieceCache::place(const Slot& slot, std::uint64_t hash) {
  Line& line = lines_[hash & mask_];
  if (line.slots[1].count == 0) ++used_;
  line.slots[1] = line.slots[0];
  line.slots[0] = slot;
}

void PieceCache::put(const PieceKey& key, std::uint64_t hash, std::span<const TokenId> ids) {
  if (used_ > lines_.size() && lines_.size() < max_lines_) resize(lines_.size() * 2);
  Slot slot;
  slot.key = key;
  slot.count = static_cast<std::uint32_t>(ids.size());
  if (ids.size() <= kInline) {
    std::copy(ids.begin(), ids.end(), slot.ids);
  } else {
    if (store_.size() + ids.size() > lines_.size() * 4 + PieceKey::kMaxBytes) {
      // Slots that were overwritten have left ids behind: begin anew.
      store_.clear();
      std::fill(lines_.begin(), lines_.end(), Line{});
      used_ = 0;
    }
    slot.ids[0] = static_cast<TokenId>(store_.size());
    store_.insert(store_.end(), ids.begin(), ids.end());
  }
  place(slot, hash);
}

LongPieceCache::LongPieceCache(std::size_t slots) {
  if (slots == 0) return;
  max_slots_ = std::bit_ceil(slots);
  slots_.resize(std::min<std::size_t>(max_slots_, 2048));
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
    if (slots_.size() < max_slots_) {
      slots_.resize(slots_.size() * 2);
      store_limit_ = slots_.size() * 16;
    }
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
