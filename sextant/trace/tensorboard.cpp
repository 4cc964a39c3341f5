#include "sextant/trace/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <utility>

#include "sextant/base/hash.h"
#include "sextant/trace/json_text.h"

namespace sx {
namespace {

constexpr std::size_t kRecordsPerFlush = 100;
constexpr double kSecondsPerFlush = 10;
constexpr std::size_t kMaxRecordBytes = std::size_t{1} << 26;
// Protocol buffer wire types.
constexpr unsigned kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <class Int>
void put_little_endian(std::string& out, Int value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    out += static_cast<char>((value >> (8 * i)) & 0xff);
}

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void put_key(std::string& out, unsigned field, unsigned wire) {
  put_varint(out, field << 3 | wire);
}

void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
  put_key(out, field, kLengthDelimited);
  put_varint(out, bytes.size());
  out += bytes;
}

void put_double(std::string& out, unsigned field, double value) {
  put_key(out, field, kFixed64);
  put_little_endian(out, std::bit_cast<std::uint64_t>(value));
}

void put_float(std::string& out, unsigned field, float value) {
  put_key(out, field, kFixed32);
  put_little_endian(out, std::bit_cast<std::uint32_t>(value));
}

/// Reads a protocol buffer message field by field.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  struct Field {
    unsigned number = 0;
    unsigned wire = 0;
    std::uint64_t value = 0;  ///< varint, fixed64 or fixed32
    std::string_view bytes;   ///< length-delimited
  };
  bool done() const { return rest_.empty(); }
  /// False when the bytes break the format.
  bool next(Field& field) {
    std::uint64_t key = 0;
    if (!varint(key) || key >> 3 == 0 || key >> 3 > 0x1fffffff) return false;
    field = Field{static_cast<unsigned>(key >> 3), static_cast<unsigned>(key & 7), 0, {}};
    switch (field.wire) {
      case kVarint: return varint(field.value);
      case kFixed64: return fixed(8, field.value);
      case kFixed32: return fixed(4, field.value);
      case kLengthDelimited: {
        std::uint64_t size = 0;
        if (!varint(size) || size > rest_.size()) return false;
        field.bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return true;
      }
      default: return false;
    }
  }

 private:
  bool varint(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return false;
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool fixed(std::size_t size, std::uint64_t& value) {
    if (rest_.size() < size) return false;
    value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
    }
    rest_.remove_prefix(size);
    return true;
  }
  std::string_view rest_;
};

bool read_value(std::string_view message, TensorBoardScalar& scalar, bool& has_value) {
  WireReader reader(message);
  WireReader::Field field;
  has_value = false;
  while (!reader.done()) {
    if (!reader.next(field)) return false;
    if (field.number == 1 && field.wire == kLengthDelimited) scalar.tag = field.bytes;
    if (field.number == 2 && field.wire == kFixed32) {
      scalar.value = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
      has_value = true;
    }
  }
  return true;
}

bool read_event(std::string_view message, std::vector<TensorBoardScalar>& out) {
  WireReader reader(message);
  WireReader::Field field;
  TensorBoardScalar scalar;
  std::string_view summary;
  while (!reader.done()) {
    if (!reader.next(field)) return false;
    if (field.number == 1 && field.wire == kFixed64)
      scalar.wall_time = std::bit_cast<double>(field.value);
    if (field.number == 2 && field.wire == kVarint)
      scalar.step = static_cast<std::int64_t>(field.value);
    if (field.number == 5 && field.wire == kLengthDelimited) summary = field.bytes;
  }
  WireReader values(summary);
  while (!values.done()) {
    if (!values.next(field)) return false;
    if (field.number != 1 || field.wire != kLengthDelimited) continue;
    bool has_value = false;
    if (!read_value(field.bytes, scalar, has_value)) return false;
    if (has_value) out.push_back(scalar);
  }
  return true;
}

