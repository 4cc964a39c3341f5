#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "sextant/data/gpt_dataset.h"
#include "sextant/data/npy.h"
#include "sextant/data/token_source.h"

namespace {

/// Bytes as a file in memory that can be opened by name.
class NpyFile {
 public:
  NpyFile(const std::uint8_t* data, std::size_t size) : fd_(memfd_create("npy", 0)) {
    if (fd_ < 0 || write(fd_, data, size) != static_cast<ssize_t>(size)) std::abort();
  }
  ~NpyFile() { close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace

/// The reader stays inside the file whatever the header says; what it accepts can be read to the
/// end, written again with the same elements, and used as any array of an index without leaving the
/// data.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const NpyFile file(data, size);
  const auto array = sx::NpyArray::open(file.path());
  if (!array.ok()) return 0;
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < array->size(); ++i) sum += static_cast<std::uint64_t>((*array)[i]);
  if (sum == 1 && array->size() == 0) std::abort();
  const std::string bytes = sx::npy_header(*array) + std::string(array->bytes());
  const NpyFile again(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  const auto copy = sx::NpyArray::open(again.path());
  if (!copy.ok() || copy->bytes() != array->bytes() || copy->rows() != array->rows() ||
      copy->columns() != array->columns()) {
    std::abort();
  }
  const std::vector<std::int32_t> lengths{3, 0, 5};
  const sx::SequenceLengths all(lengths);
  const sx::GptIndexSpec spec{.last_sequence = 3, .num_samples = 3, .seq_len = 4};
  const auto counts = sx::count_gpt_index(all, spec);
  const auto built = sx::build_gpt_index(all, spec);
  if (!counts.ok() || !built.ok()) std::abort();
  for (int place = 0; place < 3; ++place) {
    sx::GptIndex index = *built;
    (place == 0   ? index.document_index
     : place == 1 ? index.sample_index
                  : index.shuffle_index) = *array;
    (void)sx::check_gpt_index(index, all, spec, *counts).ok();
  }
  return 0;
}
