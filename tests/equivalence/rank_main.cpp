// The main of test programs whose ranks are processes: mpirun or tests/support/start_ranks.py
// starts them, rank_test.h does the rest.
#include <gtest/gtest.h>

#include <cstdio>
#include <exception>

#include "sextant/base/env.h"
#include "tests/equivalence/rank_test.h"

namespace {

int run_tests(sx::RankProcess& process) {
  sx::this_rank_process() = &process;
  int failed = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::fprintf(stderr, "no test matches the filter\n");
    failed = 1;
  }
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // An exception is what ends a rank, and what the others must hear of.
  GTEST_FLAG_SET(catch_exceptions, false);
  const auto facts = sx::env::detect_launcher();
  if (!facts.ok() || facts->world_size == 1) {
    std::fprintf(stderr, "start this by mpirun or tests/support/start_ranks.py\n");
    return 2;
  }
  sx::ProcessOptions options;
  options.facts = *facts;
  options.wire =
      facts->launcher == sx::env::Launcher::kMpi ? sx::ProcessWire::kMpi : sx::ProcessWire::kTcp;
  options.init_timeout = sx::Seconds{60.0};
  options.comm.timeout = sx::Seconds{30.0};
  int failed = 1;
  try {
    sx::run_rank_process(options, [&](sx::RankProcess& process) { failed = run_tests(process); });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %ld: %s\n", static_cast<long>(facts->global_rank), e.what());
    return static_cast<int>(sx::exit_code_of(std::current_exception()));
  }
  return failed;
}
