#include "sextant/data/npy.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/fs.h"

namespace sx {

namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

template <class T>
constexpr NpyType npy_type_of() {
  if constexpr (std::is_same_v<T, std::int16_t>) return NpyType::kInt16;
  if constexpr (std::is_same_v<T, std::int32_t>) return NpyType::kInt32;
  if constexpr (std::is_same_v<T, std::int64_t>) return NpyType::kInt64;
  if constexpr (std::is_same_v<T, std::uint32_t>) return NpyType::kUint32;
}

/// Reads the one dictionary literal of a header: three keys in any order.
class NpyHeader {
 public:
  explicit NpyHeader(std::string_view text) : rest_(text) {}

  struct Fields {
    std::string descr;
    bool fortran = false;
    std::vector<std::uint64_t> shape;
  };

  /// Nothing when the text is no such dictionary.
  std::optional<Fields> parse() {
    Fields fields;
    bool descr = false, order = false, shape = false;
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      const std::optional<std::string> key = string();
      if (!key || !take(':')) return std::nullopt;
      if (*key == "descr" && !std::exchange(descr, true)) {
        const auto value = string();
        if (!value) return std::nullopt;
        fields.descr = *value;
      } else if (*key == "fortran_order" && !std::exchange(order, true)) {
        fields.fortran = word("True");
        if (!fields.fortran && !word("False")) return std::nullopt;
      } else if (*key == "shape" && !std::exchange(shape, true)) {
        if (!read_shape(fields.shape)) return std::nullopt;
      } else {
        return std::nullopt;
      }
      (void)take(',');
    }
    skip_blanks();
    if (!rest_.empty() || !descr || !order || !shape) return std::nullopt;
    return fields;
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) {
      rest_.remove_prefix(1);
    }
  }
  bool take(char c) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view text) {
    skip_blanks();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  std::optional<std::string> string() {
    skip_blanks();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool read_shape(std::vector<std::uint64_t>& shape) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_blanks();
      std::uint64_t value = 0;
      const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (code != std::errc() || shape.size() == 8) return false;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      shape.push_back(value);
      if (!take(',') && !rest_.starts_with(')')) return false;
    }
    return true;
  }
  std::string_view rest_;
};

