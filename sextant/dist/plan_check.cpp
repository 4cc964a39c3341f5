#include "sextant/dist/plan_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include <torch/version.h>

#include "sextant/base/diagnostic.h"
#include "sextant/base/hash.h"

namespace sx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kVerdict = "start/verdict";
constexpr const char* kEqual = "equal";
constexpr const char* kDiffer = "differ ";
constexpr const char* kMissing = "missing ";

[[noreturn]] void refuse(const std::string& difference) {
  throw ConfigError(Diagnostic{.number = 19,
                               .what = "the ranks of this run do not start alike",
                               .where = difference,
                               .rule = "all ranks run the same program, recipe and mesh",
                               .next = "start all ranks by one command"});
}

std::string facts_key(std::int64_t rank) { return fmt::format("start/facts/{}", rank); }

StartFacts parse(const std::string& text) {
  StartFacts facts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    facts.lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return facts;
}

/// Rank 0: the word for everybody.
std::string judge(RankStore& store, std::int64_t world_size, const StartFacts& own, Seconds timeout,
                  const std::function<bool()>& give_up) {
  std::vector<std::int64_t> waiting;
  for (std::int64_t rank = 1; rank < world_size; ++rank) waiting.push_back(rank);
  const auto end = Clock::now() + std::chrono::duration<double>(timeout.value);
  while (!waiting.empty()) {
    std::vector<std::int64_t> still;
    for (const std::int64_t rank : waiting) {
      if (!store.has(facts_key(rank))) {
        still.push_back(rank);
        continue;
      }
      const StartFacts theirs = parse(store.get(facts_key(rank), timeout).value_or(""));
      const std::string difference =
          first_difference(own, "rank 0", theirs, fmt::format("rank {}", rank));
      if (!difference.empty()) return kDiffer + difference;
    }
    waiting.swap(still);
    if (waiting.empty()) break;
    if (Clock::now() >= end || (give_up && give_up()))
      return fmt::format("{}{}", kMissing, fmt::join(waiting, ", "));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return kEqual;
}

}  // namespace

std::string libtorch_version() { return TORCH_VERSION; }

std::string StartFacts::text() const { return fmt::format("{}", fmt::join(lines, "\n")); }
std::uint64_t StartFacts::hash() const { return xxh64(text()); }

std::string first_difference(const StartFacts& a, const std::string& name_a, const StartFacts& b,
                             const std::string& name_b) {
  const std::string none = "(nothing)";
  for (std::size_t i = 0; i < std::max(a.lines.size(), b.lines.size()); ++i) {
    const std::string& in_a = i < a.lines.size() ? a.lines[i] : none;
    const std::string& in_b = i < b.lines.size() ? b.lines[i] : none;
    if (in_a != in_b) return fmt::format("{}: {} | {}: {}", name_a, in_a, name_b, in_b);
  }
  return "";
}

void check_start_facts(RankStore& store, std::int64_t global_rank, std::int64_t world_size,
                       const StartFacts& facts, Seconds timeout,
                       const std::function<bool()>& give_up) {
  std::string verdict;
  if (global_rank == 0) {
    verdict = judge(store, world_size, facts, timeout, give_up);
    store.set(kVerdict, verdict);
    // Rank 0 may hold the store: it stays until the others know why they end.
    const auto end = Clock::now() + std::chrono::seconds(1);
    for (std::int64_t rank = 1; verdict != kEqual && rank < world_size; ++rank) {
      const std::chrono::duration<double> left = end - Clock::now();
      if (left.count() <= 0) break;
      store.get(fmt::format("start/seen/{}", rank), Seconds{left.count()});
    }
  } else {
    store.set(facts_key(global_rank), facts.text());
    // Rank 0 answers after its own time-out at the latest.
    verdict = store.get(kVerdict, Seconds{timeout.value + 5}, give_up).value_or("missing 0");
    if (verdict != kEqual) store.set(fmt::format("start/seen/{}", global_rank), "1");
  }
  if (verdict == kEqual) return;
  if (verdict.starts_with(kDiffer)) refuse(verdict.substr(std::string(kDiffer).size()));
  throw FatalError(Diagnostic{
      .exit = ExitCode::kPeer,
      .number = 1,
      .what = fmt::format("rank {} of {} did not come within {:.3g} s",
                          verdict.substr(std::string(kMissing).size()), world_size, timeout.value),
      .where = fmt::format("rank {}, host {}", global_rank, host_name()),
      .rule = "all ranks compare what they run before the first collective",
      .next = "look at what that rank printed; comm.init_timeout sets the time"});
}

void check_start_facts(Communicator& world, const StartFacts& facts) {
  const CallOptions call{.unit = "start facts"};
  const auto own = static_cast<std::int64_t>(facts.hash() >> 1);
  at::Tensor bounds = at::full({2}, own, at::kLong);
  bounds[1].neg_();
  world.start_all_reduce(bounds, ReduceOp::kMax, call).wait();
  const auto* b = bounds.const_data_ptr<std::int64_t>();
  if (b[0] == -b[1]) return;

  const std::string text = facts.text();
  at::Tensor lengths = at::zeros({world.degree()}, at::kLong);
  world
      .start_all_gather(lengths, at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong),
                        {}, call)
      .wait();
  const auto* l = lengths.const_data_ptr<std::int64_t>();
  const std::vector<std::int64_t> counts(l, l + world.degree());
  at::Tensor all = at::zeros({lengths.sum().item<std::int64_t>()}, at::kByte);
  const at::Tensor mine = at::zeros({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::memcpy(mine.mutable_data_ptr(), text.data(), text.size());
  world.start_all_gather(all, mine, counts, call).wait();

  std::vector<StartFacts> of_rank;
  std::int64_t from = 0;
  for (const std::int64_t count : counts) {
    const auto* bytes = static_cast<const char*>(all.const_data_ptr()) + from;
    of_rank.push_back(parse(std::string(bytes, static_cast<std::size_t>(count))));
    from += count;
  }
  const auto name = [&](std::size_t i) { return fmt::format("rank {}", world.global_ranks()[i]); };
  for (std::size_t i = 1; i < of_rank.size(); ++i) {
    const std::string difference = first_difference(of_rank[0], name(0), of_rank[i], name(i));
    if (!difference.empty()) refuse(difference);
  }
}

}  // namespace sx
