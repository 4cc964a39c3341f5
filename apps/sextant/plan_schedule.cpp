#include "apps/sextant/plan_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/program/program.h"
#include "sextant/base/diagnostic.h"
#include "sextant/base/fs.h"
#include "sextant/schedule/csv.h"
#include "sextant/schedule/simulate.h"
#include "sextant/schedule/validate.h"

namespace sx {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kUnit = 1'000'000;  // of unit_times: F of a whole rank

Schedule read_schedule(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text.ok()) throw FatalError(to_diagnostic(text.error(), "name a schedule or a .csv file"));
  Result<Schedule> schedule = from_csv(*text, path);
  if (!schedule.ok()) {
    Error error = schedule.error();
    error.where = error.where.empty() ? path : path + ", " + error.where;
    throw FatalError(to_diagnostic(error, "each cell is stage, kind and microbatch: 0F0, 1B3"));
  }
  return std::move(schedule).value();
}

Schedule schedule_of(const Invocation& call) {
  const std::string& name = call.inputs.front();
  if (name.ends_with(".csv")) return read_schedule(name);
  const auto number = [&](const char* flag, std::int64_t fallback) {
    return static_cast<std::int32_t>(call.integer(flag, fallback));
  };
  const ScheduleRequest request{name, number("ranks", 4), number("chunks", 1),
                                number("microbatches", 8), number("group", 0)};
  Result<Schedule> schedule = make_schedule(request);
  if (!schedule.ok()) {
    throw ConfigError(
        Diagnostic{.number = 22,
                   .what = schedule.error().message,
                   .where = "command line",
                   .rule = fmt::format("schedules are {}", fmt::join(schedule_names(), ", ")),
                   .next = "sextant plan schedule 1f1b"});
  }
  if (has_costly_last_group(request)) {
    print_fault(
        Diagnostic{.number = 22,
                   .what = fmt::format(
                       "the last group has {} microbatches for {} ranks",
                       request.microbatches % (request.group == 0 ? request.ranks : request.group),
                       request.ranks),
                   .where = "--microbatches, --group",
                   .rule = "a last group of fewer microbatches than ranks lets ranks wait",
                   .next = fmt::format("--microbatches={}",
                                       request.microbatches / request.ranks * request.ranks)},
        "warn", call.color);
  }
  return std::move(schedule).value();
}

/// One row a rank, one column the F of one stage: F as a digit, I (and B, twice as long) as a
/// small letter, W as a capital one, by microbatch modulo ten.
std::string chart(const Schedule& schedule, const Timeline& timeline) {
  const std::int64_t column = unit_times(schedule, kUnit).times.front().forward;
  const std::int64_t columns = timeline.makespan / column;
  constexpr std::int64_t kWidest = 150;
  if (columns > kWidest || schedule.ranks > 64) return "";
  std::string text = "\n";
  for (std::size_t rank = 0; rank < schedule.ops.size(); ++rank) {
    std::string row(static_cast<std::size_t>(columns), '.');
    for (std::size_t i = 0; i < schedule.ops[rank].size(); ++i) {
      const Op& op = schedule.ops[rank][i];
      const Span& span = timeline.spans[rank][i];
      const char first = op.kind == OpKind::kForward          ? '0'
                         : op.kind == OpKind::kBackwardWeight ? 'A'
                                                              : 'a';
      for (std::int64_t at = span.begin / column; at < span.end / column; ++at)
        row[static_cast<std::size_t>(at)] = static_cast<char>(first + op.microbatch % 10);
    }
    text += fmt::format("{:>4}  {}\n", rank, row);
  }
  return text + "      forward 0-9, backward a-j, backward of weights apart A-J, by microbatch\n";
}

std::string in_units(std::int64_t time) {
  return fmt::format("{:.4g}", static_cast<double>(time) / kUnit);
}

std::string schedule_text(const Schedule& schedule, const Timeline& timeline) {
  std::vector<std::string> idle;
  for (const std::int64_t time : timeline.idle) idle.push_back(in_units(time));
  return fmt::format(
             "schedule     {}: {} ranks, {} stages, {} microbatches\n"
             "step         {} (one unit: the forward of all a rank's stages; backward takes two)\n"
             "excess       {} over the busiest rank's work, {:.1f} % of the step\n"
             "idle         {} by rank, between its first and last op\n"
             "activations  {} at most, in stages of 1/{} rank\n",
             schedule.name, schedule.ranks, schedule.num_stages(), schedule.microbatches,
             in_units(timeline.makespan), in_units(timeline.excess),
             100.0 * static_cast<double>(timeline.excess) / static_cast<double>(timeline.makespan),
             fmt::join(idle, " "), fmt::join(timeline.peak_activations, " "),
             std::max(1, schedule.num_stages() / schedule.ranks)) +
         chart(schedule, timeline);
}

Json schedule_json(const Schedule& schedule, const Timeline& timeline) {
  const auto units = [](std::int64_t time) { return static_cast<double>(time) / kUnit; };
  Json json{{"name", schedule.name},
            {"ranks", schedule.ranks},
            {"stages", schedule.num_stages()},
            {"microbatches", schedule.microbatches},
            {"step", units(timeline.makespan)},
            {"excess", units(timeline.excess)},
            {"peak_activations", timeline.peak_activations}};
  for (const std::int64_t time : timeline.idle) json["idle"].push_back(units(time));
  for (std::size_t rank = 0; rank < schedule.ops.size(); ++rank) {
    Json ops = Json::array();
    for (std::size_t i = 0; i < schedule.ops[rank].size(); ++i) {
      const Span& span = timeline.spans[rank][i];
      ops.push_back({{"op", schedule.ops[rank][i].to_string()},
                     {"begin", units(span.begin)},
                     {"end", units(span.end)}});
    }
    json["ops"].push_back(std::move(ops));
  }
  return json;
}

}  // namespace

int plan_schedule(const Invocation& call) {
  const Schedule schedule = schedule_of(call);
  if (const std::vector<std::string> faults = validate(schedule); !faults.empty()) {
    throw ConfigError(
        Diagnostic{.number = 22,
                   .what = fmt::format("{}: {}", schedule.name, fmt::join(faults, "; ")),
                   .where = "command line",
                   .rule = "every stage and microbatch runs forward and backward once, "
                           "in an order that ends",
                   .next = "correct the table"});
  }
  if (call.has("csv")) {
    print(to_csv(schedule));
    return 0;
  }
  SimulateOptions options = unit_times(schedule, kUnit);
  options.spans = true;
  const Timeline timeline = simulate(schedule, options).value();
  print(call.json ? schedule_json(schedule, timeline).dump() + "\n"
                  : schedule_text(schedule, timeline));
  return 0;
}

}  // namespace sx
