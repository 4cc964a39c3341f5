#include "sextant/data/indexed_dataset.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"

namespace sx {

namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr std::uint64_t kHeaderBytes = 34;
constexpr std::uint64_t kTypeOffset = 17;
constexpr std::uint64_t kSequenceCountOffset = 18;
constexpr std::uint64_t kMarkCountOffset = 26;

// Every array of the index is misaligned (34 is no multiple of 4), so numbers are copied out, never
// cast.
template <class T>
T load(std::span<const std::byte> bytes, std::uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::uint64_t lengths_at() { return kHeaderBytes; }
std::uint64_t offsets_at(std::uint64_t sequences) { return kHeaderBytes + 4 * sequences; }
std::uint64_t marks_at(std::uint64_t sequences) { return kHeaderBytes + 12 * sequences; }
std::uint64_t modes_at(std::uint64_t sequences, std::uint64_t marks) {
  return marks_at(sequences) + 8 * marks;
}

template <class T>
bool widen(const std::byte* from, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    if constexpr (sizeof(T) > sizeof(std::int32_t)) {
      if (value < std::numeric_limits<std::int32_t>::min() ||
          value > std::numeric_limits<std::int32_t>::max()) {
        return false;
      }
    }
    out[i] = static_cast<std::int32_t>(value);
  }
  return true;
}

/// Tokens as int32; false for an id that does not fit.
bool convert(TokenType type, const std::byte* from, std::span<std::int32_t> out) {
  switch (type) {
    case TokenType::kUint8: return widen<std::uint8_t>(from, out);
    case TokenType::kInt8: return widen<std::int8_t>(from, out);
    case TokenType::kInt16: return widen<std::int16_t>(from, out);
    case TokenType::kInt32:
      if (!out.empty()) std::memcpy(out.data(), from, out.size_bytes());
      return true;
    case TokenType::kInt64: return widen<std::int64_t>(from, out);
    case TokenType::kUint16: return widen<std::uint16_t>(from, out);
  }
  SX_CHECK(false, "token type {}", static_cast<int>(type));
  return false;
}

}  // namespace

std::uint64_t token_bytes(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
    case TokenType::kInt8: return 1;
    case TokenType::kInt16:
    case TokenType::kUint16: return 2;
    case TokenType::kInt32: return 4;
    case TokenType::kInt64: return 8;
  }
  return 0;
}

const char* to_string(TokenType type) {
  switch (type) {
    case TokenType::kUint8: return "uint8";
    case TokenType::kInt8: return "int8";
    case TokenType::kInt16: return "int16";
    case TokenType::kInt32: return "int32";
    case TokenType::kInt64: return "int64";
    case TokenType::kUint16: return "uint16";
  }
  return "unknown";
}

TokenType token_type_for_vocab(std::int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::kUint16 : TokenType::kInt32;
}

std::string dataset_prefix(const std::string& path) {
  if (path.ends_with(".bin") || path.ends_with(".idx")) return path.substr(0, path.size() - 4);
  return path;
}

Error IndexedDataset::corrupt(std::uint64_t offset, const std::string& message) const {
  return {ErrorKind::kCorrupt, message, fmt::format("{}.idx, byte {}", prefix_, offset)};
}

Result<IndexedDataset> IndexedDataset::open(const std::string& path, Validate validate) {
  const std::string prefix = dataset_prefix(path);
  return open_files(prefix + ".idx", prefix + ".bin", prefix, validate);
}

Result<IndexedDataset> IndexedDataset::open_files(const fs::path& idx, const fs::path& bin,
                                                  const std::string& name, Validate validate) {
  IndexedDataset dataset;
  dataset.prefix_ = name;
  SX_TRY(dataset.idx_, MappedFile::open(idx));
  SX_TRY(dataset.bin_, MappedFile::open(bin));
  SX_TRY_VOID(dataset.read_header());
  if (validate == Validate::kFull) {
    auto structure = dataset.check_structure();
    if (!structure) return std::move(structure).error();
  }
  return dataset;
}

