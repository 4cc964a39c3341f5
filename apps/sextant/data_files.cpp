// Sub-verbs that look at token files: stats, cat, diff.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "apps/program/program.h"
#include "apps/sextant/data_commands.h"
#include "sextant/base/exit_code.h"
#include "sextant/data/indexed_dataset.h"
#include "sextant/token/tokenizer.h"

namespace sx {

namespace {

std::optional<Tokenizer> tokenizer_given(const Invocation& call) {
  if (!call.has("tokenizer")) return std::nullopt;
  return take_data(Tokenizer::load(call.text("tokenizer")));
}

std::vector<std::int32_t> sequence_tokens(const IndexedDataset& dataset, std::uint64_t i) {
  if (const auto fits = dataset.check_sequence(i); !fits.ok()) fail_data(fits.error());
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(dataset.sequence_length(i)));
  if (const auto read = dataset.read_sequence(i, 0, tokens); !read.ok()) fail_data(read.error());
  return tokens;
}

struct IdCounts {
  std::vector<std::uint64_t> count;  ///< by id
  std::uint64_t tokens = 0;
  std::uint64_t distinct = 0;
  double entropy_bits = 0;  ///< of one token, by frequencies alone
  std::vector<std::int32_t> by_frequency;
};

IdCounts count_ids(const IndexedDataset& dataset) {
  IdCounts ids;
  for (std::uint64_t i = 0; i < dataset.num_sequences(); ++i) {
    for (const std::int32_t id : sequence_tokens(dataset, i)) {
      if (id < 0) {
        fail_data({ErrorKind::kCorrupt, fmt::format("sequence {} holds the id {}", i, id),
                   dataset.prefix() + ".bin"});
      }
      const auto at = static_cast<std::size_t>(id);
      if (at >= ids.count.size()) ids.count.resize(std::max(at + 1, 2 * ids.count.size()));
      ++ids.count[at];
      ++ids.tokens;
    }
  }
  for (std::size_t id = 0; id < ids.count.size(); ++id) {
    if (ids.count[id] == 0) continue;
    ids.by_frequency.push_back(static_cast<std::int32_t>(id));
    const double share = static_cast<double>(ids.count[id]) / static_cast<double>(ids.tokens);
    ids.entropy_bits -= share * std::log2(share);
  }
  ids.distinct = ids.by_frequency.size();
  std::ranges::stable_sort(ids.by_frequency, std::greater{}, [&](std::int32_t id) {
    return ids.count[static_cast<std::size_t>(id)];
  });
  return ids;
}

/// The first difference of two pairs, in words; empty when there is none.
std::string first_difference(const IndexedDataset& a, const IndexedDataset& b) {
  if (a.type() != b.type())
    return fmt::format("element type {}, {}", to_string(a.type()), to_string(b.type()));
  const std::uint64_t sequences = std::min(a.num_sequences(), b.num_sequences());
  for (std::uint64_t i = 0; i < sequences; ++i) {
    const std::vector<std::int32_t> left = sequence_tokens(a, i), right = sequence_tokens(b, i);
    const auto [l, r] = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
    if (l != left.end() && r != right.end()) {
      return fmt::format("sequence {}, token {}: {}, {}", i, l - left.begin(), *l, *r);
    }
    if (left.size() != right.size()) {
      return fmt::format("sequence {}: {} tokens, {}", i, left.size(), right.size());
    }
    if (a.sequence_mode(i) != b.sequence_mode(i)) {
      return fmt::format("sequence {}: mode {}, {}", i, a.sequence_mode(i), b.sequence_mode(i));
    }
  }
  if (a.num_sequences() != b.num_sequences()) {
    return fmt::format("{} sequences, {}", a.num_sequences(), b.num_sequences());
  }
  const std::uint64_t documents = std::min(a.num_documents(), b.num_documents());
  for (std::uint64_t k = 0; k <= documents; ++k) {
    if (a.document_mark(k) != b.document_mark(k)) {
      return fmt::format("document {} begins at sequence {}, {}", k, a.document_mark(k),
                         b.document_mark(k));
    }
  }
  if (a.num_documents() == b.num_documents()) return "";
  return fmt::format("{} documents, {}", a.num_documents(), b.num_documents());
}

}  // namespace

