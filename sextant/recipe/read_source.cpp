#include "sextant/recipe/read_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "sextant/base/fs.h"
#include "sextant/recipe/json_lines.h"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
// toml++ 3.3 asserts that a key begins well just before it reports that one does not.
#define TOML_ASSERT(expr) static_cast<void>(0)
#include <toml++/impl/forward_declarations.h>
// Its tables of characters call unreachable what they do not list; the answer is no.
#undef TOML_UNREACHABLE
#define TOML_UNREACHABLE return false
#include <toml++/impl/unicode.h>
#undef TOML_UNREACHABLE
#define TOML_UNREACHABLE __builtin_unreachable()
#include <toml++/toml.h>

namespace sx {
namespace {

constexpr std::size_t kMaxIncludeDepth = 8;
constexpr std::uint64_t kMaxRecipeBytes = 16 << 20;
constexpr std::size_t kMaxKeyParts = 256;  // as deep as the parser lets values nest

Json to_json(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) {
    // Unsigned, as JSON readers give it: then one rule serves both formats.
    const std::int64_t value = number->get();
    return value >= 0 ? Json(static_cast<std::uint64_t>(value)) : Json(value);
  }
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const toml::node& item : *array) list.push_back(to_json(item));
    return list;
  }
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = to_json(value);
    return object;
  }
  return nullptr;  // dates and times: of the wrong type for every key
}

/// Leaves of the tree in file order.
void collect(const toml::table& table, const std::string& prefix, const std::string& label,
             const std::string& folder, Layer& layer) {
  for (const auto& [key, node] : table) {
    const std::string name =
        prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
    const auto* inner = node.as_table();
    if (inner != nullptr && !inner->empty()) {
      collect(*inner, name, label, folder, layer);
    } else if (inner == nullptr) {
      layer.push_back(
          {name, to_json(node), fmt::format("{}:{}", label, node.source().begin.line), folder});
    }
  }
}

struct Document {
  Layer layer;
  std::vector<std::string> includes;
};

/// Takes `include` out of the layer; false when it is no list of strings.
bool take_includes(Document& document, std::vector<Diagnostic>& faults) {
  const auto is_include = [](const Setting& setting) { return setting.key == "include"; };
  const auto found = std::find_if(document.layer.begin(), document.layer.end(), is_include);
  if (found == document.layer.end()) return true;
  const bool good = read_value(found->value, document.includes);
  if (!good) {
    faults.push_back(user_fault(2, "include is not a list of files", found->where + " (include)",
                                "a list of strings"));
  }
  document.layer.erase(found);
  return good;
}

/// First line with a dotted key of too many parts, 0 if there is none. The parser makes a table of
/// each part, and frees tables by recursion.
std::size_t line_of_endless_key(std::string_view text) {
  std::size_t line = 1;
  std::size_t dots = 0;
  for (const char c : text) {
    if (c == '.') {
      if (++dots >= kMaxKeyParts) return line;
    } else if (std::string_view("\n=,[]{}#").find(c) != std::string_view::npos) {
      dots = 0;
      line += c == '\n' ? 1 : 0;
    }
  }
  return 0;
}

// Outside strings and comments TOML is ASCII without control characters but tab and line ends;
// toml++ 3.3 runs into unreachable code over some others. Returns the place of the first one, or
// npos.
std::size_t find_foreign_character(std::string_view text) {
  std::string_view closing;  // of the string or comment we are in
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (!closing.empty()) {
      if (closing[0] == '"' && c == '\\') {
        ++i;
      } else if (text.substr(i).starts_with(closing)) {
        i += closing.size() - 1;
        closing = {};
      } else if (c == '\n' && closing.size() == 1) {
        closing = {};  // a string left open: the parser tells
      }
    } else if (c == '#') {
      closing = "\n";
    } else if (c == '"' || c == '\'') {
      const std::string_view triple = c == '"' ? "\"\"\"" : "'''";
      closing = text.substr(i).starts_with(triple) ? triple : triple.substr(0, 1);
      i += closing.size() - 1;
    } else if (c >= 0x7f || (c < 0x20 && c != '\t' && c != '\n' && c != '\r')) {
      return i;
    }
  }
  return std::string_view::npos;
}

