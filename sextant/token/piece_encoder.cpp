#include "sextant/token/piece_encoder.h"

#include <algorithm>
#include <bit>

namespace sx {

TokenTable::TokenTable(const std::vector<std::pair<std::string_view, TokenId>>& tokens) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(tokens.size() * 2, 2));
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(size));
  slots_.resize(size);
  for (const auto& [bytes, id] : tokens) {
    if (bytes.size() > PieceKey::kMaxBytes) {
      long_tokens_.emplace(bytes, id);
      continue;
    }
    const PieceKey key = piece_key(bytes);
    std::size_t slot = key.hash() >> shift_;
    while (slots_[slot].id != kNone) slot = (slot + 1) & (size - 1);
    slots_[slot] = {key, id, 0};
  }
}

TokenId TokenTable::find_long(std::string_view piece) const {
  const auto at = long_tokens_.find(piece);
  return at == long_tokens_.end() ? kNone : at->second;
}

PieceEncoder::PieceEncoder(const ByteBpe& bpe, const SplitRule& rule, std::size_t cache_slots)
    : bpe_(bpe),
      splitter_(rule),
      cache_(cache_slots),
      long_cache_(cache_slots / 8),
      ends_(kBatch),
      hashed_(kBatch),
      slots_(kBatch) {}

Result<void> PieceEncoder::encode(std::string_view segment, std::vector<TokenId>& out) {
  SX_TRY_VOID(splitter_.start(segment));
  while (true) {
    const std::size_t base = splitter_.base();
    const std::size_t count = splitter_.next(ends_);
    if (count == 0) return {};
    encode_batch(segment.substr(base, ends_[count - 1]), segment.size() - base, count, out);
  }
}

// `bytes`: the pieces of ends_; `safe`: bytes that may be read from its start on.
void PieceEncoder::encode_batch(std::string_view bytes, std::size_t safe, std::size_t count,
                                std::vector<TokenId>& out) {
  const bool cached = !cache_.empty();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = ends_[i] - begin;
    if (size <= PieceKey::kMaxBytes) {
      Hashed& hashed = hashed_[i];
      hashed.key = safe - begin >= 16 ? piece_key_wide(bytes.data() + begin, size)
                                      : piece_key(bytes.substr(begin, size));
      hashed.hash = hashed.key.hash();
      if (cached) {
        cache_.prefetch(hashed.hash);
      } else {
        bpe_.whole.prefetch(hashed.hash);
      }
    }
    begin = ends_[i];
  }
  if (cached) {
    begin = 0;
    for (std::size_t i = 0; i < count; ++i) {
      slots_[i] = nullptr;
      if (ends_[i] - begin <= PieceKey::kMaxBytes) {
        slots_[i] = cache_.find(hashed_[i].key, hashed_[i].hash);
        if (slots_[i] == nullptr) bpe_.whole.prefetch(hashed_[i].hash);
      }
      begin = ends_[i];
    }
  }
  constexpr std::size_t kBuffer = 512;
  TokenId buffer[kBuffer + PieceKey::kMaxBytes];
  std::size_t held = 0;
  bool changed = false;  // the cache, since slots_ was filled
  begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = ends_[i] - begin;
    if (cached && size <= PieceKey::kMaxBytes) {
      const PieceCache::Slot* slot =
          changed ? cache_.find(hashed_[i].key, hashed_[i].hash) : slots_[i];
      if (slot != nullptr) {
        if (slot->count <= PieceCache::kInline) {
          std::copy_n(slot->ids, PieceCache::kInline, buffer + held);
        } else {
          const auto ids = cache_.ids(*slot);
          std::copy(ids.begin(), ids.end(), buffer + held);
        }
        held += slot->count;
        ++hits_;
        if (held >= kBuffer) {
          out.insert(out.end(), buffer, buffer + held);
          held = 0;
        }
        begin = ends_[i];
        continue;
      }
    }
    out.insert(out.end(), buffer, buffer + held);
    held = 0;
    if (size <= PieceKey::kMaxBytes) {
      encode_new_short(bytes.substr(begin, size), hashed_[i], out);
      changed = true;
    } else {
      encode_long(bytes.substr(begin, size), out);
    }
    begin = ends_[i];
  }
  out.insert(out.end(), buffer, buffer + held);
}

void PieceEncoder::encode_new_short(std::string_view piece, const Hashed& hashed,
                                    std::vector<TokenId>& out) {
  const std::size_t start = out.size();
  if (const TokenId whole = bpe_.whole.find_short(hashed.key, hashed.hash);
      whole != TokenTable::kNone) {
    out.push_back(whole);
  } else {
    bpe_.merger.merge(piece, scratch_, out);
  }
  if (cache_.empty()) return;
  ++misses_;
  cache_.put(hashed.key, hashed.hash, std::span<const TokenId>(out).subspan(start));
}

void PieceEncoder::encode_long(std::string_view piece, std::vector<TokenId>& out) {
  const std::uint64_t hash =
      piece.size() <= LongPieceCache::kMaxBytes && !long_cache_.empty() ? hash_bytes(piece) : 0;
  if (hash != 0) {
    if (const auto known = long_cache_.find(piece, hash); !known.empty()) {
      ++hits_;
      out.insert(out.end(), known.begin(), known.end());
      return;
    }
    ++misses_;
  }
  const std::size_t start = out.size();
  if (const TokenId whole = bpe_.whole.find_long(piece); whole != TokenTable::kNone) {
    out.push_back(whole);
  } else {
    bpe_.merger.merge(piece, scratch_, out);
  }
  if (hash != 0) long_cache_.put(piece, hash, std::span<const TokenId>(out).subspan(start));
}

void PieceEncoder::encode_piece(std::string_view piece, std::vector<TokenId>& out) {
  if (piece.empty()) return;
  if (const TokenId whole = bpe_.whole.find(piece); whole != TokenTable::kNone) {
    out.push_back(whole);
  } else {
    bpe_.merger.merge(piece, scratch_, out);
  }
}

}  // namespace sx
