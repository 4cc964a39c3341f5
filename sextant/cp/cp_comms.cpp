#include "sextant/cp/cp_comms.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "sextant/base/check.h"

namespace sx {
namespace {

struct KindName {
  CpKind kind;
  const char* name;
};
constexpr std::array<KindName, 4> kKinds = {{{CpKind::kRing, "ring"},
                                             {CpKind::kAllGather, "allgather"},
                                             {CpKind::kUlysses, "ulysses"},
                                             {CpKind::kHybrid, "hybrid"}}};

}  // namespace

Result<CpKind> parse_cp_kind(std::string_view name) {
  for (const KindName& row : kKinds) {
    if (name == row.name) return row.kind;
  }
  return Error{ErrorKind::kNotFound,
               fmt::format("no kind of context parallelism is called \"{}\"; there are ring, "
                           "allgather, ulysses and hybrid",
                           name),
               {}};
}

const char* to_string(CpKind kind) { return kKinds[static_cast<std::size_t>(kind)].name; }

CpComms::CpComms(Communicator& cp, std::int64_t inner)
    : cp_(&cp),
      inner_degree_(inner),
      solo_(Communicator::solo(cp.axis(), cp.purpose(), cp.global_rank())) {
  const std::int64_t degree = cp.degree();
  SX_CHECK(inner >= 1 && degree % inner == 0, "inner degree {} does not divide {}", inner, degree);
  if (inner == 1) {
    inner_.emplace(Communicator::solo(cp.axis(), cp.purpose(), cp.global_rank()));
    return;
  }
  if (inner == degree) {
    outer_.emplace(Communicator::solo(cp.axis(), cp.purpose(), cp.global_rank()));
    return;
  }
  const auto group = [&](std::int64_t first, std::int64_t stride, std::int64_t count) {
    std::vector<std::int64_t> ranks;
    for (std::int64_t i = 0; i < count; ++i) {
      ranks.push_back(cp.global_ranks()[static_cast<std::size_t>(first + i * stride)]);
    }
    return cp.make_group(ranks, cp.axis(), cp.purpose());
  };
  inner_.emplace(group(cp.coord() / inner * inner, 1, inner));
  outer_.emplace(group(cp.coord() % inner, inner, degree / inner));
}

}  // namespace sx
