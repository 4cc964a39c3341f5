// Counts to everybody, rows and weights to the coordinates of their experts; back the same way, and
// the sum at home.
#include <numeric>
#include <optional>

#include "sextant/base/check.h"
#include "sextant/ep/dispatch_kinds.h"

namespace sx {
namespace {

class AllToAllDispatch : public DispatchBase {
 public:
  using DispatchBase::DispatchBase;

  void start_dispatch(const at::Tensor& x_TH, const at::Tensor& weights_TK,
                      const at::Tensor& experts_TK) override {
    SX_CHECK(!rows_ && x_TH.size(0) == experts_TK.size(0), "one dispatch per microbatch");
    const std::vector<std::int32_t> experts = host_experts(experts_TK);
    sorted_ = sort_by_expert(experts, experts_TK.size(1), {0, num_experts_, experts_per_coord_},
                             options_.order);
    const auto counts = gather_counts(groups_.ep, sorted_.rows_of_expert, unit("counts"));
    set_counts(counts);
    rows_.emplace(RowExchange::all_to_all(groups_.ep, send_, recv_, unit("dispatch")));
    weights_.emplace(RowExchange::all_to_all(groups_.ep, send_, recv_, unit("weights")));
    started_rows_ = rows_->start(copy_rows(x_TH, sorted_.tokens));
    started_weights_ = weights_->start(copy_rows(weights_TK.reshape({-1}), sorted_.pairs));
  }

  ExpertRows finish_dispatch() override {
    ExpertRows own;
    own.rows_RH = rows_->finish(started_rows_);
    own.weights_R = weights_->finish(started_weights_);
    started_rows_ = started_weights_ = at::Tensor();
    if (groups_.ep.degree() > 1) {
      by_expert_ = transpose_blocks(counts_);
      own.rows_RH = copy_rows(own.rows_RH, by_expert_);
      own.weights_R = copy_rows(own.weights_R, by_expert_);
    }
    own.rows_of_expert.assign(static_cast<std::size_t>(experts_per_coord_), 0);
    for (const auto& row : counts_) {
      for (std::size_t e = 0; e < row.size(); ++e) own.rows_of_expert[e] += row[e];
    }
    return gather_etp(std::move(own));
  }

  void start_combine(const at::Tensor& rows_RH) override {
    at::Tensor rows = sum_etp(rows_RH);
    if (groups_.ep.degree() > 1) rows = sum_rows(rows, by_expert_);
    back_.emplace(RowExchange::all_to_all(groups_.ep, recv_, send_, unit("combine")));
    started_back_ = back_->start(rows);
  }

  at::Tensor finish_combine() override {
    const at::Tensor rows = back_->finish(started_back_);
    started_back_ = at::Tensor();
    return sum_rows(rows, sorted_.tokens);
  }

 private:
  void set_counts(const std::vector<std::vector<std::int64_t>>& all) {
    const auto per_coord = static_cast<std::ptrdiff_t>(experts_per_coord_);
    const auto sum = [](auto begin, auto end) {
      return std::accumulate(begin, end, std::int64_t{0});
    };
    for (const auto& row : all) {  // what each coordinate sends here
      const auto begin = row.begin() + static_cast<std::ptrdiff_t>(first_expert());
      counts_.emplace_back(begin, begin + per_coord);
      recv_.push_back(sum(begin, begin + per_coord));
    }
    const auto& own = sorted_.rows_of_expert;
    for (auto at = own.begin(); at != own.end(); at += per_coord)
      send_.push_back(sum(at, at + per_coord));
  }

  ExpertSort sorted_;
  std::vector<std::vector<std::int64_t>> counts_;  ///< [source][local expert]
  std::vector<std::int64_t> send_, recv_;
  std::shared_ptr<const RowMap> by_expert_;
  std::optional<RowExchange> rows_, weights_, back_;
  at::Tensor started_rows_, started_weights_, started_back_;
};

}  // namespace

std::unique_ptr<Dispatch> make_all_to_all_dispatch(ExpertGroups groups, std::int64_t num_experts,
                                                   DispatchOptions options) {
  return std::make_unique<AllToAllDispatch>(groups, num_experts, std::move(options));
}

}  // namespace sx
