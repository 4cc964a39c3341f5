#include "sextant/text/encoding.h"

#include <lexbor/encoding/encoding.h>

#include <algorithm>
#include <vector>

#include "sextant/text/ascii.h"

namespace sx {

namespace {

bool is_html_space(char c) { return c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == ' '; }
bool is_letter(char c) { return to_lower(c) >= 'a' && to_lower(c) <= 'z'; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), to_lower);
  return out;
}

/// True when `bytes` holds `word` (lower case) at `pos`, in any case.
bool matches(std::string_view bytes, std::size_t pos, std::string_view word) {
  if (bytes.size() - pos < word.size()) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (to_lower(bytes[pos + i]) != word[i]) return false;
  }
  return true;
}

struct Attribute {
  std::string name;
  std::string value;
};

/// "Get an attribute" of the prescan: nothing at the tag's end or the end of the bytes. `pos`
/// moves.
std::optional<Attribute> read_attribute(std::string_view b, std::size_t& pos) {
  const auto at_end = [&] { return pos >= b.size(); };
  while (!at_end() && (is_html_space(b[pos]) || b[pos] == '/')) ++pos;
  if (at_end() || b[pos] == '>') return std::nullopt;
  Attribute out;
  while (!at_end() && !(b[pos] == '=' && !out.name.empty())) {
    if (b[pos] == '/' || b[pos] == '>') return out;
    if (is_html_space(b[pos])) {
      while (!at_end() && is_html_space(b[pos])) ++pos;
      if (at_end() || b[pos] != '=') return at_end() ? std::nullopt : std::optional(out);
      break;
    }
    out.name += to_lower(b[pos++]);
  }
  if (at_end()) return std::nullopt;
  ++pos;  // '='
  while (!at_end() && is_html_space(b[pos])) ++pos;
  if (at_end()) return std::nullopt;
  if (b[pos] == '"' || b[pos] == '\'') {
    const char quote = b[pos++];
    while (!at_end() && b[pos] != quote) out.value += to_lower(b[pos++]);
    if (at_end()) return std::nullopt;
    ++pos;
    return out;
  }
  while (!at_end() && !is_html_space(b[pos]) && b[pos] != '>') out.value += to_lower(b[pos++]);
  if (at_end()) return std::nullopt;
  return out;
}

/// Reads the attributes of a meta tag; the encoding if the element declares one the standard knows.
std::optional<std::string_view> read_meta(std::string_view b, std::size_t& pos) {
  std::vector<std::string> seen;
  bool got_pragma = false;
  std::optional<bool> need_pragma;
  std::optional<std::string_view> charset;
  while (auto attribute = read_attribute(b, pos)) {
    if (std::find(seen.begin(), seen.end(), attribute->name) != seen.end()) continue;
    seen.push_back(attribute->name);
    if (attribute->name == "http-equiv") {
      got_pragma = got_pragma || attribute->value == "content-type";
    } else if (attribute->name == "content" && !charset) {
      if (const auto label = charset_parameter(attribute->value)) {
        if (const auto encoding = encoding_for_label(*label)) {
          charset = encoding;
          need_pragma = true;
        }
      }
    } else if (attribute->name == "charset") {
      charset = encoding_for_label(attribute->value);
      need_pragma = false;
    }
    if (seen.size() > 1000) break;  // a hostile tag: keeps the duplicate check linear
  }
  if (!need_pragma || (*need_pragma && !got_pragma) || !charset) return std::nullopt;
  if (*charset == "UTF-16LE" || *charset == "UTF-16BE") return kUtf8;
  if (*charset == "x-user-defined") return kWindows1252;
  return charset;
}

