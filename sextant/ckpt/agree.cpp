// How the ranks of a save come to one outcome.
#include "sextant/ckpt/agree.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <bit>
#include <cstring>
#include <utility>

namespace sx {

Result<SaveReport> share_outcome(Result<SaveReport> outcome, const fs::path& path,
                                 Communicator& world) {
  const bool here = world.coord() == 0;
  const at::Tensor head = at::zeros({5}, at::kLong);  // failed, kind, length of text, bytes, time
  auto* h = head.mutable_data_ptr<std::int64_t>();
  std::string text;
  if (here && outcome.ok()) {
    h[3] = outcome->bytes;
    h[4] = std::bit_cast<std::int64_t>(outcome->seconds);
  }
  if (here && !outcome.ok()) {
    text = outcome.error().message;
    h[0] = 1;
    h[1] = static_cast<std::int64_t>(outcome.error().kind);
    h[2] = static_cast<std::int64_t>(text.size());
  }
  world.start_broadcast(head, 0, {.unit = "checkpoint outcome"}).wait();
  if (h[0] == 0) {
    if (here) return outcome;
    SaveReport report;
    report.path = path;
    report.bytes = h[3];
    report.seconds = std::bit_cast<double>(h[4]);
    return report;
  }
  const at::Tensor message = at::empty({h[2]}, at::kByte);
  if (here) std::memcpy(message.mutable_data_ptr(), text.data(), text.size());
  world.start_broadcast(message, 0, {.unit = "checkpoint error"}).wait();
  if (here) return outcome;
  return Error{static_cast<ErrorKind>(h[1]),
               std::string(static_cast<const char*>(message.const_data_ptr()),
                           static_cast<std::size_t>(h[2])),
               path.string()};
}

std::vector<std::string> gather_texts(const std::string& own, Communicator& world) {
  const at::Tensor sizes = at::empty({world.degree()}, at::kLong);
  world
      .start_all_gather(sizes, at::full({1}, static_cast<std::int64_t>(own.size()), at::kLong), {},
                        {.unit = "checkpoint parts"})
      .wait();
  const auto* n = sizes.const_data_ptr<std::int64_t>();
  const std::vector<std::int64_t> counts(n, n + world.degree());
  std::int64_t total = 0;
  for (const std::int64_t count : counts) total += count;
  const at::Tensor all = at::empty({total}, at::kByte);
  const at::Tensor mine = at::empty({static_cast<std::int64_t>(own.size())}, at::kByte);
  if (!own.empty()) std::memcpy(mine.mutable_data_ptr(), own.data(), own.size());
  world.start_all_gather(all, mine, counts, {.unit = "checkpoint parts"}).wait();
  std::vector<std::string> texts;
  const auto* at = static_cast<const char*>(all.const_data_ptr());
  for (const std::int64_t count : counts) {
    texts.emplace_back(at, static_cast<std::size_t>(count));
    at += count;
  }
  return texts;
}

}  // namespace sx
