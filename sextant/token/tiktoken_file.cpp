#include "sextant/token/tiktoken_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "sextant/base/fs.h"

namespace sx {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxSideBytes = std::uint64_t{64} << 20;

constexpr std::array<signed char, 256> make_values() {
  std::array<signed char, 256> values{};
  for (auto& value : values) value = -1;
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<signed char>(i);
  }
  return values;
}
constexpr std::array<signed char, 256> kValues = make_values();

// Strict: whole groups of four, padding only at the end, unused bits zero (RFC 4648 section 3.5).
std::optional<std::string> decode_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text.substr(0, text.size() - padding)) {
    const int value = kValues[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes.push_back(static_cast<char>(bits >> held & 0xff));
    }
  }
  if ((bits & ((1u << held) - 1)) != 0) return std::nullopt;
  return bytes;
}

void append_base64(std::string& out, std::string_view bytes) {
  std::size_t i = 0;
  for (; i + 3 <= bytes.size(); i += 3) {
    const std::uint32_t bits =
        static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << 16 |
        static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i + 1])) << 8 |
        static_cast<unsigned char>(bytes[i + 2]);
    for (int shift = 18; shift >= 0; shift -= 6) out.push_back(kAlphabet[bits >> shift & 63]);
  }
  if (i == bytes.size()) return;
  std::uint32_t bits = static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << 16;
  const bool two = i + 2 == bytes.size();
  if (two) bits |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i + 1])) << 8;
  out.push_back(kAlphabet[bits >> 18 & 63]);
  out.push_back(kAlphabet[bits >> 12 & 63]);
  out.push_back(two ? kAlphabet[bits >> 6 & 63] : '=');
  out.push_back('=');
}

Error corrupt(const std::string& source, std::size_t line, std::string message) {
  return Error{ErrorKind::kCorrupt, std::move(message), fmt::format("{}:{}", source, line)};
}

std::vector<SpecialToken> known_specials(SplitFamily family) {
  switch (family) {
    case SplitFamily::kR50k: return {{"<|endoftext|>", 50256}};
    case SplitFamily::kCl100k:
      return {{"<|endoftext|>", 100257},
              {"<|fim_prefix|>", 100258},
              {"<|fim_middle|>", 100259},
              {"<|fim_suffix|>", 100260},
              {"<|endofprompt|>", 100276}};
    case SplitFamily::kO200k: return {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}};
    case SplitFamily::kNone:
    case SplitFamily::kQwen2:
    case SplitFamily::kPattern: break;
  }
  return {};
}

std::filesystem::path side_path(const std::filesystem::path& path) {
  std::filesystem::path side = path;
  return side.replace_extension(".json");
}

}  // namespace

Result<std::vector<std::string>> parse_tiktoken(std::string_view text, const std::string& source) {
  std::vector<std::string> tokens;
  std::vector<std::size_t> line_of;  // 0 = rank not seen
  std::size_t line = 0, seen = 0;
  const auto num_lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) +
                         (text.empty() || text.ends_with('\n') ? 0 : 1);
  while (!text.empty()) {
    ++line;
    const std::size_t end = text.find('\n');
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::size_t space = row.find(' ');
    if (space == std::string_view::npos)
      return corrupt(source, line, "a line is not `base64 SPACE rank`");
    std::uint32_t rank = 0;
    const char* last = row.data() + row.size();
    const auto [stop, bad] = std::from_chars(row.data() + space + 1, last, rank);
    if (bad != std::errc() || stop != last)
      return corrupt(source, line, "the rank is not a number");
    if (rank >= Vocab::kMaxTokens || rank >= num_lines) {
      return corrupt(source, line,
                     fmt::format("rank {} is too large for {} lines", rank, num_lines));
    }
    auto bytes = decode_base64(row.substr(0, space));
    if (!bytes) return corrupt(source, line, "the token is not base64");
    if (rank >= tokens.size()) {
      tokens.resize(rank + 1);
      line_of.resize(rank + 1);
    }
    if (line_of[rank] != 0) {
      return corrupt(source, line,
                     fmt::format("rank {} was given in line {} already", rank, line_of[rank]));
    }
    line_of[rank] = line;
    tokens[rank] = std::move(*bytes);
    ++seen;
  }
  if (seen != tokens.size()) {
    std::size_t rank = 0;
    while (line_of[rank] != 0) ++rank;
    return corrupt(source, line, fmt::format("rank {} is missing", rank));
  }
  auto vocab = Vocab::make(tokens, {}, SplitFamily::kNone);
  if (!vocab) return corrupt(source, line, vocab.error().message);
  return tokens;
}

