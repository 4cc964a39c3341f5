#include "sextant/crawl/pii.h"

#include <algorithm>

#include <fmt/format.h>

#include "sextant/base/hash.h"

namespace sx {

namespace {

constexpr std::array<std::string_view, 2> kPeerEmails = {"email@example.com",
                                                         "firstname.lastname@example.org"};
constexpr std::array<std::string_view, 6> kPeerIps = {"22.214.171.124", "126.96.36.199",
                                                      "188.8.131.52",   "184.108.40.206",
                                                      "220.127.116.11", "18.104.22.168"};

bool wants(const PiiOptions& options, PiiKind kind) {
  return options.kinds.empty() ||
         std::find(options.kinds.begin(), options.kinds.end(), kind) != options.kinds.end();
}

void add_spans(const TextSpans& found, PiiKind kind, std::vector<PiiSpan>& out) {
  for (const TextSpan& span : found) out.push_back({span.begin, span.end, kind});
}

/// datatrove's two passes, each with its own replacements in turn.
std::string replace_like_datatrove(std::string_view text, const PiiOptions& options,
                                   PiiCounts& counts) {
  const auto pass = [&](std::string_view from, PiiKind kind, auto scan, auto replacements) {
    std::string out;
    std::size_t pos = 0;
    std::size_t turn = 0;
    for (const TextSpan& span : scan(from)) {
      out += from.substr(pos, span.begin - pos);
      out += options.mode == PiiMode::kPseudonym
                 ? pii_pseudonym(from.substr(span.begin, span.end - span.begin), kind, options.key)
                 : std::string(replacements[turn++ % replacements.size()]);
      pos = span.end;
      ++counts[static_cast<std::size_t>(kind)];
    }
    return out += from.substr(pos);
  };
  std::string out(text);
  if (wants(options, PiiKind::kEmail))
    out = pass(out, PiiKind::kEmail, scan_emails_datatrove, kPeerEmails);
  if (wants(options, PiiKind::kIp)) out = pass(out, PiiKind::kIp, scan_ipv4_datatrove, kPeerIps);
  return out;
}

}  // namespace

const char* to_string(PiiKind kind) {
  switch (kind) {
#define SX_PII_TEXT(name, text, token) \
  case PiiKind::name: return text;
    SX_PII_KINDS(SX_PII_TEXT)
#undef SX_PII_TEXT
    default: return "";
  }
}

std::string_view pii_token(PiiKind kind) {
  switch (kind) {
#define SX_PII_TOKEN(name, text, token) \
  case PiiKind::name: return token;
    SX_PII_KINDS(SX_PII_TOKEN)
#undef SX_PII_TOKEN
    default: return "";
  }
}

std::vector<PiiSpan> find_pii(std::string_view text, const PiiOptions& options) {
  std::vector<PiiSpan> all;
  const bool own = options.preset == PiiPreset::kSextant;
  const bool peer = options.preset == PiiPreset::kDatatrove;
  if (wants(options, PiiKind::kEmail))
    add_spans(peer ? scan_emails_datatrove(text) : scan_emails(text), PiiKind::kEmail, all);
  if (wants(options, PiiKind::kIp))
    add_spans(peer ? scan_ipv4_datatrove(text) : scan_ipv4(text), PiiKind::kIp, all);
  if (!peer && wants(options, PiiKind::kPhone))
    add_spans(own ? scan_phones(text) : scan_phones_cs336(text), PiiKind::kPhone, all);
  if (own) {
    if (wants(options, PiiKind::kIp)) add_spans(scan_ipv6(text), PiiKind::kIp, all);
    if (wants(options, PiiKind::kIban)) add_spans(scan_ibans(text), PiiKind::kIban, all);
    if (wants(options, PiiKind::kCard)) add_spans(scan_cards(text), PiiKind::kCard, all);
    if (wants(options, PiiKind::kKey)) add_spans(scan_keys(text), PiiKind::kKey, all);
  }
  std::stable_sort(all.begin(), all.end(), [](const PiiSpan& a, const PiiSpan& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<PiiSpan> out;
  for (const PiiSpan& span : all) {
    if (out.empty() || span.begin >= out.back().end) out.push_back(span);
  }
  return out;
}

std::string pii_pseudonym(std::string_view original, PiiKind kind, std::uint64_t key) {
  const std::uint64_t hash = xxh64(original, key);
  switch (kind) {
    case PiiKind::kEmail:
      return fmt::format("user-{:08x}@example.org", static_cast<std::uint32_t>(hash));
    case PiiKind::kPhone: return fmt::format("555-01{:02}", hash % 100);
    case PiiKind::kIp:
      if (original.find(':') != std::string_view::npos)
        return fmt::format("2001:db8::{:x}:{:x}", hash & 0xFFFF, hash >> 16 & 0xFFFF);
      return fmt::format("198.{}.{}.{}", 18 + (hash & 1), hash >> 8 & 0xFF, hash >> 16 & 0xFF);
    default: return fmt::format("{}-{:08x}", to_string(kind), static_cast<std::uint32_t>(hash));
  }
}

std::string replace_pii(std::string_view text, const PiiOptions& options, PiiCounts& counts) {
  const bool replaces = options.mode == PiiMode::kMask || options.mode == PiiMode::kPseudonym;
  if (options.preset == PiiPreset::kDatatrove && replaces)
    return replace_like_datatrove(text, options, counts);
  std::string out;
  std::size_t pos = 0;
  for (const PiiSpan& span : find_pii(text, options)) {
    ++counts[static_cast<std::size_t>(span.kind)];
    if (!replaces) continue;
    out += text.substr(pos, span.begin - pos);
    out +=
        options.mode == PiiMode::kMask
            ? std::string(pii_token(span.kind))
            : pii_pseudonym(text.substr(span.begin, span.end - span.begin), span.kind, options.key);
    pos = span.end;
  }
  return out += text.substr(pos);
}

}  // namespace sx