int data_stats(const Invocation& call) {
  const std::optional<Tokenizer> tokenizer = tokenizer_given(call);
  for (const std::string& input : call.inputs) {
    const auto dataset = take_data(IndexedDataset::open(input));
    const IdCounts ids = count_ids(dataset);
    nlohmann::ordered_json json{
        {"prefix", input},
        {"tokens", ids.tokens},
        {"distinct_ids", ids.distinct},
        {"largest_id", ids.count.empty() ? -1 : *std::ranges::max_element(ids.by_frequency)},
        {"entropy_bits", ids.entropy_bits}};
    std::string lines;
    const auto top = std::min<std::size_t>(static_cast<std::size_t>(call.integer("top", 10)),
                                           ids.by_frequency.size());
    json["most_frequent"] = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < top; ++i) {
      const std::int32_t id = ids.by_frequency[i];
      const std::uint64_t count = ids.count[static_cast<std::size_t>(id)];
      std::string text;
      if (tokenizer)
        text = one_line(tokenizer->decode_lossy(std::vector<TokenId>{static_cast<TokenId>(id)}));
      json["most_frequent"].push_back({{"id", id}, {"count", count}});
      if (tokenizer) json["most_frequent"].back()["text"] = text;
      lines +=
          fmt::format("  {:>9}  {:>12}  {:6.3f} %  {}\n", id, count,
                      100 * static_cast<double>(count) / static_cast<double>(ids.tokens), text);
    }
    print(call.json
              ? json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"
              : fmt::format("{}: {} tokens, {} distinct ids, {:.3f} bits a token by frequency\n{}",
                            input, ids.tokens, ids.distinct, ids.entropy_bits, lines));
  }
  return 0;
}

int data_cat(const Invocation& call) {
  const std::optional<Tokenizer> tokenizer = tokenizer_given(call);
  const auto dataset = take_data(IndexedDataset::open(call.inputs[0]));
  const auto k = static_cast<std::uint64_t>(call.integer("doc", 0));
  if (k >= dataset.num_documents()) {
    fail_data({ErrorKind::kInvalid, fmt::format("document {} of {}", k, dataset.num_documents()),
               call.inputs[0]});
  }
  std::vector<TokenId> ids;
  for (std::int64_t i = dataset.document_mark(k); i < dataset.document_mark(k + 1); ++i) {
    const auto tokens = sequence_tokens(dataset, static_cast<std::uint64_t>(i));
    ids.insert(ids.end(), tokens.begin(), tokens.end());
  }
  const std::string text = tokenizer ? tokenizer->decode_lossy(ids) : "";
  if (call.json) {
    nlohmann::ordered_json json{{"prefix", call.inputs[0]}, {"document", k}, {"tokens", ids}};
    if (tokenizer) json["text"] = text;
    print(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } else {
    print(tokenizer ? text + "\n" : fmt::format("{}\n", fmt::join(ids, " ")));
  }
  return 0;
}

int data_diff(const Invocation& call) {
  const auto a = take_data(IndexedDataset::open(call.inputs[0]));
  const auto b = take_data(IndexedDataset::open(call.inputs[1]));
  const std::string difference = first_difference(a, b);
  if (call.json) {
    nlohmann::ordered_json json{{"equal", difference.empty()}};
    if (!difference.empty()) json["difference"] = difference;
    print(json.dump() + "\n");
  } else {
    print(difference.empty() ? "equal\n" : difference + "\n");
  }
  return static_cast<int>(difference.empty() ? ExitCode::kOk : ExitCode::kVerdict);
}

}  // namespace sx
