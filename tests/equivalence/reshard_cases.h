#pragma once

#include <functional>
#include <memory>

#include "sextant/train/snapshot.h"
#include "sextant/train/trainer.h"
#include "tests/support/test_data.h"

namespace sx {

/// Twelve ways to lie on 1 to 8 ranks, and what is done with a checkpoint of each. Failures are
/// test failures that name the pair.
class ReshardCases {
 public:
  ReshardCases();
  ~ReshardCases();
  int num_layouts() const;

  /// Trains two steps under layout i and saves; then one step more, and saves that elsewhere.
  void save(int i);
  /// Loads what i saved under layout j; saves it again: parameters, both moments, loader and
  /// trainer state must be the same to the last bit. Then one step more: the loss must be the one
  /// of i, and with as many ranks (one fold over all of them) everything after the step too. True
  /// in the latter case.
  bool move(int i, int j);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sx
