#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

#include "sextant/dist/processes.h"
#include "sextant/dist/threads.h"

namespace sx {

/// The process world of a test program whose ranks are processes (rank_main.cpp); null where ranks
/// are threads.
inline RankProcess*& this_rank_process() {
  static RankProcess* process = nullptr;
  return process;
}

/// The same on processes: the first `num_ranks` of the world run `body`, the others pass by. A case
/// for more ranks than there are belongs to another world.
inline void process_rank_test(RankProcess& process, std::int64_t num_ranks,
                              const std::function<void(Communicator& world)>& body) {
  Communicator& all = process.world();
  if (all.coord() >= num_ranks || num_ranks > all.degree()) return;
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) ranks.push_back(rank);
  Communicator world = all.make_group(ranks, AxisSet::world(), Purpose::kControl);
  body(world);
}

/// Runs `body` on `num_ranks` rank threads; fails the test with the message of the rank that failed
/// first. Expectations inside the body count; a collective that hangs ends after 20 s.
inline void rank_test(std::int64_t num_ranks, const std::function<void(Communicator& world)>& body,
                      ThreadsOptions options = {.timeout = Seconds{20.0}}) {
  if (this_rank_process() != nullptr) {
    return process_rank_test(*this_rank_process(), num_ranks, body);
  }
  try {
    run_ranks(num_ranks, body, options);
  } catch (const std::exception& e) {
    ADD_FAILURE() << num_ranks << " ranks: " << e.what();
  }
}

}  // namespace sx
