#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sextant/dist/communicator.h"

namespace sx {

/// One differentiable collective on rows that other work may stand between: `start` begins it,
/// `finish` waits. In backward it is the other way round: what `finish` undoes begins, what `start`
/// undoes waits. On an axis of degree 1 both are the identity.
///
/// The graph is the same whatever the counts, zero included, so that every coordinate makes the
/// same calls in the same order, forward and backward.
class RowExchange {
 public:
  /// Rows of the i-th block to coordinate i; backward sends their gradients back. V -> V.
  static RowExchange all_to_all(Communicator& axis, std::vector<std::int64_t> send_rows,
                                std::vector<std::int64_t> recv_rows, std::string unit);
  /// The rows of all coordinates, ascending; backward sums the gradients of the own ones. V -> R.
  static RowExchange gather(Communicator& axis, std::vector<std::int64_t> rows, std::string unit);
  /// The own rows of the sum over coordinates; backward gathers. P -> V.
  static RowExchange sum(Communicator& axis, std::vector<std::int64_t> rows, std::string unit);

  /// Shapes:  x [rows, ...]. Keep the result for `finish` and touch it nowhere else.
  at::Tensor start(const at::Tensor& x);
  at::Tensor finish(const at::Tensor& started);

  struct Flight;

 private:
  explicit RowExchange(std::shared_ptr<Flight> flight) : flight_(std::move(flight)) {}
  std::shared_ptr<Flight> flight_;
};

/// The i-th row is what coordinate i gave: small host integers that all need.
std::vector<std::vector<std::int64_t>> gather_counts(Communicator& axis,
                                                     const std::vector<std::int64_t>& own,
                                                     const std::string& unit);

}  // namespace sx
