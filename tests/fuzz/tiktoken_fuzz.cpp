#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sextant/token/tiktoken_file.h"

/// The first byte chooses: a rank file, which is an error or is written again with the same tokens;
/// or its side file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 's') {
    const auto side = sx::parse_tiktoken_side(text, "fuzz");
    (void)side.ok();
    return 0;
  }
  auto tokens = sx::parse_tiktoken(text, "fuzz");
  if (!tokens.ok()) return 0;
  const auto vocab = sx::Vocab::make(*tokens, {}, sx::SplitFamily::kNone);
  if (!vocab.ok()) std::abort();
  const auto again = sx::parse_tiktoken(sx::format_tiktoken(*vocab), "fuzz");
  if (!again.ok() || *again != *tokens) std::abort();
  return 0;
}
