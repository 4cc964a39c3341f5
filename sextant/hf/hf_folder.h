#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/hf/hf_names.h"
#include "sextant/safetensors/safetensors.h"
#include "sextant/shape/hf_config.h"

namespace sx {

/// A folder with `config.json` and `model.safetensors`, or the shards that
/// `model.safetensors.index.json` lists, opened for reading our parameters. Files are mapped;
/// nothing is read ahead. Immutable and safe to read from several threads.
class HfFolder {
 public:
  /// Opens every file and compares names and shapes with what the model of config.json needs, its
  /// vocabulary padded to a multiple of `vocab_pad_to`.
  /// Errors:  kNotFound (a file or a shard that is not there), kCorrupt with the file (and the byte
  ///          inside a header), kInvalid listing all missing, unexpected and differently shaped
  ///          tensors, a tied head that differs from its embedding; kUnsupported: a field of
  ///          config.json, a dtype, pickled weights.
  static Result<HfFolder> open(const fs::path& folder, std::int64_t vocab_pad_to = 128);

  const fs::path& path() const { return path_; }
  const HfConfig& config() const { return config_; }
  const ModelShape& shape() const { return config_.shape; }
  /// Our parameters in checkpoint order.
  const std::vector<HfParam>& params() const { return params_; }
  /// Null when there is none of this name.
  const HfParam* find(const std::string& name) const;
  /// As stored: F64, F32, F16 or BF16.
  safetensors::Dtype dtype(const HfParam& param) const;

  /// The elements [begin, begin + count) of our parameter in row-major order, as stored; zeros for
  /// padded rows. `to` has room for them.
  void read(const HfParam& param, std::int64_t begin, std::int64_t count, std::byte* to) const;
  /// Lets the system take back the memory that reading `param` has mapped.
  void release(const HfParam& param) const;

  /// Generation and tokenizer files by name: what is carried along as it is. Errors: kIo, kLimit.
  Result<std::map<std::string, std::string>> companions() const;

 private:
  struct Place {
    std::size_t file = 0;
    const safetensors::Entry* entry = nullptr;
  };
  Result<void> open_files();
  Result<void> check_names();
  Result<void> check_tied_head(const std::string& head) const;
  const Place& place(const HfParam& param) const;

  fs::path path_;
  HfConfig config_;
  std::vector<HfParam> params_;
  std::vector<std::string> names_of_files_;
  /// Entries point into these; stable addresses.
  std::vector<std::unique_ptr<const safetensors::File>> files_;
  std::map<std::string, Place> tensors_;
};

/// Names of the files `HfFolder::companions` carries, those that exist.
std::vector<std::string> hf_companion_names();

/// How keys and commands name such a folder: "hf:DIR".
inline constexpr std::string_view kHfPathPrefix = "hf:";
/// Whether `path` is such a folder: config.json, and no checkpoint of ours.
bool is_hf_folder(const fs::path& path);

}  // namespace sx