template <class Int>
Int get_little_endian(std::string_view bytes) {
  Int value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value |= static_cast<Int>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

std::string tfrecord(std::string_view data) {
  std::string out;
  put_little_endian(out, static_cast<std::uint64_t>(data.size()));
  put_little_endian(out, masked_crc32c(out));
  out += data;
  put_little_endian(out, masked_crc32c(data));
  return out;
}

std::string tensorboard_version_event(double wall_time) {
  std::string event;
  put_double(event, 1, wall_time);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string tensorboard_event(double wall_time, std::int64_t step,
                              const std::vector<std::pair<std::string, float>>& values) {
  std::string summary;
  for (const auto& [tag, number] : values) {
    std::string value;
    put_bytes(value, 1, tag);
    put_float(value, 2, number);
    put_bytes(summary, 1, value);
  }
  std::string event;
  put_double(event, 1, wall_time);
  put_key(event, 2, kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
  put_bytes(event, 5, summary);
  return event;
}

struct TensorBoardWriter::State {
  fs::path path;
  std::FILE* file = nullptr;
  std::size_t pending = 0;
  std::chrono::steady_clock::time_point flushed = std::chrono::steady_clock::now();

  ~State() {
    if (file) std::fclose(file);
  }
  Result<void> put(std::string_view record) {
    if (std::fwrite(record.data(), 1, record.size(), file) != record.size()) {
      return Error{ErrorKind::kIo, std::string("cannot write: ") + std::strerror(errno),
                   path.string()};
    }
    ++pending;
    return {};
  }
};

TensorBoardWriter::TensorBoardWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TensorBoardWriter::TensorBoardWriter(TensorBoardWriter&&) noexcept = default;
TensorBoardWriter& TensorBoardWriter::operator=(TensorBoardWriter&&) noexcept = default;
TensorBoardWriter::~TensorBoardWriter() = default;

Result<TensorBoardWriter> TensorBoardWriter::create(const fs::path& folder,
                                                    const Options& options) {
  SX_TRY_VOID(make_dirs(folder));
  const double wall_time = options.wall_time != 0 ? options.wall_time : now_seconds();
  std::string host = options.host;
  if (host.empty()) {
    char name[256] = {};
    host = ::gethostname(name, sizeof name - 1) == 0 && name[0] ? name : "localhost";
  }
  const std::int64_t pid = options.pid != 0 ? options.pid : static_cast<std::int64_t>(::getpid());
  auto state = std::make_unique<State>();
  for (int n = 0; !state->file; ++n) {
    state->path = folder / fmt::format("events.out.tfevents.{}.{}.{}.{}",
                                       static_cast<std::int64_t>(wall_time), host, pid, n);
    state->file = std::fopen(state->path.c_str(), "wbx");
    if (!state->file && errno != EEXIST) {
      return Error{ErrorKind::kIo, std::string("cannot make: ") + std::strerror(errno),
                   state->path.string()};
    }
  }
  SX_TRY_VOID(state->put(tfrecord(tensorboard_version_event(wall_time))));
  TensorBoardWriter writer(std::move(state));
  SX_TRY_VOID(writer.flush());
  return writer;
}

Result<void> TensorBoardWriter::write(const MetricsRow& row, double wall_time) {
  std::vector<std::pair<std::string, float>> values;
  for (const MetricKey& key : metric_keys()) {
    if (key.tensorboard.empty() || !row.has(key.name)) continue;
    const std::string tag(key.tensorboard);
    if (const auto number = row.get(key.name)) {
      const bool gib = tag.ends_with("_gib");
      values.emplace_back(tag, static_cast<float>(gib ? *number / (1 << 30) : *number));
      continue;
    }
    for (const auto& [name, inner] : row.at(key.name).items()) {
      if (inner.is_object()) {  // comm: axis -> op -> {seconds, bytes}
        for (const auto& [op, counts] : inner.items()) {
          if (!counts.is_object() || !counts.contains("seconds")) continue;
          if (auto seconds = number_of(counts["seconds"])) {
            values.emplace_back(fmt::format("{}/{}/{}", tag, name, op),
                                static_cast<float>(*seconds));
          }
        }
      } else if (auto count = number_of(inner)) {
        values.emplace_back(fmt::format("{}/{}", tag, name), static_cast<float>(*count));
      }
    }
  }
  return write(row.step(), values, wall_time);
}

Result<void> TensorBoardWriter::write(std::int64_t step,
                                      const std::vector<std::pair<std::string, float>>& values,
                                      double wall_time) {
  if (wall_time == 0) wall_time = now_seconds();
  SX_TRY_VOID(state_->put(tfrecord(tensorboard_event(wall_time, step, values))));
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - state_->flushed;
  if (state_->pending >= kRecordsPerFlush || since.count() >= kSecondsPerFlush) return flush();
  return {};
}

Result<void> TensorBoardWriter::flush() {
  state_->pending = 0;
  state_->flushed = std::chrono::steady_clock::now();
  if (std::fflush(state_->file) != 0) {
    return Error{ErrorKind::kIo, std::string("cannot write: ") + std::strerror(errno),
                 state_->path.string()};
  }
  return {};
}

const fs::path& TensorBoardWriter::path() const { return state_->path; }

Result<std::vector<TensorBoardScalar>> parse_tensorboard(std::string_view bytes) {
  std::vector<TensorBoardScalar> scalars;
  std::size_t offset = 0;
  const auto corrupt = [&](const char* what) {
    return Error{ErrorKind::kCorrupt, what, fmt::format("offset {}", offset)};
  };
  while (bytes.size() - offset >= 12) {
    const std::string_view head = bytes.substr(offset, 12);
    const auto size = get_little_endian<std::uint64_t>(head);
    if (get_little_endian<std::uint32_t>(head.substr(8)) != masked_crc32c(head.substr(0, 8))) {
      return corrupt("checksum of the length is wrong");
    }
    if (size > kMaxRecordBytes) return corrupt("record longer than 64 MiB");
    if (bytes.size() - offset - 12 < size + 4) break;  // torn last record
    const std::string_view data = bytes.substr(offset + 12, size);
    if (get_little_endian<std::uint32_t>(bytes.substr(offset + 12 + size)) != masked_crc32c(data)) {
      return corrupt("checksum of the data is wrong");
    }
    if (!read_event(data, scalars)) return corrupt("not an Event message");
    offset += 16 + size;
  }
  return scalars;
}

Result<std::vector<TensorBoardScalar>> read_tensorboard(const fs::path& path) {
  SX_TRY(const std::string bytes, read_file(path));
  auto scalars = parse_tensorboard(bytes);
  if (scalars) return scalars;
  Error error = std::move(scalars).error();
  error.where = path.string() + " " + error.where;
  return error;
}

}  // namespace sx
