// Any bytes as a WARC file: records and gaps come to an end, and every byte is accounted for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "sextant/crawl/warc_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sx::WarcLimits limits;
  limits.max_block_bytes = std::uint64_t{1} << 20;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto reader = sx::WarcReader::from_memory(bytes, "fuzz", limits);
  if (!reader.ok()) return 0;
  std::uint64_t sum = 0;
  for (std::size_t turns = 0; turns <= 2 * size + 2 || size > (std::size_t{1} << 16); ++turns) {
    auto record = reader->next();
    if (!record.ok()) {
      sum += reader->last_gap().bytes;
    } else if (record->has_value()) {
      if ((*record)->block.size() > limits.max_block_bytes) std::abort();
      sum += (*record)->stored_bytes;
    } else {
      if (sum + reader->trailing_bytes() != size) std::abort();
      return 0;
    }
  }
  std::abort();  // no end
}
