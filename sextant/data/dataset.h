#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/data/token_source.h"

namespace sx {

class MegatronDataset;

enum class SplitPart { kTrain = 0, kValid = 1, kTest = 2, kAll = 3 };
const char* to_string(SplitPart part);

/// One leaf of a blend.
struct DatasetMember {
  std::string path_id;  ///< name of its random streams: the path as given, "#1", "#2" appended when
                        ///< it comes again
  std::shared_ptr<const TokenSource> source;
  std::uint64_t weight = 1;  ///< integer share of the order; 0 = not drawn
};

/// What is loaded: members and their weights. Immutable.
class Dataset {
 public:
  struct Options {
    /// Prefixes of `.bin/.idx` pairs (with or without the ending), text files (text_tokens.h),
    /// "demo" (built-in text) or "mock".
    std::vector<std::string> paths;
    /// One weight per path; empty = in proportion to tokens.
    std::vector<double> weights;
    std::string split = "969,30,1";
    SplitPart part = SplitPart::kTrain;  ///< kAll ignores `split`
    /// For "demo" and text files: text to ids without end-of-document mark; empty = bytes (id =
    /// byte).
    std::function<std::vector<std::int32_t>(std::string_view)> encode;
    std::int32_t eod_id = 256;  ///< appended to each document of these; < 0 = none
    std::uint64_t seed = 1;     ///< of "mock"
    std::int32_t mock_vocab_size = 256;
    std::uint64_t demo_bytes = 4u << 20;  ///< length of the built-in text
    std::uint64_t mock_tokens = 4u << 20;
    std::string tokenizer_fingerprint;  ///< enters the plan hash
  };
  /// Errors: kNotFound, kCorrupt, kIo of a file; kInvalid when a split part has no token (names
  /// part, prefix and split), for weights of another count, negative ones or all 0.
  static Result<std::shared_ptr<const Dataset>> open(const Options& options);
  /// From sources at hand (tests, embedded use).
  static std::shared_ptr<const Dataset> from_members(std::vector<DatasetMember> members);

  /// One split in Megatron-LM's order. Members are its prefixes, their sequences the documents.
  static std::shared_ptr<const Dataset> from_megatron(std::shared_ptr<const MegatronDataset> order,
                                                      const std::string& tokenizer_fingerprint);
  /// The order that Megatron-LM gives; null for the native one.
  const std::shared_ptr<const MegatronDataset>& megatron() const { return megatron_; }

  const std::vector<DatasetMember>& members() const { return members_; }
  std::uint64_t num_tokens() const;
  /// 32 hex digits of the canonical description.
  const std::string& plan_hash() const { return plan_hash_; }
  /// The description itself, one line per member, for messages about a changed plan.
  const std::vector<std::string>& description() const { return description_; }

 private:
  void describe(const std::string& tokenizer_fingerprint);
  std::vector<DatasetMember> members_;
  std::shared_ptr<const MegatronDataset> megatron_;
  std::vector<std::string> description_;
  std::string plan_hash_;
};

/// `path` as a whole source: a `.bin/.idx` pair, a text file, "demo" or "mock" (Options::paths).
/// Errors: as Dataset::open.
Result<std::shared_ptr<const TokenSource>> open_token_source(const std::string& path,
                                                             const Dataset::Options& options);
/// Whether `path` means something else than a `.bin/.idx` pair.
bool is_no_pair(const std::string& path);

/// Weights scaled to integers: taken as they are when all are whole and <= 2^31, else the largest
/// becomes 10^9. Errors: kInvalid for a negative or non-finite weight, or when all are 0.
Result<std::vector<std::uint64_t>> integer_weights(const std::vector<double>& weights);

}  // namespace sx
