#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "sextant/base/result.h"
#include "sextant/base/units.h"
#include "sextant/data/batch.h"

namespace sx {

/// Worker threads that make batches 0, 1, 2 ... ahead of their consumer, at most `lookahead` of
/// them ready or in work, and hand them over in order.
///
/// Threads: one consumer. The destructor asks the workers to stop and waits up to a second; a
/// worker that hangs in a read is left behind with the memory it uses.
class ReadAhead {
 public:
  using Make = std::function<Result<Batch>(std::uint64_t index)>;
  ReadAhead(Make make, int workers, int lookahead);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// The next batch. An error stays: every later call returns it again. Errors: those of `make`;
  /// kInternal for what it threw; kTimeout when the batch is not ready within `timeout`, naming its
  /// number and how long a worker is at it.
  Result<Batch> next(Seconds timeout);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace sx