std::optional<NpyType> npy_type_named(std::string_view descr) {
  for (const NpyType type : {NpyType::kInt16, NpyType::kInt32, NpyType::kInt64, NpyType::kUint32}) {
    if (descr == to_string(type)) return type;
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t npy_bytes(NpyType type) {
  switch (type) {
    case NpyType::kInt16: return 2;
    case NpyType::kInt32:
    case NpyType::kUint32: return 4;
    case NpyType::kInt64: return 8;
  }
  return 0;
}

const char* to_string(NpyType type) {
  switch (type) {
    case NpyType::kInt16: return "<i2";
    case NpyType::kInt32: return "<i4";
    case NpyType::kInt64: return "<i8";
    case NpyType::kUint32: return "<u4";
  }
  return "unknown";
}

template <class T>
NpyArray NpyArray::from(std::vector<T> values, std::uint64_t columns) {
  const std::uint64_t width = columns == 0 ? 1 : columns;
  SX_CHECK(values.size() % width == 0, "{} values in rows of {}", values.size(), width);
  NpyArray array(npy_type_of<T>(), values.size() / width, columns);
  auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  array.data_ = reinterpret_cast<const char*>(owner->data());
  array.owner_ = std::move(owner);
  return array;
}
template NpyArray NpyArray::from(std::vector<std::int16_t>, std::uint64_t);
template NpyArray NpyArray::from(std::vector<std::int32_t>, std::uint64_t);
template NpyArray NpyArray::from(std::vector<std::int64_t>, std::uint64_t);
template NpyArray NpyArray::from(std::vector<std::uint32_t>, std::uint64_t);

Result<NpyArray> NpyArray::open(const std::filesystem::path& path) {
  SX_TRY(MappedFile mapped, MappedFile::open(path));
  const auto file = std::make_shared<const MappedFile>(std::move(mapped));
  const std::string_view text = file->text();
  const auto corrupt = [&](std::uint64_t offset, std::string message) {
    return Error{ErrorKind::kCorrupt, std::move(message),
                 fmt::format("{}, byte {}", path.string(), offset)};
  };
  if (!text.starts_with(kNpyMagic) || text.size() < 10) return corrupt(0, "is no .npy file");
  const auto version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3 || text[7] != 0) {
    return corrupt(6, fmt::format("version {}.{} instead of 1.0 to 3.0", version,
                                  static_cast<unsigned char>(text[7])));
  }
  const std::uint64_t length_bytes = version == 1 ? 2 : 4;
  std::uint32_t length = 0;
  if (text.size() < 8 + length_bytes) return corrupt(8, "the header is cut");
  std::memcpy(&length, text.data() + 8, length_bytes);
  const std::uint64_t begin = 8 + length_bytes + length;
  if (begin > text.size()) return corrupt(8, fmt::format("a header of {} bytes is cut", length));
  const auto fields = NpyHeader(text.substr(8 + length_bytes, length)).parse();
  if (!fields) return corrupt(8 + length_bytes, "the header is no dictionary of a .npy file");
  const std::optional<NpyType> type = npy_type_named(fields->descr);
  if (!type || fields->fortran || fields->shape.empty() || fields->shape.size() > 2) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("elements {}{} in {} dimensions; read are <i2, <i4, <i8 and <u4 in one "
                    "or two",
                    fields->descr, fields->fortran ? ", column-major," : "", fields->shape.size()),
        path.string()};
  }
  const std::uint64_t rows = fields->shape[0];
  const std::uint64_t columns = fields->shape.size() == 2 ? fields->shape[1] : 0;
  if (fields->shape.size() == 2 && columns == 0) return corrupt(begin, "rows of 0 elements");
  const std::uint64_t row_bytes = npy_bytes(*type) * (columns == 0 ? 1 : columns);
  if (columns > text.size() || rows > (text.size() - begin) / row_bytes ||
      rows * row_bytes != text.size() - begin) {
    return corrupt(
        begin, fmt::format("{} rows of {} bytes do not fill the {} bytes behind the header", rows,
                           row_bytes, text.size() - begin));
  }
  NpyArray array(*type, rows, columns);
  array.data_ = text.data() + begin;
  array.owner_ = file;
  return array;
}

std::int64_t NpyArray::operator[](std::uint64_t i) const {
  SX_DCHECK(i < size(), "element {} of {}", i, size());
  const auto load = [&]<class T>(T value) {
    std::memcpy(&value, data_ + i * sizeof(T), sizeof(T));  // a foreign file need not be aligned
    return static_cast<std::int64_t>(value);
  };
  switch (type_) {
    case NpyType::kInt16: return load(std::int16_t{});
    case NpyType::kInt32: return load(std::int32_t{});
    case NpyType::kInt64: return load(std::int64_t{});
    case NpyType::kUint32: return load(std::uint32_t{});
  }
  return 0;
}

std::string npy_header(const NpyArray& array) {
  const std::string shape = array.columns() == 0
                                ? fmt::format("({},)", array.rows())
                                : fmt::format("({}, {})", array.rows(), array.columns());
  std::string dictionary = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                       to_string(array.type()), shape);
  // numpy leaves room for a first dimension of 21 digits to be filled in later.
  const std::size_t growth = 21 - std::to_string(array.rows()).size();
  const std::size_t unpadded = 10 + dictionary.size() + growth + 1;
  dictionary.append(growth + 64 - unpadded % 64, ' ');
  dictionary.push_back('\n');
  std::string header(kNpyMagic);
  header += std::string_view("\1\0", 2);
  header.push_back(static_cast<char>(dictionary.size() & 0xff));
  header.push_back(static_cast<char>(dictionary.size() >> 8));
  return header + dictionary;
}

Result<void> write_npy(const std::filesystem::path& path, const NpyArray& array) {
  SX_TRY(FileWriter writer, FileWriter::create(path));
  SX_TRY_VOID(writer.write(npy_header(array)));
  SX_TRY_VOID(writer.write(array.bytes()));
  return writer.commit();
}

}  // namespace sx
