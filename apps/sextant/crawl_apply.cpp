#include "apps/sextant/crawl_apply.h"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/program/program.h"
#include "sextant/crawl/charset.h"
#include "sextant/crawl/extract.h"
#include "sextant/crawl/extract/main_content.h"
#include "sextant/crawl/pii.h"
#include "sextant/crawl/policy.h"
#include "sextant/text/utf8.h"

namespace sx {

namespace {

using Json = nlohmann::ordered_json;

/// What an input line asks for.
struct ApplyInput {
  std::string text;   // of "text", valid UTF-8
  std::string bytes;  // of "bytes_b64"
  bool has_bytes = false;
  Json line;
};

Result<std::string> from_base64(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    int value = -1;
    if (c >= 'A' && c <= 'Z') value = c - 'A';
    if (c >= 'a' && c <= 'z') value = c - 'a' + 26;
    if (c >= '0' && c <= '9') value = c - '0' + 52;
    if (c == '+' || c == '-') value = 62;
    if (c == '/' || c == '_') value = 63;
    if (c == '=' || c == '\n') continue;
    if (value < 0) return Error{ErrorKind::kInvalid, "bytes_b64 is not base64", ""};
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if (++count % 4 == 0) {
      out += static_cast<char>(bits >> 16);
      out += static_cast<char>(bits >> 8);
      out += static_cast<char>(bits);
    }
  }
  if (count % 4 == 2) out += static_cast<char>(bits >> 4);
  if (count % 4 == 3) {
    out += static_cast<char>(bits >> 10);
    out += static_cast<char>(bits >> 2);
  }
  return out;
}

Result<ApplyInput> parse_apply_line(const std::string& line) {
  ApplyInput input;
  input.line = Json::parse(line, nullptr, false);
  if (!input.line.is_object()) return Error{ErrorKind::kInvalid, "a line is no JSON object", ""};
  if (input.line.contains("bytes_b64") && input.line["bytes_b64"].is_string()) {
    SX_TRY(input.bytes, from_base64(input.line["bytes_b64"].get<std::string>()));
    input.has_bytes = true;
  } else if (input.line.contains("text") && input.line["text"].is_string()) {
    input.text = input.line["text"].get<std::string>();
    input.bytes = input.text;
  } else {
    return Error{ErrorKind::kInvalid, "a line has neither text nor bytes_b64", ""};
  }
  return input;
}

Result<std::string> decoded(const ApplyInput& input, bool is_html) {
  if (!input.has_bytes) return input.text;
  CharsetOptions options;
  options.order = {"utf8", "detect"};
  DecodedPage page;
  const Verdict verdict = decode_page(input.bytes, "", is_html, options, "", page);
  if (!verdict.kept()) return Error{ErrorKind::kInvalid, to_string(verdict.reason), verdict.value};
  return page.text;
}

Result<Json> apply_text(const ApplyInput& input) {
  SX_TRY(const std::string html, decoded(input, true));
  HtmlParser parser;
  Extraction extraction;
  extract_html(parser.parse(html), extraction);
  return Json{{"text", extraction.text}};
}

Result<Json> apply_decode(const ApplyInput& input) {
  SX_TRY(std::string text, decoded(input, false));
  return Json{{"text", std::move(text)}};
}

Result<Json> apply_rules(const ApplyInput& input, const std::string& standard) {
  std::vector<std::string> words{standard};
  if (input.line.contains("preset") && input.line["preset"].is_string())
    words = {input.line["preset"].get<std::string>()};
  if (input.line.contains("policy") && input.line["policy"].is_array())
    words = input.line["policy"].get<std::vector<std::string>>();
  SX_TRY(const Policy policy, parse_policy(words));
  PolicyText page;
  page.text = input.text;
  page.language = input.line.value("language", "en");
  const Verdict verdict = apply_policy(policy, page);
  Json out{
      {"keep", verdict.kept()}, {"reason", to_string(verdict.reason)}, {"value", verdict.value}};
  if (verdict.kept()) out["text"] = page.text;
  return out;
}

Result<Json> apply_main_text(const ApplyInput& input) {
  SX_TRY(const std::string html, decoded(input, true));
  HtmlParser parser;
  const MainContent content = main_content(parser.parse(html).document, input.line.value("url", ""),
                                           ContentModel::standard());
  return Json{
      {"text", content.text}, {"confidence", content.confidence}, {"way", to_string(content.way)}};
}

Result<Json> apply_mask(const ApplyInput& input, PiiKind kind) {
  PiiOptions options;
  options.kinds = {kind};
  const std::string preset = input.line.value("preset", "cs336");
  options.preset = preset == "datatrove" ? PiiPreset::kDatatrove
                   : preset == "sextant" ? PiiPreset::kSextant
                                         : PiiPreset::kCs336;
  PiiCounts counts{};
  std::string text = replace_pii(input.text, options, counts);
  return Json{{"text", std::move(text)}, {"count", counts[static_cast<std::size_t>(kind)]}};
}

Result<Json> apply_one(const std::string& function, const ApplyInput& input) {
  if (function == "text") return apply_text(input);
  if (function == "decode") return apply_decode(input);
  if (function == "main-text") return apply_main_text(input);
  if (function == "mask-emails") return apply_mask(input, PiiKind::kEmail);
  if (function == "mask-phones") return apply_mask(input, PiiKind::kPhone);
  if (function == "mask-ips") return apply_mask(input, PiiKind::kIp);
  if (function == "gopher") return apply_rules(input, "cs336");
  return apply_rules(input, "sextant");
}

}  // namespace

int run_crawl_apply(const Invocation& invocation) {
  const std::string function = invocation.inputs.front();
  const std::vector<std::string> known{"text",        "main-text", "decode", "mask-emails",
                                       "mask-phones", "mask-ips",  "gopher", "rules"};
  if (std::find(known.begin(), known.end(), function) == known.end())
    throw ConfigError(Diagnostic{.number = 3,
                                 .what = fmt::format("no function is named \"{}\"", function),
                                 .where = "sextant crawl apply FN",
                                 .rule = fmt::format("functions: {}", fmt::join(known, ", ")),
                                 .next = "sextant crawl apply text < lines.jsonl"});
  std::string line;
  std::size_t number = 0;
  bool sound = true;
  while (std::getline(std::cin, line)) {
    ++number;
    auto input = parse_apply_line(line);
    auto result = input.ok() ? apply_one(function, *input) : Result<Json>(input.error());
    if (!result.ok()) sound = false;
    const Json out =
        result.ok() ? *result : Json{{"error", result.error().message}, {"line", number}};
    print(out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  return sound ? 0 : static_cast<int>(ExitCode::kUser);
}

}  // namespace sx