/// The encoding of `<?xml ... encoding="x" ...?>` at the start. Source: HTML Standard, "get an XML
/// encoding".
std::optional<std::string_view> xml_encoding(std::string_view b) {
  if (!b.starts_with("<?xml")) return std::nullopt;
  const std::size_t end = b.find('>');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view declaration = b.substr(0, end);
  std::size_t pos = declaration.find("encoding");
  if (pos == std::string_view::npos) return std::nullopt;
  pos += 8;
  const auto skip_space = [&] {
    while (pos < declaration.size() && static_cast<unsigned char>(declaration[pos]) <= 0x20) ++pos;
  };
  skip_space();
  if (pos >= declaration.size() || declaration[pos] != '=') return std::nullopt;
  ++pos;
  skip_space();
  if (pos >= declaration.size() || (declaration[pos] != '"' && declaration[pos] != '\''))
    return std::nullopt;
  const std::size_t close = declaration.find(declaration[pos], pos + 1);
  if (close == std::string_view::npos) return std::nullopt;
  const auto encoding = encoding_for_label(declaration.substr(pos + 1, close - pos - 1));
  if (encoding == "UTF-16LE" || encoding == "UTF-16BE") return kUtf8;
  return encoding;
}

}  // namespace

std::optional<std::string_view> encoding_for_label(std::string_view label) {
  while (!label.empty() && is_html_space(label.front())) label.remove_prefix(1);
  while (!label.empty() && is_html_space(label.back())) label.remove_suffix(1);
  if (label.empty() || label.size() > 40) return std::nullopt;
  const std::string folded = lower(label);
  const lxb_encoding_data_t* data =
      lxb_encoding_data_by_name(reinterpret_cast<const lxb_char_t*>(folded.data()), folded.size());
  if (data == nullptr) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(data->name));
}

bool is_ascii_superset(std::string_view encoding) {
  return encoding != "UTF-16LE" && encoding != "UTF-16BE" && encoding != "ISO-2022-JP" &&
         encoding != "replacement";
}

std::optional<ByteOrderMark> byte_order_mark(std::string_view bytes) {
  if (bytes.starts_with("\xEF\xBB\xBF")) return ByteOrderMark{kUtf8, 3};
  if (bytes.starts_with("\xFE\xFF")) return ByteOrderMark{"UTF-16BE", 2};
  if (bytes.starts_with("\xFF\xFE")) return ByteOrderMark{"UTF-16LE", 2};
  return std::nullopt;
}

std::optional<std::string> charset_parameter(std::string_view value) {
  std::size_t pos = 0;
  for (;;) {
    while (pos < value.size() && !matches(value, pos, "charset")) ++pos;
    if (pos >= value.size()) return std::nullopt;
    pos += 7;
    while (pos < value.size() && is_html_space(value[pos])) ++pos;
    if (pos < value.size() && value[pos] == '=') break;
  }
  ++pos;
  while (pos < value.size() && is_html_space(value[pos])) ++pos;
  if (pos >= value.size()) return std::nullopt;
  if (value[pos] == '"' || value[pos] == '\'') {
    const std::size_t close = value.find(value[pos], pos + 1);
    if (close == std::string_view::npos) return std::nullopt;
    return std::string(value.substr(pos + 1, close - pos - 1));
  }
  std::size_t end = pos;
  while (end < value.size() && !is_html_space(value[end]) && value[end] != ';') ++end;
  return std::string(value.substr(pos, end - pos));
}

std::optional<std::string_view> prescan_meta(std::string_view bytes, std::size_t window) {
  const std::string_view b = bytes.substr(0, window);
  for (std::size_t pos = 0; pos < b.size(); ++pos) {
    if (b[pos] != '<') continue;
    if (matches(b, pos, "<!--")) {
      const std::size_t end = b.find("-->", pos + 2);
      if (end == std::string_view::npos) break;
      pos = end + 2;
    } else if (matches(b, pos, "<meta") && pos + 5 < b.size() &&
               (is_html_space(b[pos + 5]) || b[pos + 5] == '/')) {
      pos += 6;
      if (const auto found = read_meta(b, pos)) return found;
    } else if (pos + 1 < b.size() &&
               (is_letter(b[pos + 1]) ||
                (b[pos + 1] == '/' && pos + 2 < b.size() && is_letter(b[pos + 2])))) {
      while (pos < b.size() && !is_html_space(b[pos]) && b[pos] != '>') ++pos;
      while (read_attribute(b, pos)) {
      }
    } else if (pos + 1 < b.size() &&
               (b[pos + 1] == '!' || b[pos + 1] == '/' || b[pos + 1] == '?')) {
      const std::size_t end = b.find('>', pos);
      if (end == std::string_view::npos) break;
      pos = end;
    }
  }
  return xml_encoding(b);
}

}  // namespace sx
