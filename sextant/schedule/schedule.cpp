#include "sextant/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sextant/base/check.h"
#include "sextant/schedule/generators.h"

namespace sx {
namespace {

struct KindRow {
  const char* text;
  bool compute;
  bool microbatch;
};
// The words are those of torch.distributed.pipelining.schedules.
constexpr std::array<KindRow, kNumOpKinds> kKinds = {{{"F", true, true},
                                                      {"B", true, true},
                                                      {"I", true, true},
                                                      {"W", true, true},
                                                      {"SEND_F", false, true},
                                                      {"RECV_F", false, true},
                                                      {"SEND_B", false, true},
                                                      {"RECV_B", false, true},
                                                      {"UNSHARD", false, false},
                                                      {"RESHARD", false, false},
                                                      {"REDUCE_GRAD", false, false}}};

const KindRow& row_of(OpKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

struct GeneratorRow {
  const char* name;
  Schedule (*make)(const ScheduleRequest&);
  std::int32_t chunks;  ///< that a rank has; 0: as asked
};
constexpr std::array<GeneratorRow, 11> kGenerators = {{{"gpipe", detail::make_gpipe, 1},
                                                       {"1f1b", detail::make_one_f_one_b, 1},
                                                       {"interleaved", detail::make_interleaved, 0},
                                                       {"zb_h1", detail::make_zb_h1, 1},
                                                       {"zero_bubble", detail::make_zb_h1, 1},
                                                       {"zb_h2", detail::make_zb_h2, 1},
                                                       {"zb_v", detail::make_zb_v, 2},
                                                       {"v_half", detail::make_v_half, 2},
                                                       {"v_min", detail::make_v_min, 2},
                                                       {"dualpipe", detail::make_dualpipe, 2},
                                                       {"dualpipev", detail::make_dualpipev, 2}}};

Error refused(std::string message) {
  return {.kind = ErrorKind::kInvalid, .message = std::move(message), .where = {}};
}

std::int32_t group_of(const ScheduleRequest& request) {
  return request.group == 0 ? request.ranks : request.group;
}

Result<void> check_group(const ScheduleRequest& request) {
  const std::int32_t group = group_of(request);
  if (group < request.ranks || group > request.microbatches) {
    return refused(fmt::format(
        "interleaved: groups of {} microbatches, which must be {} (ranks) to {} (microbatches)",
        group, request.ranks, request.microbatches));
  }
  return {};
}

Result<void> check_dual(const ScheduleRequest& request) {
  if (request.name == "dualpipe" && request.ranks % 2 != 0)
    return refused(fmt::format("dualpipe: {} ranks, which must be even", request.ranks));
  if (request.name == "dualpipe" && request.microbatches % 2 != 0)
    return refused(
        fmt::format("dualpipe: {} microbatches, which must be even", request.microbatches));
  if (request.microbatches < 2 * request.ranks) {
    return refused(fmt::format("{}: {} microbatches, which must be at least twice the {} ranks",
                               request.name, request.microbatches, request.ranks));
  }
  return {};
}

}  // namespace

bool is_compute(OpKind kind) { return row_of(kind).compute; }
bool has_microbatch(OpKind kind) { return row_of(kind).microbatch; }

std::string Op::to_string() const {
  const KindRow& row = row_of(kind);
  return row.microbatch ? fmt::format("{}{}{}", stage, row.text, microbatch)
                        : fmt::format("{}{}", stage, row.text);
}

std::int32_t Schedule::rank_of(std::int32_t stage, std::int32_t microbatch) const {
  switch (placement) {
    case Placement::kLoop: return stage % ranks;
    case Placement::kVee: return stage < ranks ? stage : 2 * ranks - 1 - stage;
    case Placement::kDual: return microbatch < microbatches / 2 ? stage : ranks - 1 - stage;
  }
  return 0;
}

bool Schedule::has_comm() const {
  return std::any_of(ops.begin(), ops.end(), [](const std::vector<Op>& list) {
    return std::any_of(list.begin(), list.end(), [](const Op& op) {
      return !is_compute(op.kind) && has_microbatch(op.kind);
    });
  });
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const GeneratorRow& row : kGenerators) names.emplace_back(row.name);
  return names;
}

Result<Schedule> make_schedule(const ScheduleRequest& request) {
  const auto row = std::find_if(kGenerators.begin(), kGenerators.end(),
                                [&](const GeneratorRow& r) { return request.name == r.name; });
  if (row == kGenerators.end()) {
    return Error{
        ErrorKind::kNotFound, fmt::format("no schedule is called \"{}\"", request.name), {}};
  }
  if (request.ranks < 1 || request.chunks < 1 || request.microbatches < 1)
    return refused("ranks, chunks and microbatches must be at least 1");
  if (row->chunks != 0 && request.chunks != 1 && request.chunks != row->chunks) {
    return refused(
        fmt::format("{}: {} stages a rank; it has {}", request.name, request.chunks, row->chunks));
  }
  if (row->make == detail::make_interleaved) SX_TRY_VOID(check_group(request));
  if (row->make == detail::make_dualpipe || row->make == detail::make_dualpipev)
    SX_TRY_VOID(check_dual(request));
  ScheduleRequest checked = request;
  checked.group = group_of(request);
  return row->make(checked);
}

bool has_costly_last_group(const ScheduleRequest& request) {
  const std::int32_t rest = request.microbatches % group_of(request);
  return request.name == "interleaved" && rest != 0 && rest < request.ranks;
}

namespace detail {

Schedule empty_schedule(const ScheduleRequest& request, Placement placement, std::int32_t chunks) {
  return {.name = request.name,
          .ranks = request.ranks,
          .chunks = chunks,
          .microbatches = request.microbatches,
          .placement = placement,
          .ops = std::vector<std::vector<Op>>(static_cast<std::size_t>(request.ranks))};
}

}  // namespace detail
}  // namespace sx
