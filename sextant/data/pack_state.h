#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/data/indexed_writer.h"
#include "sextant/data/pack.h"

namespace sx {

/// Where an unfinished packing stands: saved atomically beside the output after the parts were
/// synced.
struct PackState {
  std::string fingerprint;  ///< of inputs, tokenizer and options
  std::uint64_t input_idx = 0;
  std::uint64_t records = 0;  ///< of that input, good and bad, dealt with
  bool all_read = false;      ///< every document is written; only finish() is left
  IndexedWriter::Position train;
  IndexedWriter::Position heldout;
  PackReport report;

  nlohmann::ordered_json to_json() const;
  /// Errors: kCorrupt.
  static Result<PackState> parse(std::string_view text);
  /// Nothing when the file is not there. Errors: kCorrupt, kIo.
  static Result<std::optional<PackState>> load(const fs::path& path);
};

/// Reads what PackReport::to_json wrote. Errors: kCorrupt.
Result<PackReport> parse_pack_report(const nlohmann::ordered_json& json);

/// Holds <prefix>.pack.lock while one packing writes to `prefix`; the file goes with the object.
class PackLock {
 public:
  /// Errors: kInvalid when another process holds it; kIo.
  static Result<PackLock> take(const std::string& prefix);
  PackLock(PackLock&& other) noexcept;
  PackLock& operator=(PackLock&&) = delete;
  ~PackLock();

 private:
  PackLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_ = -1;
};

}  // namespace sx
