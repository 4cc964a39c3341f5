#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

/// A stream of token ids with document borders: what the order cuts into blocks. Immutable; all
/// calls are thread-safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::uint64_t num_tokens() const = 0;
  virtual std::uint64_t num_documents() const = 0;
  /// First token of document k; k in [0, num_documents()], the last being num_tokens().
  /// Non-decreasing.
  virtual std::uint64_t document_start(std::uint64_t k) const = 0;
  /// Copies tokens [begin, begin + out.size()). Out of range is a contract error.
  /// Errors: kCorrupt for an id that does not fit int32, kIo.
  virtual Result<void> read(std::uint64_t begin, std::span<std::int32_t> out) const = 0;
  /// Text that tells whether two sources hold the same data (sizes and hashes); enters the plan
  /// hash.
  virtual std::string fingerprint() const = 0;

  /// The document that holds token `token` (of empty ones at the same place the last). O(log
  /// documents).
  std::uint64_t document_at(std::uint64_t token) const;
};

/// Documents [first, last) of `whole` as a source of their own.
std::shared_ptr<const TokenSource> make_document_range(std::shared_ptr<const TokenSource> whole,
                                                       std::uint64_t first, std::uint64_t last);

/// Tokens in memory; `document_starts` has one entry per document and begins with 0 (empty = one
/// document).
std::shared_ptr<const TokenSource> make_memory_source(std::vector<std::int32_t> tokens,
                                                      std::vector<std::uint64_t> document_starts);

/// Uniform random tokens in [0, vocab_size), documents of 1 to 1000 tokens: for tests of speed and
/// shape.
std::shared_ptr<const TokenSource> make_mock_source(std::uint64_t seed, std::uint64_t num_tokens,
                                                    std::int32_t vocab_size);

/// A part of `text` ("969,30,1"): numbers >= 0 with at most nine decimals, at least one positive, 1
/// to 3 of them (missing ones are 0). Errors: kInvalid.
Result<std::vector<std::uint64_t>> parse_split(std::string_view text);

/// Document ranges [first, last) of train, valid and test: the cut after part k lies at the
/// document border nearest to token round(T * sum(parts 0..k) / sum(parts)), the lower one when
/// both are as near. Contiguous, in order.
std::vector<std::pair<std::uint64_t, std::uint64_t>> cut_split(
    const TokenSource& source, const std::vector<std::uint64_t>& parts);

}  // namespace sx
