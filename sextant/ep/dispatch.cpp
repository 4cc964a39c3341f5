#include "sextant/ep/dispatch.h"

#include <numeric>

#include "sextant/base/check.h"
#include "sextant/ep/dispatch_kinds.h"

namespace sx {

std::vector<std::int32_t> host_experts(const at::Tensor& experts_TK) {
  SX_CHECK(experts_TK.scalar_type() == c10::kInt && experts_TK.dim() == 2,
           "experts are int32 [tokens, k]");
  const at::Tensor host = experts_TK.contiguous();
  const auto* data = host.const_data_ptr<std::int32_t>();
  return {data, data + host.numel()};
}

DispatchBase::DispatchBase(ExpertGroups groups, std::int64_t num_experts, DispatchOptions options)
    : groups_(groups),
      num_experts_(num_experts),
      experts_per_coord_(num_experts / groups.ep.degree()),
      options_(std::move(options)) {
  SX_CHECK(num_experts % groups.ep.degree() == 0, "{} experts on ep = {} coordinates", num_experts,
           groups.ep.degree());
}

ExpertRows DispatchBase::gather_etp(ExpertRows own) {
  Communicator& etp = groups_.etp;
  if (etp.degree() == 1) return own;
  const auto counts = gather_counts(etp, own.rows_of_expert, unit("etp counts"));
  rows_of_coord_.clear();
  ExpertRows all;
  all.rows_of_expert.assign(own.rows_of_expert.size(), 0);
  for (const auto& row : counts) {
    rows_of_coord_.push_back(std::accumulate(row.begin(), row.end(), std::int64_t{0}));
    for (std::size_t e = 0; e < row.size(); ++e) all.rows_of_expert[e] += row[e];
  }
  RowExchange rows = RowExchange::gather(etp, rows_of_coord_, unit("etp rows"));
  RowExchange weights = RowExchange::gather(etp, rows_of_coord_, unit("etp weights"));
  const at::Tensor started_rows = rows.start(own.rows_RH);
  const at::Tensor started_weights = weights.start(own.weights_R);
  by_expert_ = transpose_blocks(counts);
  all.rows_RH = copy_rows(rows.finish(started_rows), by_expert_);
  all.weights_R = copy_rows(weights.finish(started_weights), by_expert_);
  return all;
}

at::Tensor DispatchBase::sum_etp(const at::Tensor& rows_RH) {
  if (groups_.etp.degree() == 1) return rows_RH;
  RowExchange sum = RowExchange::sum(groups_.etp, rows_of_coord_, unit("etp sums"));
  return sum.finish(sum.start(sum_rows(rows_RH, by_expert_)));
}

std::unique_ptr<Dispatch> make_dispatch(ExpertGroups groups, std::int64_t num_experts,
                                        DispatchOptions options) {
  if (options.kind == DispatchKind::kAllGather) {
    return make_all_gather_dispatch(groups, num_experts, std::move(options));
  }
  return make_all_to_all_dispatch(groups, num_experts, std::move(options));
}

}  // namespace sx
