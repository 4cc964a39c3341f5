#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sextant/ep/dispatch.h"
#include "sextant/nn/module.h"
#include "sextant/shape/model_shape.h"

namespace sx {

/// Each group of rows times its own matrix: out[r] = x[r] W[e]^T for the rows of group e, one
/// product of matrices per group that has rows.
///
/// Shapes:  x [rows, in]; weight [groups, out, in]; result [rows, out]. Rows after the last group
/// are
///          never read and are zero in the result.
/// Gradient: full shape; zero for a group without rows and for rows after the last group.
/// Errors:  ContractError for more rows in the groups than there are.
at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weight,
                          std::vector<std::int64_t> rows_of_group);

/// The part [begin, end) of one dim that a coordinate has.
struct ExpertPart {
  std::int64_t num_experts = 0, first = 0, count = 0;           ///< over ep
  std::int64_t hidden = 0, first_hidden = 0, count_hidden = 0;  ///< features, over etp
};

/// The feed-forward networks of the experts of one coordinate, without bias: gate and up [E / ep,
/// F / etp, H], down [E / ep, H, F / etp]. The share of a row in its token's result multiplies the
/// activation, so that the results need not be kept for its gradient.
class Experts : public Module {
 public:
  /// Errors:  ContractError if a degree does not divide what it cuts.
  Experts(Module& parent, std::string name, const ModelShape& shape, std::int64_t ep_degree,
          std::int64_t ep_coord, std::int64_t etp_degree, std::int64_t etp_coord);

  /// Result: rows of the experts, weighted; with etp > 1 the own part of their sum (type P).
  at::Tensor forward(const ExpertRows& rows) const;
  /// Initial values, the same element of the whole on every layout.
  void init(std::uint64_t seed, int num_threads = 1);
  const ExpertPart& part() const { return part_; }

 private:
  Activation activation_;
  std::int64_t width_;
  ExpertPart part_;
  Parameter *gate_ = nullptr, *up_ = nullptr, *down_ = nullptr;
};

}  // namespace sx
