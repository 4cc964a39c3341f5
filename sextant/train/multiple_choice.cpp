#include "sextant/train/multiple_choice.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/text/jsonl_reader.h"

namespace sx {
namespace {

Error bad_item(std::uint64_t line, const std::string& what, const fs::path& path) {
  return {ErrorKind::kCorrupt, fmt::format("line {}: {}", line, what), path.string()};
}

std::int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

Result<std::vector<std::int32_t>> encode(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<TokenId> ids;
  SX_TRY([[maybe_unused]] const auto stats, tokenizer.encode(text, ids));
  return std::vector<std::int32_t>(ids.begin(), ids.end());
}

Result<ChoiceItem::Choice> encode_choice(const Tokenizer& tokenizer, const std::string& context,
                                         const std::string& choice, std::int64_t max_positions) {
  const std::size_t end = context.find_last_not_of(" \t\r\n");
  const std::string before = end == std::string::npos ? "" : context.substr(0, end + 1);
  SX_TRY(std::vector<std::int32_t> tokens, encode(tokenizer, context + choice));
  SX_TRY(const std::vector<std::int32_t> head, encode(tokenizer, before));
  const auto whole = static_cast<std::int64_t>(tokens.size());
  ChoiceItem::Choice encoded;
  encoded.counted = whole - std::min<std::int64_t>(static_cast<std::int64_t>(head.size()), whole);
  if (encoded.counted == 0) {
    return Error{ErrorKind::kCorrupt, fmt::format("choice \"{}\" has no token", choice), ""};
  }
  if (encoded.counted == whole) {
    if (!tokenizer.eod_id()) {
      return Error{ErrorKind::kCorrupt, "an empty context, and no end-of-document token", ""};
    }
    tokens.insert(tokens.begin(), static_cast<std::int32_t>(*tokenizer.eod_id()));
  }
  const auto limit = static_cast<std::size_t>(max_positions) + 1;
  if (tokens.size() > limit)
    tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(limit));
  encoded.counted = std::min(encoded.counted, static_cast<std::int64_t>(tokens.size()) - 1);
  encoded.tokens = std::move(tokens);
  encoded.characters = std::max<std::int64_t>(count_characters(choice), 1);
  return encoded;
}

Result<std::int64_t> read_answer(const nlohmann::json& answer,
                                 const std::vector<std::string>& choices) {
  if (answer.is_number_integer()) {
    const auto idx = answer.get<std::int64_t>();
    if (idx >= 0 && idx < static_cast<std::int64_t>(choices.size())) return idx;
  } else if (answer.is_string()) {
    const auto at = std::find(choices.begin(), choices.end(), answer.get<std::string>());
    if (at != choices.end()) return at - choices.begin();
  }
  return Error{ErrorKind::kCorrupt, "\"answer\" is neither the index nor the text of a choice", ""};
}

Result<ChoiceItem> read_item(const std::string& line, const Tokenizer& tokenizer,
                             std::int64_t max_positions) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const bool form = json.is_object() && json.contains("context") && json["context"].is_string() &&
                    json.contains("choices") && json["choices"].is_array() &&
                    !json["choices"].empty() && json.contains("answer");
  if (!form) {
    return Error{ErrorKind::kCorrupt, "no object with \"context\", \"choices\" and \"answer\"", ""};
  }
  std::vector<std::string> texts;
  ChoiceItem item;
  for (const auto& choice : json["choices"]) {
    if (!choice.is_string()) return Error{ErrorKind::kCorrupt, "a choice that is no text", ""};
    texts.push_back(choice.get<std::string>());
    SX_TRY(auto encoded, encode_choice(tokenizer, json["context"].get<std::string>(), texts.back(),
                                       max_positions));
    item.choices.push_back(std::move(encoded));
  }
  SX_TRY(item.answer, read_answer(json["answer"], texts));
  return item;
}

/// Rows of one batch, filled up behind with zeros that nothing looks at.
struct ChoiceBatch {
  at::Tensor tokens_BS, targets_BS, mask_BS;
};

