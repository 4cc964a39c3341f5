#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sextant/data/loader_state.h"

/// A state that parses is written and parsed again as the same state.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto state = sx::LoaderState::parse({reinterpret_cast<const char*>(data), size});
  if (!state.ok()) return 0;
  const auto again = sx::LoaderState::from_json(state->to_json());
  if (!again.ok() || !(*again == *state)) std::abort();
  return 0;
}
