#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/result.h"
#include "sextant/data/npy.h"

namespace sx {

/// One entry of a folder of index arrays as Megatron-LM keeps them: files
/// `<md5>-<class>-<split>-<name>.npy` and `...-description.txt`, the md5 being that of the
/// description (docs/formats/index_cache.md). Beside them `...-sextant.json`, which says from which
/// files the arrays were made and what they hash to.
class IndexCache {
 public:
  struct Key {
    std::filesystem::path folder;
    std::string class_name;           ///< "GPTDataset", "BlendedDataset"
    std::string split;                ///< "train", "valid", "test"
    nlohmann::ordered_json identity;  ///< what the description says
    std::vector<std::string> names;   ///< of the arrays: "document_index" ...
  };
  explicit IndexCache(Key key);

  /// "<md5>-GPTDataset-train".
  const std::string& base() const { return base_; }
  /// Content of description.txt.
  const std::string& description() const { return description_; }

  struct Entry {
    std::string base;
    std::vector<NpyArray> arrays;  ///< in the order of the key's names
    /// What `...-sextant.json` says; nothing for a cache that another program made.
    std::optional<nlohmann::ordered_json> origin;
  };
  /// Nothing when there is no complete entry. When none has this name, one whose description
  /// differs only in the tokenizer counts (the arrays do not depend on it). Errors: kCorrupt for an
  /// array that does not open, or does not hash to what its origin says; kIo.
  Result<std::optional<Entry>> load() const;

  /// Writes arrays, origin, and the description last, each atomically. Errors: kIo.
  Result<void> store(const std::vector<NpyArray>& arrays, nlohmann::ordered_json origin) const;

  /// An entry that `accept` takes, else the arrays of `build`, which are stored. One process or
  /// thread builds an entry at a time; others wait and read what it made. An entry that is cut,
  /// damaged or refused is logged with the reason (`data.cache_refused`) and made anew; a folder
  /// that cannot be written is logged (`data.cache_unwritten`) and the arrays stay in memory.
  Result<std::vector<NpyArray>> load_or_build(
      const std::function<Result<void>(const Entry&)>& accept,
      const std::function<Result<std::vector<NpyArray>>()>& build,
      const nlohmann::ordered_json& origin) const;

 private:
  std::filesystem::path file(const std::string& base, const std::string& ending) const;
  std::optional<std::string> find_base() const;
  Result<std::optional<Entry>> load_entry(const std::string& base) const;
  Key key_;
  std::string description_;
  std::string base_;
};

}  // namespace sx