ChoiceBatch make_batch(std::span<const ChoiceItem::Choice* const> rows) {
  std::int64_t longest = 0;
  for (const auto* row : rows) {
    longest = std::max(longest, static_cast<std::int64_t>(row->tokens.size()) - 1);
  }
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  ChoiceBatch batch{at::zeros({num_rows, longest}, at::kLong),
                    at::zeros({num_rows, longest}, at::kLong),
                    at::zeros({num_rows, longest}, at::kByte)};
  auto* tokens = batch.tokens_BS.mutable_data_ptr<std::int64_t>();
  auto* targets = batch.targets_BS.mutable_data_ptr<std::int64_t>();
  auto* mask = batch.mask_BS.mutable_data_ptr<std::uint8_t>();
  for (const auto* row : rows) {
    const auto length = static_cast<std::int64_t>(row->tokens.size()) - 1;
    for (std::int64_t i = 0; i < length; ++i) {
      tokens[i] = row->tokens[static_cast<std::size_t>(i)];
      targets[i] = row->tokens[static_cast<std::size_t>(i + 1)];
      mask[i] = i >= length - row->counted ? 1 : 0;
    }
    tokens += longest;
    targets += longest;
    mask += longest;
  }
  return batch;
}

std::int64_t best(const std::vector<double>& scores) {
  return std::max_element(scores.begin(), scores.end()) - scores.begin();
}

std::vector<double> per_character(const ChoiceItem& item, std::vector<double> scores) {
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] /= static_cast<double>(item.choices[i].characters);
  }
  return scores;
}

}  // namespace

Result<std::vector<ChoiceItem>> read_choice_items(const fs::path& path, const Tokenizer& tokenizer,
                                                  std::int64_t max_positions) {
  SX_TRY(LineReader reader, LineReader::open(path));
  std::vector<ChoiceItem> items;
  while (true) {
    SX_TRY(const auto line, reader.next());
    if (!line) break;
    if (line->empty()) continue;
    auto item = read_item(std::string(*line), tokenizer, max_positions);
    if (!item.ok()) return bad_item(reader.line_number(), item.error().message, path);
    items.push_back(*std::move(item));
  }
  if (items.empty()) return bad_item(1, "no question", path);
  return items;
}

double ChoiceScores::acc() const {
  return static_cast<double>(correct) / static_cast<double>(log_likelihoods.size());
}
double ChoiceScores::acc_norm() const {
  return static_cast<double>(correct_normalised) / static_cast<double>(log_likelihoods.size());
}

ChoiceScores score_choices(RunContext& run, Decoder& model, std::span<const ChoiceItem> items,
                           std::int64_t rows) {
  SX_CHECK(rows >= 1, "batches of {} rows", rows);
  const c10::AutoGradMode no_grad(false);
  std::vector<const ChoiceItem::Choice*> all;
  for (const ChoiceItem& item : items) {
    for (const ChoiceItem::Choice& choice : item.choices) all.push_back(&choice);
  }
  const auto count = static_cast<std::int64_t>(all.size());
  const std::int64_t batches = (count + rows - 1) / rows;
  const std::int64_t world = run.world.degree();
  const at::Tensor scores = at::zeros({count}, at::kDouble);
  auto* score = scores.mutable_data_ptr<double>();
  for (std::int64_t first = 0; first < batches; first += world) {
    // All ranks run the model equally often: who has nothing left does batch 0 for nobody.
    const std::int64_t own = first + run.world.coord();
    const std::int64_t begin = own < batches ? own * rows : 0;
    const std::int64_t n = std::min(rows, count - begin);
    const ChoiceBatch batch = make_batch(
        std::span(all).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(n)));
    const at::Tensor losses_B =
        model.row_loss_sums({batch.tokens_BS, {}, {}}, batch.targets_BS, batch.mask_BS);
    if (own >= batches) continue;
    for (std::int64_t i = 0; i < n; ++i) score[begin + i] = -losses_B[i].item<double>();
  }
  // One rank's number and zeros: the sum is exact.
  run.world.start_all_reduce(scores, ReduceOp::kSum, {.unit = "choice scores"}).wait();

  ChoiceScores result;
  for (const ChoiceItem& item : items) {
    result.log_likelihoods.emplace_back(score, score + item.choices.size());
    score += item.choices.size();
    const std::vector<double>& own = result.log_likelihoods.back();
    result.correct += best(own) == item.answer ? 1 : 0;
    result.correct_normalised += best(per_character(item, own)) == item.answer ? 1 : 0;
  }
  return result;
}

std::string choice_lines(std::span<const ChoiceItem> items, const ChoiceScores& scores) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::vector<double>& own = scores.log_likelihoods[i];
    text += nlohmann::ordered_json{{"item", i},
                                   {"answer", items[i].answer},
                                   {"chosen", best(own)},
                                   {"chosen_norm", best(per_character(items[i], own))},
                                   {"log_likelihoods", own}}
                .dump() +
            "\n";
  }
  return text;
}

nlohmann::ordered_json choice_summary(const ChoiceScores& scores) {
  return {{"items", scores.log_likelihoods.size()},
          {"acc", scores.acc()},
          {"acc_norm", scores.acc_norm()}};
}

}  // namespace sx
