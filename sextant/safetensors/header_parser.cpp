// The header as JSON events: the form is fixed and flat, so a small state machine sees every fault
// (names twice included, which a document tree would have merged) and memory stays proportional to
// the entries.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sextant/safetensors/safetensors.h"

namespace sx::safetensors {
namespace {

constexpr std::string_view kMetadataName = "__metadata__";

Error corrupt(std::string message) { return {ErrorKind::kCorrupt, std::move(message), ""}; }

/// Characters of the header, the last one read remembered, so that a fault has its place.
class CountedChars {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountedChars(const char* at, const char** last) : at_(at), last_(last) {}
  reference operator*() const { return *at_; }
  CountedChars& operator++() {
    *last_ = at_++;
    return *this;
  }
  CountedChars operator++(int) {
    const CountedChars before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountedChars& a, const CountedChars& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  const char** last_;
};

/// Receiver of nlohmann's JSON events; returns false to stop with `error`.
class HeaderReader {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  Header header;
  std::optional<Error> error;

  bool null() { return fail("null"); }
  bool boolean(bool) { return fail("a truth value"); }
  bool number_integer(number_integer_t) { return fail("a negative number"); }
  bool number_float(number_float_t, const string_t& text) { return fail("the number " + text); }
  bool binary(binary_t&) { return fail("binary data"); }

  bool number_unsigned(number_unsigned_t value) {
    if (state_ == State::kShape) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return stop(corrupt(fmt::format("tensor \"{}\": dim of {} elements", entry_.name, value)));
      }
      entry_.shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (state_ == State::kOffsets) {
      if (num_offsets_ == 2) return fail("a third offset");
      (num_offsets_++ == 0 ? entry_.begin : entry_.end) = value;
      return true;
    }
    return fail(fmt::format("the number {}", value));
  }

  bool string(string_t& value) {
    if (state_ == State::kMetadata) {
      header.metadata.emplace(key_, std::move(value));
      return true;
    }
    if (state_ == State::kEntry && key_ == "dtype") {
      auto dtype = parse_dtype(value);
      if (!dtype.ok()) {
        Error failure = std::move(dtype).error();
        failure.message = fmt::format("tensor \"{}\": {}", entry_.name, failure.message);
        return stop(std::move(failure));
      }
      entry_.dtype = *dtype;
      return true;
    }
    return fail("a string");
  }

  bool start_object(std::size_t) {
    switch (state_) {
      case State::kBegin: state_ = State::kTop; return true;
      case State::kTop:
        keys_.clear();
        state_ = key_ == kMetadataName ? State::kMetadata : State::kEntry;
        entry_ = Entry{};
        entry_.name = key_;
        num_offsets_ = 0;
        return true;
      default: return fail("an object");
    }
  }

  bool key(string_t& name) {
    auto& seen = state_ == State::kTop ? names_ : keys_;
    if (!seen.insert(name).second) return stop(corrupt(fmt::format("name \"{}\" twice", name)));
    if (state_ == State::kEntry && name != "dtype" && name != "shape" && name != "data_offsets") {
      return stop(corrupt(fmt::format("tensor \"{}\": unknown field \"{}\"", entry_.name, name)));
    }
    key_ = std::move(name);
    return true;
  }

  bool end_object() {
    if (state_ == State::kTop) {
      state_ = State::kEnd;
      return true;
    }
    if (state_ == State::kEntry) {
      if (keys_.size() != 3)
        return stop(corrupt(fmt::format("tensor \"{}\" lacks a field", entry_.name)));
      if (num_offsets_ != 2)
        return stop(corrupt(fmt::format("tensor \"{}\" lacks an offset", entry_.name)));
      header.entries.push_back(std::move(entry_));
    }
    state_ = State::kTop;
    return true;
  }

  bool start_array(std::size_t) {
    if (state_ != State::kEntry || key_ == "dtype") return fail("an array");
    state_ = key_ == "shape" ? State::kShape : State::kOffsets;
    return true;
  }

  bool end_array() {
    state_ = State::kEntry;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) {
    return stop(
        corrupt(fmt::format("header is not UTF-8 JSON at byte {}: {}", position, e.what())));
  }

 private:
  enum class State { kBegin, kTop, kMetadata, kEntry, kShape, kOffsets, kEnd };

  bool stop(Error failure) {
    error = std::move(failure);
    return false;
  }
  bool fail(const std::string& found) {
    return stop(corrupt(fmt::format("unexpected {} after \"{}\"", found, key_)));
  }

  State state_ = State::kBegin;
  std::string key_;
  Entry entry_;
  int num_offsets_ = 0;
  std::set<std::string> names_;  // of the whole header
  std::set<std::string> keys_;   // of the object inside
};

/// Size by shape and dtype against the offsets.
Result<void> check_size(const Entry& entry) {
  std::uint64_t bytes = static_cast<std::uint64_t>(size_bytes(entry.dtype));
  for (const std::int64_t n : entry.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(n), &bytes)) {
      return corrupt(
          fmt::format("tensor \"{}\" at data byte {}: product of its shape passes 64 bits",
                      entry.name, entry.begin));
    }
  }
  if (entry.begin > entry.end || bytes != entry.num_bytes()) {
    return corrupt(fmt::format("tensor \"{}\": offsets [{}, {}) for {} bytes", entry.name,
                               entry.begin, entry.end, bytes));
  }
  return {};
}

}  // namespace

Result<Header> parse_header(std::string_view head, std::uint64_t file_bytes) {
  if (file_bytes < 8 || head.size() < 8) {
    return corrupt(fmt::format("{} bytes, shorter than the length word", file_bytes));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, head.data(), 8);
  if constexpr (std::endian::native == std::endian::big) length = __builtin_bswap64(length);
  if (length > kMaxHeaderBytes) {
    return corrupt(fmt::format("header of {} bytes, the limit is {}", length, kMaxHeaderBytes));
  }
  if (length > file_bytes - 8 || length > head.size() - 8) {
    return corrupt(fmt::format("header of {} bytes in a file of {}", length, file_bytes));
  }
  const std::string_view text = head.substr(8, length);
  if (text.empty() || text.front() != '{') {
    return corrupt("header byte 0: header does not begin with '{'");
  }
  // The JSON reader takes a zero byte for the end of its input; whatever stood behind would go
  // unseen.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return corrupt(fmt::format("header byte {}: a zero byte", zero));
  }

  HeaderReader reader;
  const char* last = text.data();
  const bool whole = nlohmann::json::sax_parse(
      CountedChars(text.data(), &last), CountedChars(text.data() + text.size(), &last), &reader);
  if (reader.error) {
    reader.error->message =
        fmt::format("header byte {}: {}", last - text.data(), reader.error->message);
    return *std::move(reader.error);
  }
  if (!whole) return corrupt("header is not JSON");
  Header header = std::move(reader.header);
  header.data_begin = 8 + length;

  for (const Entry& entry : header.entries) SX_TRY_VOID(check_size(entry));
  std::sort(header.entries.begin(), header.entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t position = 0;
  for (const Entry& entry : header.entries) {
    if (entry.begin != position) {
      return corrupt(fmt::format(
          "tensor \"{}\" begins at data byte {}, {} at {}", entry.name, entry.begin,
          entry.begin < position ? "overlapping, the last ended" : "after a hole", position));
    }
    position = entry.end;
  }
  if (position != file_bytes - header.data_begin) {
    return corrupt(fmt::format("tensors end at {}, the data has {} bytes", position,
                               file_bytes - header.data_begin));
  }
  return header;
}

}  // namespace sx::safetensors
