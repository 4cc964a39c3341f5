#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "sextant/data/dataset_summary.h"
#include "sextant/data/indexed_dataset.h"

namespace {

/// Bytes as a file in memory that can be opened by name.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : fd_(memfd_create("idx", 0)) {
    if (fd_ < 0 || write(fd_, data, size) != static_cast<ssize_t>(size)) std::abort();
  }
  ~MemoryFile() { close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace

/// First byte: size of the `.bin` in 16 bytes; then the `.idx`. Whatever the counts say, the reader
/// stays inside both files and a pair that passes the checks can be read from end to end.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::vector<std::uint8_t> tokens(std::size_t{16} * data[0], 7);
  const MemoryFile idx(data + 1, size - 1), bin(tokens.data(), tokens.size());
  auto dataset = sx::IndexedDataset::open_files(idx.path(), bin.path(), "fuzz");
  if (!dataset.ok()) return 0;
  const auto structure = dataset->check_structure();
  if (!structure.ok()) return 0;
  if (structure->num_tokens > std::uint64_t{1} << 24)
    return 0;  // sequences may overlap; only time is at stake
  const auto summary = sx::summarize_dataset(*dataset, true);
  if (!summary.ok() && dataset->type() != sx::TokenType::kInt64) std::abort();  // its ids may not fit
  auto source = sx::make_indexed_source(std::move(*dataset));
  if (!source.ok() || (*source)->num_tokens() != structure->num_tokens) std::abort();
  std::vector<std::int32_t> out(structure->num_tokens);
  (void)(*source)->read(0, out).ok();
  for (std::uint64_t k = 0; k < (*source)->num_documents(); ++k) {
    if ((*source)->document_start(k) > (*source)->document_start(k + 1)) std::abort();
  }
  return 0;
}
