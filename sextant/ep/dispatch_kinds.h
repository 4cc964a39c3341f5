#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "sextant/ep/dispatch.h"
#include "sextant/ep/exchange.h"

namespace sx {

/// What both kinds share: the experts of the own coordinate, and the way over etp.
class DispatchBase : public Dispatch {
 public:
  DispatchBase(ExpertGroups groups, std::int64_t num_experts, DispatchOptions options);

 protected:
  std::int64_t first_expert() const { return groups_.ep.coord() * experts_per_coord_; }
  std::string unit(const char* what) const { return options_.unit + " " + what; }

  /// Joins the rows of the coordinates of etp, which all work on a part of each expert.
  ExpertRows gather_etp(ExpertRows own);
  /// The own rows of the sum over etp.
  at::Tensor sum_etp(const at::Tensor& rows_RH);

  ExpertGroups groups_;
  std::int64_t num_experts_, experts_per_coord_;
  DispatchOptions options_;

 private:
  std::vector<std::int64_t> rows_of_coord_;
  std::shared_ptr<const RowMap> by_expert_;
};

std::unique_ptr<Dispatch> make_all_to_all_dispatch(ExpertGroups groups, std::int64_t num_experts,
                                                   DispatchOptions options);
std::unique_ptr<Dispatch> make_all_gather_dispatch(ExpertGroups groups, std::int64_t num_experts,
                                                   DispatchOptions options);

/// The experts of [T, K], on the host.
std::vector<std::int32_t> host_experts(const at::Tensor& experts_TK);

}  // namespace sx