Result<void> IndexedDataset::read_header() {
  const auto bytes = idx_.bytes();
  const std::uint64_t size = bytes.size();
  if (size < kHeaderBytes) {
    return corrupt(size, fmt::format("{} bytes, an index has at least {}", size, kHeaderBytes));
  }
  if (idx_.text().substr(0, kMagic.size()) != kMagic) {
    return corrupt(0, "does not begin with MMIDIDX");
  }
  const auto version = load<std::uint64_t>(bytes, kMagic.size());
  if (version != 1) return corrupt(kMagic.size(), fmt::format("version {} instead of 1", version));
  const auto code = load<std::uint8_t>(bytes, kTypeOffset);
  if (code == 6 || code == 7) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("element type {} holds no tokens", code == 6 ? "float64" : "float32"),
                 fmt::format("{}.idx, byte {}", prefix_, kTypeOffset)};
  }
  if (code < 1 || code > 8) return corrupt(kTypeOffset, fmt::format("element type code {}", code));
  type_ = static_cast<TokenType>(code);
  num_sequences_ = load<std::uint64_t>(bytes, kSequenceCountOffset);
  num_document_marks_ = load<std::uint64_t>(bytes, kMarkCountOffset);
  SX_TRY_VOID(check_counts());
  return check_ends();
}

Result<void> IndexedDataset::check_counts() {
  // Divisions instead of products: the counts are whatever eight bytes say.
  const std::uint64_t rest = idx_.size() - kHeaderBytes;
  if (num_sequences_ > rest / 12) {
    return corrupt(kSequenceCountOffset, fmt::format("{} sequences do not fit {} bytes of index",
                                                     num_sequences_, idx_.size()));
  }
  const std::uint64_t behind = rest - 12 * num_sequences_;
  if (num_document_marks_ == 0 || num_document_marks_ > behind / 8) {
    return corrupt(kMarkCountOffset, fmt::format("{} document indices do not fit {} bytes of index",
                                                 num_document_marks_, idx_.size()));
  }
  const std::uint64_t left = behind - 8 * num_document_marks_;
  has_modes_ = left == num_sequences_ && num_sequences_ > 0;
  if (left != 0 && !has_modes_) {
    return corrupt(
        modes_at(num_sequences_, num_document_marks_),
        fmt::format("{} bytes behind the document indices; 0, or {} sequence modes, belong there",
                    left, num_sequences_));
  }
  return {};
}

Result<void> IndexedDataset::check_ends() {
  const std::uint64_t marks = marks_at(num_sequences_);
  if (document_mark(0) != 0) {
    return corrupt(marks, fmt::format("first document index {} instead of 0", document_mark(0)));
  }
  const std::int64_t last_mark = document_mark(num_documents());
  if (last_mark != static_cast<std::int64_t>(num_sequences_)) {
    return corrupt(marks + 8 * num_documents(),
                   fmt::format("last document index {} instead of the {} sequences", last_mark,
                               num_sequences_));
  }
  if (num_sequences_ > 0) return check_sequence(num_sequences_ - 1);
  return {};
}

Result<void> IndexedDataset::check_sequence(std::uint64_t i) const {
  const std::int32_t length = sequence_length(i);
  if (length < 0) {
    return corrupt(lengths_at() + 4 * i, fmt::format("sequence {} has length {}", i, length));
  }
  const std::int64_t offset = sequence_offset(i);
  const std::uint64_t size = static_cast<std::uint64_t>(length) * token_bytes(type_);
  if (offset < 0 || static_cast<std::uint64_t>(offset) > bin_.size() ||
      size > bin_.size() - static_cast<std::uint64_t>(offset)) {
    return corrupt(offsets_at(num_sequences_) + 8 * i,
                   fmt::format("sequence {}: {} bytes at {} end outside {}.bin of {} bytes", i,
                               size, offset, prefix_, bin_.size()));
  }
  return {};
}

std::int32_t IndexedDataset::sequence_length(std::uint64_t i) const {
  SX_CHECK(i < num_sequences_, "sequence {} of {}", i, num_sequences_);
  return load<std::int32_t>(idx_.bytes(), lengths_at() + 4 * i);
}

const std::byte* IndexedDataset::length_bytes() const { return idx_.bytes().data() + lengths_at(); }

