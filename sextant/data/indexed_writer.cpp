#include "sextant/data/indexed_writer.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "sextant/base/check.h"

namespace sx {

namespace {

constexpr std::array<const char*, 4> kParts{".bin.part", ".len.part", ".doc.part", ".mode.part"};
enum PartIndex { kBin, kLengths, kMarks, kModes };

fs::path part_path(const std::string& prefix, PartIndex part) { return prefix + kParts[part]; }

template <class T>
std::string_view raw(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

template <class T>
void append(std::string& out, T value) {
  out.append(raw(value));
}

std::pair<std::int64_t, std::int64_t> range_of(TokenType type) {
  switch (type) {
    case TokenType::kUint8: return {0, 255};
    case TokenType::kInt8: return {-128, 127};
    case TokenType::kInt16: return {-32768, 32767};
    case TokenType::kUint16: return {0, 65535};
    default:
      return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
  }
}

template <class T>
void narrow(std::span<const std::int32_t> tokens, std::string& out) {
  out.resize(tokens.size() * sizeof(T));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const T value = static_cast<T>(tokens[i]);
    std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
  }
}

void convert(TokenType type, std::span<const std::int32_t> tokens, std::string& out) {
  switch (type) {
    case TokenType::kUint8: return narrow<std::uint8_t>(tokens, out);
    case TokenType::kInt8: return narrow<std::int8_t>(tokens, out);
    case TokenType::kInt16: return narrow<std::int16_t>(tokens, out);
    case TokenType::kUint16: return narrow<std::uint16_t>(tokens, out);
    case TokenType::kInt32: return narrow<std::int32_t>(tokens, out);
    case TokenType::kInt64: return narrow<std::int64_t>(tokens, out);
  }
}

Result<void> rename_file(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::rename(from, to, code);
  if (code) return Error{ErrorKind::kIo, "rename: " + code.message(), to.string()};
  return {};
}

Result<std::uint64_t> size_of(const fs::path& path) {
  std::error_code code;
  const auto size = fs::file_size(path, code);
  if (code) return Error{ErrorKind::kNotFound, "no unfinished output here", path.string()};
  return std::uint64_t{size};
}

}  // namespace

struct IndexedWriter::State {
  std::string prefix;
  TokenType type;
  bool modes;
  std::vector<FileWriter> files;  ///< by PartIndex, kModes only with modes
  Position position;
  std::string scratch;
  bool finished = false;

  Result<void> open_parts(const Position& at) {
    const std::array<std::uint64_t, 4> sizes{at.bin_bytes, 4 * at.num_sequences, 8 * at.num_marks,
                                             at.num_sequences};
    for (int part = kBin; part <= (modes ? kModes : kMarks); ++part) {
      const fs::path path = part_path(prefix, static_cast<PartIndex>(part));
      SX_TRY(const std::uint64_t size, size_of(path));
      if (size < sizes[static_cast<std::size_t>(part)]) {
        return Error{ErrorKind::kCorrupt,
                     fmt::format("unfinished output has {} bytes, its saved state {}", size,
                                 sizes[static_cast<std::size_t>(part)]),
                     path.string()};
      }
      SX_TRY(FileWriter file, FileWriter::resume(path, sizes[static_cast<std::size_t>(part)]));
      files.push_back(std::move(file));
    }
    position = at;
    return {};
  }

