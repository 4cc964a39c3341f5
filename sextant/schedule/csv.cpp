#include "sextant/schedule/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace sx {
namespace {

constexpr std::string_view kOverlap = "OVERLAP_F_B";
constexpr std::int64_t kMostCells = std::int64_t{1} << 24;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\"";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

/// A number at the front of the text, taken off it.
std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::optional<OpKind> kind_of(std::string_view word) {
  for (int i = 0; i < kNumOpKinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    const std::string text = Op{kind, 0, 0}.to_string();  // "0F0", "0UNSHARD"
    const std::size_t length = text.size() - (has_microbatch(kind) ? 2 : 1);
    if (word == std::string_view(text).substr(1, length)) return kind;
  }
  return std::nullopt;
}

std::optional<Op> parse_op(std::string_view text) {
  const std::optional<std::int32_t> stage = take_number(text);
  if (!stage) return std::nullopt;
  const std::size_t digits = text.find_first_of("0123456789");
  const std::optional<OpKind> kind = kind_of(text.substr(0, digits));
  if (!kind) return std::nullopt;
  if (!has_microbatch(*kind)) {
    return digits == std::string_view::npos ? std::optional(Op{*kind, *stage}) : std::nullopt;
  }
  if (digits == std::string_view::npos) return std::nullopt;
  text.remove_prefix(digits);
  const std::optional<std::int32_t> microbatch = take_number(text);
  if (!microbatch || !text.empty()) return std::nullopt;
  return Op{*kind, *stage, *microbatch};
}

/// The ops of one cell: one, or an overlapping pair.
std::optional<std::vector<Op>> parse_cell(std::string_view cell) {
  if (!cell.starts_with('(')) {
    const std::optional<Op> op = parse_op(cell);
    return op ? std::optional(std::vector<Op>{*op}) : std::nullopt;
  }
  const std::size_t middle = cell.find(';'), end = cell.find(')');
  if (middle == std::string_view::npos || end == std::string_view::npos || end < middle ||
      cell.substr(end + 1) != kOverlap) {
    return std::nullopt;
  }
  std::optional<Op> first = parse_op(trimmed(cell.substr(1, middle - 1)));
  const std::optional<Op> second = parse_op(trimmed(cell.substr(middle + 1, end - middle - 1)));
  if (!first || !second || first->kind != OpKind::kForward) return std::nullopt;
  first->overlap = true;
  return std::vector<Op>{*first, *second};
}

bool fits(const Schedule& schedule) {
  for (std::size_t rank = 0; rank < schedule.ops.size(); ++rank) {
    for (const Op& op : schedule.ops[rank]) {
      if (!has_microbatch(op.kind)) continue;
      if (schedule.rank_of(op.stage, op.microbatch) != static_cast<std::int32_t>(rank))
        return false;
    }
  }
  return true;
}

Result<void> infer_sizes(Schedule& schedule) {
  std::int32_t stages = 0, microbatches = 0;
  for (const std::vector<Op>& ops : schedule.ops) {
    for (const Op& op : ops) {
      stages = std::max(stages, op.stage == INT32_MAX ? op.stage : op.stage + 1);
      microbatches =
          std::max(microbatches, op.microbatch == INT32_MAX ? op.microbatch : op.microbatch + 1);
    }
  }
  schedule.ranks = static_cast<std::int32_t>(schedule.ops.size());
  schedule.microbatches = microbatches;
  if (schedule.ranks == 0 || microbatches == 0)
    return Error{ErrorKind::kInvalid, "the table has no op of a microbatch", {}};
  if (std::int64_t{stages} * microbatches > kMostCells) {
    return Error{ErrorKind::kLimit,
                 fmt::format("{} stages times {} microbatches; at most {}", stages, microbatches,
                             kMostCells),
                 {}};
  }
  schedule.chunks = stages / schedule.ranks;
  const std::array<Placement, 3> tried = {Placement::kLoop, Placement::kVee, Placement::kDual};
  for (const Placement placement : tried) {
    schedule.placement = placement;
    schedule.chunks = placement == Placement::kDual ? 2 : std::max(1, stages / schedule.ranks);
    if (schedule.num_stages() != stages) continue;
    if (placement == Placement::kVee && schedule.chunks != 2) continue;
    if (fits(schedule)) return {};
  }
  return Error{ErrorKind::kInvalid,
               fmt::format("no placement has {} stages on these {} ranks", stages, schedule.ranks),
               {}};
}

}  // namespace

std::string to_csv(const Schedule& schedule) {
  std::string text;
  for (const std::vector<Op>& ops : schedule.ops) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (i > 0) text += ',';
      if (ops[i].overlap && i + 1 < ops.size()) {
        text += fmt::format("({};{}){}", ops[i].to_string(), ops[i + 1].to_string(), kOverlap);
        ++i;
      } else {
        text += ops[i].to_string();
      }
    }
    text += '\n';
  }
  return text;
}

Result<Schedule> from_csv(std::string_view text, std::string name) {
  Schedule schedule;
  schedule.name = std::move(name);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    std::vector<Op>& ops = schedule.ops.emplace_back();
    for (std::size_t cell = 0; !line.empty(); ++cell) {
      const std::size_t comma = std::min(line.find(','), line.size());
      const std::string_view word = trimmed(line.substr(0, comma));
      line.remove_prefix(std::min(comma + 1, line.size()));
      if (word.empty()) continue;
      const std::optional<std::vector<Op>> parsed = parse_cell(word);
      if (!parsed) {
        return Error{ErrorKind::kCorrupt, fmt::format("\"{}\" is no op", word.substr(0, 40)),
                     fmt::format("row {}, cell {}", schedule.ops.size() - 1, cell)};
      }
      ops.insert(ops.end(), parsed->begin(), parsed->end());
    }
  }
  SX_TRY_VOID(infer_sizes(schedule));
  return schedule;
}

}  // namespace sx