std::int64_t IndexedDataset::sequence_offset(std::uint64_t i) const {
  SX_CHECK(i < num_sequences_, "sequence {} of {}", i, num_sequences_);
  return load<std::int64_t>(idx_.bytes(), offsets_at(num_sequences_) + 8 * i);
}

std::int64_t IndexedDataset::document_mark(std::uint64_t k) const {
  SX_CHECK(k < num_document_marks_, "document index {} of {}", k, num_document_marks_);
  return load<std::int64_t>(idx_.bytes(), marks_at(num_sequences_) + 8 * k);
}

std::int8_t IndexedDataset::sequence_mode(std::uint64_t i) const {
  SX_CHECK(i < num_sequences_, "sequence {} of {}", i, num_sequences_);
  if (!has_modes_) return 0;
  return load<std::int8_t>(idx_.bytes(), modes_at(num_sequences_, num_document_marks_) + i);
}

Result<void> IndexedDataset::read_sequence(std::uint64_t i, std::uint64_t first,
                                           std::span<std::int32_t> out) const {
  SX_TRY_VOID(check_sequence(i));
  const auto length = static_cast<std::uint64_t>(sequence_length(i));
  if (first > length || out.size() > length - first) {
    return Error{ErrorKind::kInvalid,
                 fmt::format("tokens {} to {} of sequence {} with {} tokens", first,
                             first + out.size(), i, length),
                 prefix_ + ".bin"};
  }
  return read_bytes(static_cast<std::uint64_t>(sequence_offset(i)) + first * token_bytes(type_),
                    out);
}

Result<void> IndexedDataset::read_bytes(std::uint64_t offset, std::span<std::int32_t> out) const {
  const std::uint64_t size = out.size() * token_bytes(type_);
  SX_CHECK(offset <= bin_.size() && size <= bin_.size() - offset, "bytes {} + {} of {}", offset,
           size, bin_.size());
  if (!convert(type_, bin_.bytes().data() + offset, out)) {
    return Error{ErrorKind::kCorrupt, "a token id does not fit 32 bits",
                 fmt::format("{}.bin, byte {} to {}", prefix_, offset, offset + size)};
  }
  return {};
}

Result<IndexedDataset::Structure> IndexedDataset::check_structure() const {
  Structure structure;
  std::int64_t end = 0;
  for (std::uint64_t i = 0; i < num_sequences_; ++i) {
    SX_TRY_VOID(check_sequence(i));
    const auto length = static_cast<std::uint64_t>(sequence_length(i));
    const std::int64_t offset = sequence_offset(i);
    if (offset != end && structure.num_gaps++ == 0) structure.first_gap = i;
    end = offset + static_cast<std::int64_t>(length * token_bytes(type_));
    structure.num_tokens += length;
    structure.num_empty += length == 0 ? 1 : 0;
    structure.longest = std::max(structure.longest, length);
  }
  for (std::uint64_t k = 0; k < num_documents(); ++k) {
    if (document_mark(k) > document_mark(k + 1)) {
      return corrupt(marks_at(num_sequences_) + 8 * (k + 1),
                     fmt::format("document {} ends at sequence {}, before its start {}", k,
                                 document_mark(k + 1), document_mark(k)));
    }
  }
  return structure;
}

Result<void> IndexedDataset::check_tokens(std::int64_t vocab_size) const {
  std::vector<std::int32_t> tokens;
  for (std::uint64_t i = 0; i < num_sequences_; ++i) {
    SX_TRY_VOID(check_sequence(i));
    tokens.resize(static_cast<std::size_t>(sequence_length(i)));
    SX_TRY_VOID(read_sequence(i, 0, tokens));
    for (std::size_t j = 0; j < tokens.size(); ++j) {
      if (tokens[j] < 0 || tokens[j] >= vocab_size) {
        const std::uint64_t at =
            static_cast<std::uint64_t>(sequence_offset(i)) + j * token_bytes(type_);
        return Error{ErrorKind::kCorrupt,
                     fmt::format("sequence {}: token {} is {}, the vocabulary has {}", i, j,
                                 tokens[j], vocab_size),
                     fmt::format("{}.bin, byte {}", prefix_, at)};
      }
    }
  }
  return {};
}

std::uint64_t IndexedDataset::idx_hash() const { return xxh3_64(idx_.text()); }

}  // namespace sx
