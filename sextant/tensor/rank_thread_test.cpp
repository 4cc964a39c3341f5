#include "sextant/tensor/rank_thread.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <c10/core/AutogradState.h>
#include <gtest/gtest.h>

#include <thread>

namespace sx {
namespace {

/// Half of the smallest normal number: zero when denormals are flushed.
double half_of_smallest() {
  return (at::full({1}, 2.2250738585072014e-308, c10::kDouble).mul(0.5)).item<double>();
}

TEST(RankThread, SettingsBelongToTheThreadThatMakesThem) {
  int threads_a = 0, threads_b = 0;
  double flushed = 1, kept = 0;
  bool multithreaded = true;
  std::jthread a([&] {
    prepare_rank_thread({.intra_op_threads = 1, .flush_denormals = true});
    threads_a = at::get_num_threads();
    flushed = half_of_smallest();
    multithreaded = c10::AutogradState::get_tls_state().get_multithreading_enabled();
  });
  a.join();
  std::jthread b([&] {
    prepare_rank_thread({.intra_op_threads = 2, .flush_denormals = false});
    threads_b = at::get_num_threads();
    kept = half_of_smallest();
  });
  b.join();
  EXPECT_EQ(threads_a, 1);
  EXPECT_EQ(threads_b, 2);
  EXPECT_EQ(flushed, 0.0);
  EXPECT_GT(kept, 0.0);
  EXPECT_FALSE(multithreaded);
}

}  // namespace
}  // namespace sx
