// Everybody gets every token and takes those of its experts; a reduce_scatter adds what the
// coordinates made of a token.
#include <numeric>
#include <optional>

#include "sextant/base/check.h"
#include "sextant/ep/dispatch_kinds.h"

namespace sx {
namespace {

class AllGatherDispatch : public DispatchBase {
 public:
  using DispatchBase::DispatchBase;

  void start_dispatch(const at::Tensor& x_TH, const at::Tensor& weights_TK,
                      const at::Tensor& experts_TK) override {
    SX_CHECK(!rows_ && x_TH.size(0) == experts_TK.size(0), "one dispatch per microbatch");
    tokens_of_coord_.clear();
    for (const auto& row : gather_counts(groups_.ep, {x_TH.size(0)}, unit("counts"))) {
      tokens_of_coord_.push_back(row[0]);
    }
    RowExchange map = RowExchange::gather(groups_.ep, tokens_of_coord_, unit("map"));
    rows_.emplace(RowExchange::gather(groups_.ep, tokens_of_coord_, unit("dispatch")));
    weights_.emplace(RowExchange::gather(groups_.ep, tokens_of_coord_, unit("weights")));
    const at::Tensor started_map = map.start(experts_TK);
    started_rows_ = rows_->start(x_TH);
    started_weights_ = weights_->start(weights_TK);
    const std::vector<std::int32_t> experts = host_experts(map.finish(started_map));
    sorted_ = sort_by_expert(experts, experts_TK.size(1),
                             {first_expert(), experts_per_coord_, experts_per_coord_},
                             groups_.ep.degree() == 1 ? options_.order : SumOrder::kCoordinate);
  }

  ExpertRows finish_dispatch() override {
    ExpertRows own;
    own.rows_RH = copy_rows(rows_->finish(started_rows_), sorted_.tokens);
    own.weights_R = copy_rows(weights_->finish(started_weights_).reshape({-1}), sorted_.pairs);
    own.rows_of_expert = sorted_.rows_of_expert;
    started_rows_ = started_weights_ = at::Tensor();
    return gather_etp(std::move(own));
  }

  void start_combine(const at::Tensor& rows_RH) override {
    back_.emplace(RowExchange::sum(groups_.ep, tokens_of_coord_, unit("combine")));
    started_back_ = back_->start(sum_rows(sum_etp(rows_RH), sorted_.tokens));
  }

  at::Tensor finish_combine() override {
    const at::Tensor out = back_->finish(started_back_);
    started_back_ = at::Tensor();
    return out;
  }

 private:
  ExpertSort sorted_;
  std::vector<std::int64_t> tokens_of_coord_;
  std::optional<RowExchange> rows_, weights_, back_;
  at::Tensor started_rows_, started_weights_, started_back_;
};

}  // namespace

std::unique_ptr<Dispatch> make_all_gather_dispatch(ExpertGroups groups, std::int64_t num_experts,
                                                   DispatchOptions options) {
  return std::make_unique<AllGatherDispatch>(groups, num_experts, std::move(options));
}

}  // namespace sx
