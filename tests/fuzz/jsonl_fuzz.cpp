// Any bytes as a file of JSON lines, plain, gzip or zstd: errors are fine, texts are valid UTF-8,
// the end comes.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "sextant/base/fs.h"
#include "sextant/text/jsonl_reader.h"
#include "sextant/text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("sextant-jsonl-fuzz-" + std::to_string(getpid()));
  if (!sx::write_file_atomic(path, {reinterpret_cast<const char*>(data), size}).ok()) return 0;
  auto reader = sx::JsonlReader::open(path);
  std::filesystem::remove(path);
  if (!reader.ok()) return 0;
  for (std::uint64_t documents = 0;;) {
    auto document = reader->next();
    if (!document.ok()) {
      if (document.error().kind == sx::ErrorKind::kIo) std::abort();
      if (++documents > (std::uint64_t{1} << 26)) std::abort();
      continue;
    }
    if (!document->has_value()) return 0;
    if (!sx::is_valid_utf8((*document)->text) || !sx::is_valid_utf8((*document)->id)) std::abort();
  }
}
