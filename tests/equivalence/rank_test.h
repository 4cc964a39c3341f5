#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>

#include "sextant/dist/threads.h"

namespace sx {

/// Runs `body` on `num_ranks` rank threads; fails the test with the message of the rank that failed
/// first. Expectations inside the body count; a collective that hangs ends after 20 s.
inline void rank_test(std::int64_t num_ranks, const std::function<void(Communicator& world)>& body,
                      ThreadsOptions options = {.timeout = Seconds{20.0}}) {
  try {
    run_ranks(num_ranks, body, options);
  } catch (const std::exception& e) {
    ADD_FAILURE() << num_ranks << " ranks: " << e.what();
  }
}

}  // namespace sx
