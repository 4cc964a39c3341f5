#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

class Tokenizer;

/// Hash of a line that is longer than 40 characters (code points) without surrounding white space;
/// nothing for others.
std::optional<std::uint64_t> long_line_hash(std::string_view line);

/// Hashes of long lines: 8 bytes each.
class LineSet {
 public:
  /// Adds the long lines of `text`.
  void add_lines(std::string_view text);
  /// To be called after the last add and before `contains`.
  void seal();
  bool contains(std::uint64_t hash) const;
  std::size_t size() const { return hashes_.size(); }
  const std::vector<std::uint64_t>& hashes() const { return hashes_; }

 private:
  std::vector<std::uint64_t> hashes_;  ///< sorted after seal()
};

/// `text` without its lines that are in `lines`; the number and bytes (line ends included) taken
/// out are added.
std::string remove_lines(std::string_view text, const LineSet& lines, std::uint64_t& num_removed,
                         std::uint64_t& bytes_removed);

/// Long lines of the documents of `train_prefix` that also stand in documents of `heldout_prefix`,
/// counted on the decoded tokens of the finished pairs. A last token `eod_id` of a document is left
/// out. Errors: those of the readers; kInvalid for an id the tokenizer does not know.
Result<std::uint64_t> count_shared_lines(const std::string& train_prefix,
                                         const std::string& heldout_prefix,
                                         const Tokenizer& tokenizer, std::int32_t eod_id);

}  // namespace sx