  Result<void> write_index();
};

IndexedWriter::IndexedWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
IndexedWriter::IndexedWriter(IndexedWriter&&) noexcept = default;
IndexedWriter& IndexedWriter::operator=(IndexedWriter&&) noexcept = default;
IndexedWriter::~IndexedWriter() = default;

Result<IndexedWriter> IndexedWriter::create(const std::string& prefix, TokenType type, bool modes) {
  remove_parts(prefix);
  auto state = std::make_unique<State>();
  state->prefix = prefix;
  state->type = type;
  state->modes = modes;
  const fs::path folder = fs::path(prefix).parent_path();
  if (!folder.empty()) SX_TRY_VOID(make_dirs(folder));
  const std::int64_t first_mark = 0;
  for (int part = kBin; part <= (modes ? kModes : kMarks); ++part) {
    const fs::path path = part_path(prefix, static_cast<PartIndex>(part));
    std::ofstream empty(path, std::ios::binary | std::ios::trunc);
    if (part == kMarks) empty << raw(first_mark);
    empty.close();
    if (!empty)
      return Error{ErrorKind::kIo, fmt::format("cannot create: {}", std::strerror(errno)),
                   path.string()};
  }
  SX_TRY_VOID(state->open_parts(Position{}));
  return IndexedWriter(std::move(state));
}

Result<IndexedWriter> IndexedWriter::resume(const std::string& prefix, TokenType type,
                                            const Position& position, bool modes) {
  auto state = std::make_unique<State>();
  state->prefix = prefix;
  state->type = type;
  state->modes = modes;
  // Killed between the two renames of finish(): the tokens have their final name, the index not
  // yet.
  std::error_code ignored;
  if (!fs::exists(part_path(prefix, kBin), ignored) &&
      fs::exists(part_path(prefix, kLengths), ignored) && fs::exists(prefix + ".bin", ignored)) {
    SX_TRY_VOID(rename_file(prefix + ".bin", part_path(prefix, kBin)));
  }
  SX_TRY_VOID(state->open_parts(position));
  return IndexedWriter(std::move(state));
}

Result<IndexedWriter::Position> IndexedWriter::parts_on_disk(const std::string& prefix, TokenType) {
  Position position;
  SX_TRY(const std::uint64_t lengths, size_of(part_path(prefix, kLengths)));
  SX_TRY(const std::uint64_t marks, size_of(part_path(prefix, kMarks)));
  auto bin = size_of(part_path(prefix, kBin));
  if (!bin) bin = size_of(prefix + ".bin");
  if (!bin) return std::move(bin).error();
  position.bin_bytes = bin.value();
  position.num_sequences = lengths / 4;
  position.num_marks = marks / 8;
  return position;
}

void IndexedWriter::remove_parts(const std::string& prefix) {
  std::error_code ignored;
  for (const char* part : kParts) fs::remove(prefix + part, ignored);
}

Result<void> IndexedWriter::add_sequence(std::span<const std::int32_t> tokens, std::int8_t mode) {
  State& state = *state_;
  SX_CHECK(!state.finished, "{} is finished", state.prefix);
  if (tokens.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    return Error{ErrorKind::kInvalid,
                 fmt::format("a sequence of {} tokens; at most 2^31 - 1", tokens.size()),
                 state.prefix};
  }
  const auto [low, high] = range_of(state.type);
  for (const std::int32_t token : tokens) {
    if (token < low || token > high) {
      return Error{ErrorKind::kInvalid,
                   fmt::format("token {} does not fit {}", token, to_string(state.type)),
                   state.prefix};
    }
  }
  convert(state.type, tokens, state.scratch);
  SX_TRY_VOID(state.files[kBin].write(state.scratch));
  const auto length = static_cast<std::int32_t>(tokens.size());
  SX_TRY_VOID(state.files[kLengths].write(raw(length)));
  if (state.modes) SX_TRY_VOID(state.files[kModes].write(raw(mode)));
  state.position.bin_bytes += state.scratch.size();
  ++state.position.num_sequences;
  return {};
}

Result<void> IndexedWriter::end_document() {
  const auto mark = static_cast<std::int64_t>(state_->position.num_sequences);
  SX_TRY_VOID(state_->files[kMarks].write(raw(mark)));
  ++state_->position.num_marks;
  return {};
}

Result<void> IndexedWriter::add_document(std::span<const std::int32_t> tokens,
                                         std::span<const std::int32_t> lengths) {
  std::size_t at = 0;
  for (const std::int32_t length : lengths) {
    SX_CHECK(length >= 0 && static_cast<std::size_t>(length) <= tokens.size() - at,
             "sequence lengths do not fit {} tokens", tokens.size());
    SX_TRY_VOID(add_sequence(tokens.subspan(at, static_cast<std::size_t>(length))));
    at += static_cast<std::size_t>(length);
  }
  SX_CHECK(at == tokens.size(), "sequence lengths sum to {}, there are {} tokens", at,
           tokens.size());
  return end_document();
}

Result<void> IndexedWriter::add_document(std::span<const std::int32_t> tokens) {
  SX_TRY_VOID(add_sequence(tokens));
  return end_document();
}

Result<void> IndexedWriter::add_index(const IndexedDataset& other) {
  if (other.type() != state_->type) {
    return Error{
        ErrorKind::kInvalid,
        fmt::format("holds {}, the output {}", to_string(other.type()), to_string(state_->type)),
        other.prefix()};
  }
  std::vector<std::int32_t> tokens;
  for (std::uint64_t k = 0; k < other.num_documents(); ++k) {
    const auto last = static_cast<std::uint64_t>(other.document_mark(k + 1));
    for (auto i = static_cast<std::uint64_t>(other.document_mark(k)); i < last; ++i) {
      SX_TRY_VOID(other.check_sequence(i));
      tokens.resize(static_cast<std::size_t>(other.sequence_length(i)));
      SX_TRY_VOID(other.read_sequence(i, 0, tokens));
      SX_TRY_VOID(add_sequence(tokens, other.sequence_mode(i)));
    }
    SX_TRY_VOID(end_document());
  }
  return {};
}

Result<void> IndexedWriter::sync() {
  for (FileWriter& file : state_->files) SX_TRY_VOID(file.sync());
  return {};
}

IndexedWriter::Position IndexedWriter::position() const { return state_->position; }

Result<void> IndexedWriter::State::write_index() {
  SX_TRY(const MappedFile lengths, MappedFile::open(part_path(prefix, kLengths)));
  SX_TRY(const MappedFile marks, MappedFile::open(part_path(prefix, kMarks)));
  SX_TRY(FileWriter index, FileWriter::create(prefix + ".idx"));
  std::string header("MMIDIDX\0\0", 9);
  append(header, std::uint64_t{1});
  append(header, static_cast<std::uint8_t>(type));
  append(header, position.num_sequences);
  append(header, position.num_marks);
  SX_TRY_VOID(index.write(header));
  SX_TRY_VOID(index.write(lengths.text()));
  std::int64_t offset = 0;
  for (std::uint64_t i = 0; i < position.num_sequences; ++i) {
    SX_TRY_VOID(index.write(raw(offset)));
    std::int32_t length;
    std::memcpy(&length, lengths.text().data() + 4 * i, 4);
    offset += static_cast<std::int64_t>(static_cast<std::uint64_t>(length) * token_bytes(type));
  }
  SX_TRY_VOID(index.write(marks.text()));
  if (modes) {
    SX_TRY(const MappedFile mode_bytes, MappedFile::open(part_path(prefix, kModes)));
    SX_TRY_VOID(index.write(mode_bytes.text()));
  }
  // An older pair under this name must not pair its index with the new tokens, so its index goes
  // first.
  std::error_code ignored;
  fs::remove(prefix + ".idx", ignored);
  SX_TRY_VOID(rename_file(part_path(prefix, kBin), prefix + ".bin"));
  return index.commit();
}

Result<void> IndexedWriter::finish() {
  SX_CHECK(!state_->finished, "{} is finished", state_->prefix);
  for (FileWriter& file : state_->files) SX_TRY_VOID(file.commit());
  SX_TRY_VOID(state_->write_index());
  state_->finished = true;
  remove_parts(state_->prefix);
  return {};
}

}  // namespace sx
