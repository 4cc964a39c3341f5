#include "apps/sextant/cmd_data.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "apps/program/program.h"
#include "apps/sextant/data_commands.h"
#include "sextant/base/check.h"
#include "sextant/base/diagnostic.h"
#include "sextant/data/dataset_summary.h"
#include "sextant/token/tokenizer.h"

namespace sx {
namespace {

constexpr std::size_t kShownBytes = 200;

std::optional<Tokenizer> tokenizer_of(const Invocation& call) {
  if (!call.has("tokenizer")) return std::nullopt;
  return take_data(Tokenizer::load(call.text("tokenizer")));
}

struct FirstDocument {
  std::uint64_t tokens = 0;
  std::string text;
};

std::vector<FirstDocument> first_documents(const IndexedDataset& dataset,
                                           const Tokenizer& tokenizer, std::int64_t count) {
  std::vector<FirstDocument> shown;
  const auto end =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(count), dataset.num_documents());
  for (std::uint64_t k = 0; k < end; ++k) {
    FirstDocument document;
    std::vector<TokenId> ids;
    for (std::int64_t i = dataset.document_mark(k); i < dataset.document_mark(k + 1); ++i) {
      std::vector<std::int32_t> tokens(
          static_cast<std::size_t>(dataset.sequence_length(static_cast<std::uint64_t>(i))));
      if (const auto read = dataset.read_sequence(static_cast<std::uint64_t>(i), 0, tokens);
          !read.ok()) {
        fail_data(read.error());
      }
      document.tokens += tokens.size();
      ids.insert(ids.end(), tokens.begin(), tokens.end());
      if (ids.size() > 4 * kShownBytes) ids.resize(4 * kShownBytes);
    }
    document.text = one_line(tokenizer.decode_lossy(ids));
    shown.push_back(std::move(document));
  }
  return shown;
}

int inspect(const Invocation& call) {
  const std::optional<Tokenizer> tokenizer = tokenizer_of(call);
  for (const std::string& input : call.inputs) {
    const auto dataset = take_data(IndexedDataset::open(input));
    const DatasetSummary summary = take_data(summarize_dataset(dataset, call.has("full")));
    std::vector<FirstDocument> documents;
    if (tokenizer) documents = first_documents(dataset, *tokenizer, call.integer("documents", 3));
    if (tokenizer && call.has("full")) {
      if (const auto checked =
              dataset.check_tokens(static_cast<std::int64_t>(tokenizer->vocab_size()));
          !checked.ok()) {
        fail_data(checked.error());
      }
    }
    if (call.json) {
      nlohmann::ordered_json json = summary.to_json();
      for (const FirstDocument& document : documents) {
        json["first_documents"].push_back({{"tokens", document.tokens}, {"text", document.text}});
      }
      print(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
      continue;
    }
    print(summary.to_text());
    for (std::size_t k = 0; k < documents.size(); ++k) {
      print(fmt::format("  document {} ({} tokens): {}\n", k, documents[k].tokens,
                        documents[k].text));
    }
  }
  return 0;
}

/// Every entry of the index and, with a tokenizer, every token: exit 5 when a pair has a fault.
int lint(const Invocation& call) {
  const std::optional<Tokenizer> tokenizer = tokenizer_of(call);
  int faults = 0;
  for (const std::string& input : call.inputs) {
    std::optional<Error> error;
    std::string warning;
    const auto dataset = IndexedDataset::open(input);
    if (!dataset.ok()) {
      if (dataset.error().kind == ErrorKind::kNotFound || dataset.error().kind == ErrorKind::kIo)
        fail_data(dataset.error());
      error = dataset.error();
    } else if (const auto structure = dataset->check_structure(); !structure.ok()) {
      error = structure.error();
    } else {
      if (structure->num_gaps > 0)
        warning = fmt::format("{} gaps, first before sequence {}", structure->num_gaps,
                              structure->first_gap);
      if (tokenizer) {
        const auto checked =
            dataset->check_tokens(static_cast<std::int64_t>(tokenizer->vocab_size()));
        if (!checked.ok()) error = checked.error();
      }
    }
    faults += error ? 1 : 0;
    if (call.json) {
      nlohmann::ordered_json json{{"prefix", input}, {"ok", !error}};
      if (error) json.update({{"fault", error->message}, {"where", error->where}});
      if (!warning.empty()) json["warning"] = warning;
      print(json.dump() + "\n");
    } else {
      print(error ? fmt::format("{}: {} ({})\n", input, error->message, error->where)
                  : fmt::format("{}: ok{}\n", input, warning.empty() ? "" : ", " + warning));
    }
  }
  return static_cast<int>(faults > 0 ? ExitCode::kVerdict : ExitCode::kOk);
}

}  // namespace

void fail_data(const Error& error) {
  throw_fault(to_diagnostic(error, "sextant data lint PREFIX, or write the pair again"));
}

std::string one_line(std::string_view text) {
  std::size_t size = std::min(text.size(), kShownBytes);
  while (size < text.size() && size > 0 && (text[size] & 0xc0) == 0x80) --size;
  std::string line;
  for (const char c : text.substr(0, size)) {
    if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) >= ' ') {
      line += c;
    }
  }
  return size < text.size() ? line + " ..." : line;
}

int run_data(const Invocation& invocation) {
  const std::pair<const char*, int (*)(const Invocation&)> subs[] = {
      {"inspect", inspect},  {"lint", lint},        {"stats", data_stats},
      {"cat", data_cat},     {"diff", data_diff},   {"build", data_build},
      {"order", data_order}, {"where", data_where}, {"verify", data_verify}};
  for (const auto& [name, run] : subs) {
    if (invocation.sub->name == name) return run(invocation);
  }
  SX_CHECK(false, "the verb table names data {}, which has no code", invocation.sub->name);
  return 1;
}

}  // namespace sx
