#include <fmt/format.h>

#include <algorithm>

#include "apps/sextant/tokenize_setup.h"
#include "sextant/base/fs.h"
#include "sextant/base/progress.h"
#include "sextant/base/signals.h"
#include "sextant/token/bpe.h"
#include "sextant/token/text_source.h"
#include "sextant/token/unicode_classes.h"

namespace sx {
namespace {

constexpr std::uint64_t kBatchBytes = std::uint64_t{4} << 20;

struct FileCount {
  std::string name;
  std::uint64_t documents = 0;
  std::uint64_t documents_bad = 0;
  EncodeStats stats;

  void add(const FileCount& other) {
    documents += other.documents;
    documents_bad += other.documents_bad;
    stats.bytes += other.stats.bytes;
    stats.tokens += other.stats.tokens;
    stats.invalid_bytes += other.stats.invalid_bytes;
  }
  double bytes_per_token() const {
    return stats.tokens == 0 ? 0
                             : static_cast<double>(stats.bytes) / static_cast<double>(stats.tokens);
  }
  nlohmann::ordered_json to_json() const {
    return {{"file", name},
            {"documents", documents},
            {"documents_bad", documents_bad},
            {"bytes", stats.bytes},
            {"tokens", stats.tokens},
            {"bytes_per_token", bytes_per_token()},
            {"invalid_bytes", stats.invalid_bytes}};
  }
};

// Encodes the texts over the pool and adds up; the ids are thrown away.
void count_texts(const Tokenizer& tokenizer, const EncodeOptions& options, std::size_t cache_slots,
                 const std::vector<std::string>& texts, ThreadPool& pool, FileCount& total) {
  const std::size_t num_ranges = std::min(texts.size(), pool.num_threads());
  std::vector<FileCount> counts(num_ranges);
  std::vector<std::optional<Error>> errors(num_ranges);
  pool.parallel_for(num_ranges, [&](std::size_t range) {
    Encoder encoder(tokenizer, options, cache_slots);
    std::vector<TokenId> ids;
    for (std::size_t i = texts.size() * range / num_ranges;
         i < texts.size() * (range + 1) / num_ranges; ++i) {
      ids.clear();
      auto stats = encoder.encode(texts[i], ids);
      if (!stats.ok()) {
        errors[range] = stats.error();
        return;
      }
      counts[range].add({.name = {}, .documents = 1, .documents_bad = 0, .stats = *stats});
    }
  });
  for (const std::optional<Error>& error : errors) {
    if (error) fail(*error, "--special text, or --special allow");
  }
  for (const FileCount& count : counts) total.add(count);
}

// nullopt when a signal came.
std::optional<FileCount> count_file(const Invocation& invocation, const Tokenizer& tokenizer,
                                    const fs::path& file, ThreadPool& pool) {
  TextSource source({file}, invocation.text("json-key", "text"));
  Progress progress("count " + file.filename().string(), "bytes", source.stored_bytes_total(),
                    invocation.quiet);
  FileCount count{.name = file.string()};
  std::uint64_t shown = 0;
  for (bool more = true; more;) {
    std::vector<std::string> texts;
    std::uint64_t bytes = 0;
    while (bytes < kBatchBytes) {
      auto text = source.next();
      if (!text.ok()) fail(text.error(), "sextant tokenize count with a whole file");
      more = text->has_value();
      if (!more) break;
      bytes += (*text)->size();
      texts.push_back(std::move(**text));
    }
    if (signals::stop_requested()) return std::nullopt;
    count_texts(tokenizer, encode_options(invocation),
                static_cast<std::size_t>(invocation.recipe->tokenizer.cache_slots), texts, pool,
                count);
    progress.add(source.stored_bytes_read() - shown);
    shown = source.stored_bytes_read();
  }
  count.documents_bad = source.bad_documents();
  return count;
}

std::string row(const FileCount& count) {
  return fmt::format("{:>14} {:>14} {:>8.3f} {:>10} {:>8} {:>6}  {}\n", count.stats.tokens,
                     count.stats.bytes, count.bytes_per_token(), count.documents,
                     count.stats.invalid_bytes, count.documents_bad, count.name);
}

// Tokens whose own bytes, as one piece, do not give them back: no text becomes one.
std::vector<TokenId> unreachable_tokens(const Tokenizer& tokenizer) {
  std::vector<TokenId> found;
  if (!tokenizer.has_vocab()) return found;
  const BpeMerger merger(tokenizer.vocab());
  BpeMerger::Scratch scratch;
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < tokenizer.num_ordinary(); ++id) {
    ids.clear();
    merger.merge(tokenizer.vocab().token(id), scratch, ids);
    if (ids.size() != 1) found.push_back(id);
  }
  return found;
}

std::vector<TokenId> longest_tokens(const Tokenizer& tokenizer, std::size_t how_many) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < tokenizer.num_ordinary(); ++id) {
    if (tokenizer.bytes_of(id)) ids.push_back(id);
  }
  std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
    return tokenizer.bytes_of(a)->size() > tokenizer.bytes_of(b)->size();
  });
  ids.resize(std::min(ids.size(), how_many));
  return ids;
}

