#include "sextant/safetensors/safetensors.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace sx::safetensors {
namespace {

struct DtypeRow {
  Dtype dtype;
  const char* word;
  std::int64_t bytes;
};

constexpr DtypeRow kDtypes[] = {
    {Dtype::kF64, "F64", 8},   {Dtype::kF32, "F32", 4},        {Dtype::kF16, "F16", 2},
    {Dtype::kBF16, "BF16", 2}, {Dtype::kI64, "I64", 8},        {Dtype::kI32, "I32", 4},
    {Dtype::kI16, "I16", 2},   {Dtype::kI8, "I8", 1},          {Dtype::kU8, "U8", 1},
    {Dtype::kBool, "BOOL", 1}, {Dtype::kF8E4M3, "F8_E4M3", 1}, {Dtype::kF8E5M2, "F8_E5M2", 1},
};

Error invalid(std::string message) { return {ErrorKind::kInvalid, std::move(message), ""}; }

/// A JSON string; invalid UTF-8 is the one thing that can be wrong with it.
Result<std::string> json_string(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    return invalid(fmt::format("a name or metadata of {} bytes is not UTF-8", text.size()));
  }
}

Result<void> place(std::vector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    const auto size_a = size_bytes(a.dtype);
    const auto size_b = size_bytes(b.dtype);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
  std::uint64_t position = 0;
  std::vector<std::string_view> names;
  for (Entry& entry : entries) {
    if (entry.name == "__metadata__") return invalid("a tensor named __metadata__");
    if (entry.dtype == Dtype::kF8E4M3 || entry.dtype == Dtype::kF8E5M2) {
      return invalid(fmt::format("tensor \"{}\": {} is read, not written", entry.name,
                                 to_string(entry.dtype)));
    }
    auto bytes = static_cast<std::uint64_t>(size_bytes(entry.dtype));
    for (const std::int64_t n : entry.shape) {
      if (n < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(n), &bytes)) {
        return invalid(
            fmt::format("tensor \"{}\": shape [{}]", entry.name, fmt::join(entry.shape, ", ")));
      }
    }
    entry.begin = position;
    if (__builtin_add_overflow(position, bytes, &position)) return invalid("tensors pass 64 bits");
    entry.end = position;
    names.push_back(entry.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) return invalid(fmt::format("name \"{}\" twice", *twice));
  return {};
}

}  // namespace

const char* to_string(Dtype dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.dtype == dtype) return row.word;
  }
  return "?";
}

Result<Dtype> parse_dtype(std::string_view word) {
  for (const DtypeRow& row : kDtypes) {
    if (row.word == word) return row.dtype;
  }
  return Error{ErrorKind::kUnsupported, fmt::format("dtype \"{}\" is not known", word), ""};
}

std::int64_t size_bytes(Dtype dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.dtype == dtype) return row.bytes;
  }
  return 0;
}

Result<Layout> plan_layout(std::vector<Entry> entries,
                           const std::map<std::string, std::string>& metadata) {
  SX_TRY_VOID(place(entries));
  std::string text = "{";
  const auto begin_member = [&text] {
    if (text.size() > 1) text += ',';
  };
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    bool first = true;
    for (const auto& [key, value] : metadata) {
      SX_TRY(const std::string key_text, json_string(key));
      SX_TRY(const std::string value_text, json_string(value));
      text += fmt::format("{}{}:{}", first ? "" : ",", key_text, value_text);
      first = false;
    }
    text += '}';
  }
  for (const Entry& entry : entries) {
    begin_member();
    SX_TRY(const std::string name, json_string(entry.name));
    text +=
        fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name,
                    to_string(entry.dtype), fmt::join(entry.shape, ","), entry.begin, entry.end);
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeaderBytes) {
    return invalid(
        fmt::format("header of {} bytes, the limit is {}", text.size(), kMaxHeaderBytes));
  }
  Layout layout;
  const std::uint64_t length = text.size();
  for (int i = 0; i < 8; ++i) layout.head += static_cast<char>((length >> (8 * i)) & 0xff);
  layout.head += text;
  layout.header.entries = std::move(entries);
  layout.header.metadata = metadata;
  layout.header.data_begin = layout.head.size();
  return layout;
}

Result<File> File::open(const fs::path& path) {
  File file;
  SX_TRY(file.map_, MappedFile::open(path));
  auto header = parse_header(file.map_.text(), file.map_.size());
  if (!header.ok()) {
    Error error = std::move(header).error();
    error.where = path.string();
    return error;
  }
  file.header_ = *std::move(header);
  for (std::size_t i = 0; i < file.header_.entries.size(); ++i) {
    file.by_name_.emplace(file.header_.entries[i].name, i);
  }
  return file;
}

const Entry* File::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &header_.entries[it->second];
}

std::span<const std::byte> File::data(const Entry& entry) const {
  return map_.bytes().subspan(header_.data_begin + entry.begin, entry.num_bytes());
}

void File::release(const Entry& entry) const {
  map_.release(header_.data_begin + entry.begin, entry.num_bytes());
}

}  // namespace sx::safetensors