std::string format_tiktoken(const Vocab& vocab) {
  std::string out;
  for (TokenId id = 0; id < vocab.num_ordinary(); ++id) {
    append_base64(out, vocab.token(id));
    fmt::format_to(std::back_inserter(out), " {}\n", id);
  }
  return out;
}

Result<TiktokenSide> parse_tiktoken_side(std::string_view json, const std::string& source) {
  const auto fail = [&](std::string message) {
    return Error{ErrorKind::kCorrupt, std::move(message), source};
  };
  const auto tree = nlohmann::json::parse(json, nullptr, false);
  if (tree.is_discarded() || !tree.is_object()) return fail("not a JSON object");
  TiktokenSide side;
  const auto pattern = tree.find("pat_str");
  if (pattern == tree.end() || !pattern->is_string()) return fail("$.pat_str is not a string");
  side.pattern = pattern->get<std::string>();
  const auto specials = tree.find("special_tokens");
  if (specials == tree.end()) return side;
  if (!specials->is_object()) return fail("$.special_tokens is not an object");
  for (const auto& [text, id] : specials->items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > 0xffffffffu) {
      return fail(fmt::format("$.special_tokens[\"{}\"] is not an id", text));
    }
    side.specials.push_back({text, id.get<TokenId>()});
  }
  return side;
}

std::string format_tiktoken_side(const Vocab& vocab) {
  nlohmann::ordered_json tree;
  tree["pat_str"] = std::string(vocab.split().pattern());
  tree["special_tokens"] = nlohmann::ordered_json::object();
  for (const SpecialToken& special : vocab.specials())
    tree["special_tokens"][special.text] = special.id;
  return tree.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<Vocab> read_tiktoken(const std::filesystem::path& path) {
  SX_TRY(const std::string text, read_file(path, kMaxFileBytes));
  SX_TRY(std::vector<std::string> tokens, parse_tiktoken(text, path.string()));
  SplitRule rule;
  std::vector<SpecialToken> specials;
  const std::filesystem::path side_file = side_path(path);
  auto json = read_file(side_file, kMaxSideBytes);
  if (json) {
    SX_TRY(TiktokenSide side, parse_tiktoken_side(*json, side_file.string()));
    auto made = SplitRule::from_pattern(side.pattern);
    if (!made) {
      Error error = made.error();
      error.where = side_file.string() + ": $.pat_str";
      return error;
    }
    rule = std::move(*made);
    specials = std::move(side.specials);
  } else if (json.error().kind != ErrorKind::kNotFound) {
    return std::move(json).error();
  } else {
    const auto known = parse_split_family(path.stem().string());
    if (!known) {
      return Error{ErrorKind::kNotFound,
                   fmt::format("no {} beside the rank file to name its pattern",
                               side_file.filename().string()),
                   path.string()};
    }
    rule = *known;
    specials = known_specials(*known);
  }
  auto vocab = Vocab::make(std::move(tokens), std::move(specials), std::move(rule));
  if (!vocab) return Error{ErrorKind::kCorrupt, vocab.error().message, side_file.string()};
  return vocab;
}

Result<void> write_tiktoken(const Vocab& vocab, const std::filesystem::path& path) {
  SX_TRY_VOID(write_file_atomic(side_path(path), format_tiktoken_side(vocab)));
  return write_file_atomic(path, format_tiktoken(vocab));
}

}  // namespace sx