std::size_t assigned_ids(const Tokenizer& tokenizer) {
  std::size_t count = 0;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) count += tokenizer.bytes_of(id) ? 1 : 0;
  return count;
}

}  // namespace

int tokenize_count(const Invocation& invocation) {
  const Tokenizer tokenizer = load_tokenizer(invocation);
  auto inputs = expand_inputs(invocation.inputs);
  if (!inputs.ok()) fail(inputs.error(), "name files that exist");
  ThreadPool pool(static_cast<std::size_t>(invocation.recipe->run.threads));
  FileCount total{.name = "total"};
  std::vector<FileCount> counts;
  for (const fs::path& file : *inputs) {
    auto count = count_file(invocation, tokenizer, file, pool);
    if (!count) return static_cast<int>(ExitCode::kInterrupt);
    total.add(*count);
    counts.push_back(std::move(*count));
  }
  if (invocation.json) {
    nlohmann::ordered_json result{{"files", nlohmann::ordered_json::array()},
                                  {"total", total.to_json()}};
    for (const FileCount& count : counts) result["files"].push_back(count.to_json());
    print_result(result.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                 "\n");
    return 0;
  }
  std::string text = fmt::format("{:>14} {:>14} {:>8} {:>10} {:>8} {:>6}\n", "tokens", "bytes",
                                 "b/token", "documents", "not utf8", "bad");
  for (const FileCount& count : counts) text += row(count);
  if (counts.size() > 1) text += row(total);
  print_result(text);
  return 0;
}

int tokenize_inspect(const Invocation& invocation) {
  const Tokenizer tokenizer = load_tokenizer(invocation);
  const std::vector<TokenId> unreachable = unreachable_tokens(tokenizer);
  const std::size_t assigned = assigned_ids(tokenizer);
  nlohmann::ordered_json facts{{"kind", tokenizer.kind()}};
  if (tokenizer.has_vocab()) facts["split"] = to_string(tokenizer.vocab().split().family());
  facts["unicode"] = unicode_version();
  facts["tokens"] = assigned - std::min(assigned, tokenizer.specials().size());
  facts["special_tokens"] = nlohmann::ordered_json::object();
  facts["vocab_size"] = tokenizer.vocab_size();
  facts["unassigned_ids"] = tokenizer.vocab_size() - assigned;
  facts["unreachable_tokens"] = unreachable;
  facts["fingerprint"] = tokenizer.fingerprint().hex();
  facts["longest"] = nlohmann::ordered_json::array();
  for (const SpecialToken& special : tokenizer.specials())
    facts["special_tokens"][special.text] = special.id;
  for (const TokenId id : longest_tokens(tokenizer, 10)) {
    const std::string_view bytes = *tokenizer.bytes_of(id);
    facts["longest"].push_back({{"id", id}, {"bytes", bytes.size()}, {"text", std::string(bytes)}});
  }
  if (invocation.json) {
    print_result(facts.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                 "\n");
    return 0;
  }
  std::string text;
  for (const char* key :
       {"kind", "split", "unicode", "tokens", "vocab_size", "unassigned_ids", "fingerprint"}) {
    if (!facts.contains(key)) continue;
    text += fmt::format("{:<16} {}\n", key,
                        facts[key].is_string() ? facts[key].get<std::string>() : facts[key].dump());
  }
  for (const SpecialToken& special : tokenizer.specials())
    text += fmt::format("special          {} {}\n", special.id, special.text);
  if (tokenizer.has_vocab()) text += fmt::format("unreachable      {}\n", unreachable.size());
  for (const std::string& note : tokenizer.notes())
    text += fmt::format("note             {}\n", note);
  for (const TokenId id : longest_tokens(tokenizer, 10)) {
    text += fmt::format("longest          {} ({} bytes) {}\n", id, tokenizer.bytes_of(id)->size(),
                        as_json(*tokenizer.bytes_of(id)));
  }
  print_result(text);
  return 0;
}

}  // namespace sx