std::optional<Document> read_toml(std::string_view text, const std::string& label,
                                  const std::string& folder, std::vector<Diagnostic>& faults) {
  if (const std::size_t line = line_of_endless_key(text)) {
    faults.push_back(user_fault(26, fmt::format("a key has more than {} parts", kMaxKeyParts),
                                fmt::format("{}:{}", label, line), "a key is group.name"));
    return std::nullopt;
  }
  if (const std::size_t at = find_foreign_character(text); at != std::string_view::npos) {
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    faults.push_back(user_fault(26,
                                fmt::format("byte {:#04x} outside strings and comments",
                                            static_cast<unsigned char>(text[at])),
                                fmt::format("{}:{}", label, line), "a recipe is TOML 1.0"));
    return std::nullopt;
  }
  const toml::parse_result parsed = toml::parse(text, label);
  if (parsed.failed()) {
    const auto& at = parsed.error().source().begin;
    faults.push_back(user_fault(26, std::string(parsed.error().description()),
                                fmt::format("{}:{} column {}", label, at.line, at.column),
                                "a recipe is TOML 1.0"));
    return std::nullopt;
  }
  Document document;
  collect(parsed.table(), "", label, folder, document.layer);
  const auto line = [](const Setting& setting) {
    return std::stoul(setting.where.substr(setting.where.rfind(':') + 1));
  };
  std::stable_sort(document.layer.begin(), document.layer.end(),
                   [&](const Setting& a, const Setting& b) { return line(a) < line(b); });
  if (!take_includes(document, faults)) return std::nullopt;
  return document;
}

std::optional<Document> read_json(const std::string& text, const std::string& label,
                                  const std::string& folder, std::vector<Diagnostic>& faults) {
  auto leaves = read_json_leaves(text);
  if (!leaves.ok()) {
    faults.push_back(user_fault(26, leaves.error().message, label + ":" + leaves.error().where,
                                "a recipe is TOML 1.0 or JSON"));
    return std::nullopt;
  }
  Document document;
  for (JsonLeaf& leaf : *leaves) {
    document.layer.push_back(
        {leaf.key, std::move(leaf.value), fmt::format("{}:{}", label, leaf.line), folder});
  }
  if (!take_includes(document, faults)) return std::nullopt;
  return document;
}

void read_file_inside(const std::string& path, const std::string& from, std::vector<fs::path>& open,
                      std::vector<Layer>& layers, std::vector<Diagnostic>& faults) {
  const std::string extension = fs::path(path).extension().string();
  if (extension == ".yaml" || extension == ".yml") {
    faults.push_back(user_fault(26, fmt::format("{} is YAML", path), from,
                                "a recipe is TOML 1.0 or JSON: YAML reads `no` "
                                "and `1e-4` as other types than people mean",
                                "write it as TOML: key = value lines under [group]"));
    return;
  }
  std::error_code ignored;
  const fs::path identity = fs::weakly_canonical(path, ignored);
  if (std::find(open.begin(), open.end(), identity) != open.end()) {
    faults.push_back(
        user_fault(26, fmt::format("{} includes itself", path), from, "includes form no cycle"));
    return;
  }
  if (open.size() > kMaxIncludeDepth) {
    faults.push_back(user_fault(26, "includes are nested too deeply", from,
                                fmt::format("at most {} levels", kMaxIncludeDepth)));
    return;
  }
  auto text = read_file(path, kMaxRecipeBytes);
  if (!text.ok()) {
    faults.push_back(to_diagnostic(text.error()));
    if (faults.back().where.empty()) faults.back().where = from.empty() ? path : from;
    return;
  }
  const std::string folder =
      fs::path(path).parent_path().empty() ? "." : fs::path(path).parent_path().string();
  auto document = extension == ".json" ? read_json(*text, path, folder, faults)
                                       : read_toml(*text, path, folder, faults);
  if (!document) return;
  open.push_back(identity);
  for (const std::string& include : document->includes) {
    const fs::path target = fs::path(include).is_absolute()
                                ? fs::path(include)
                                : fs::path(path).parent_path() / include;
    read_file_inside(target.string(), path + " (include)", open, layers, faults);
  }
  open.pop_back();
  layers.push_back(std::move(document->layer));
}

}  // namespace

void read_recipe_file(const std::string& path, std::vector<Layer>& layers,
                      std::vector<Diagnostic>& faults) {
  std::vector<fs::path> open;
  read_file_inside(path, "", open, layers, faults);
}

void read_recipe_text(std::string_view toml, const std::string& label, std::vector<Layer>& layers,
                      std::vector<Diagnostic>& faults) {
  auto document = read_toml(toml, label, ".", faults);
  if (document) layers.push_back(std::move(document->layer));
}

void read_sets(const std::vector<std::pair<std::string, std::string>>& sets,
               std::vector<Layer>& layers) {
  Layer layer;
  for (const auto& [key, text] : sets) {
    Json value = text;
    const bool one_line = text.find('\n') == std::string::npos;
    const toml::parse_result parsed = toml::parse(one_line ? "value = " + text : std::string());
    if (parsed.succeeded() && parsed.table().size() == 1)
      value = to_json(*parsed.table().get("value"));
    layer.push_back({key, std::move(value), "--set", "", text});
  }
  layers.push_back(std::move(layer));
}

}  // namespace sx
