#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/trace/metrics.h"

namespace sx {

/// One scalar of an event file.
struct TensorBoardScalar {
  double wall_time = 0;  ///< Unix seconds
  std::int64_t step = 0;
  std::string tag;
  float value = 0;
  friend bool operator==(const TensorBoardScalar&, const TensorBoardScalar&) = default;
};

/// CRC of a TFRecord: crc32c rotated right by 15 plus a constant.
std::uint32_t masked_crc32c(std::string_view bytes);
/// length, crc, data, crc (docs/formats/tensorboard.md).
std::string tfrecord(std::string_view data);
/// The first record's message: file_version "brain.Event:2".
std::string tensorboard_version_event(double wall_time);
/// One message with all scalars of one step.
std::string tensorboard_event(double wall_time, std::int64_t step,
                              const std::vector<std::pair<std::string, float>>& values);

/// Writes events.out.tfevents.<unix seconds>.<host>.<pid>.<n>; a resumed run starts a new file, as
/// TensorBoard expects where steps repeat. Flushed every 100 records or 10 s, and at the end. Not
/// thread-safe.
class TensorBoardWriter {
 public:
  struct Options {
    double wall_time = 0;  ///< Unix seconds for the name and first record; 0 = now
    std::string host;      ///< empty = this host's name
    std::int64_t pid = 0;  ///< 0 = this process's
  };
  /// Makes the file in `folder`; n is the first free number. Errors: kIo.
  static Result<TensorBoardWriter> create(const fs::path& folder, const Options& options);
  TensorBoardWriter(TensorBoardWriter&&) noexcept;
  TensorBoardWriter& operator=(TensorBoardWriter&&) noexcept;
  ~TensorBoardWriter();

  /// Every number of the row that has a tag in the table; `comm` as comm/<axis>/<op>. wall_time 0 =
  /// now.
  Result<void> write(const MetricsRow& row, double wall_time = 0);
  Result<void> write(std::int64_t step, const std::vector<std::pair<std::string, float>>& values,
                     double wall_time = 0);
  Result<void> flush();
  const fs::path& path() const;

 private:
  struct State;
  explicit TensorBoardWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// All scalars of an event file, in order; a torn last record is left out. Errors: kNotFound, kIo,
/// kCorrupt (checksum or message, offset told).
Result<std::vector<TensorBoardScalar>> read_tensorboard(const fs::path& path);
Result<std::vector<TensorBoardScalar>> parse_tensorboard(std::string_view bytes);

}  // namespace sx
