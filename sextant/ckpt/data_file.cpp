// One data file of a checkpoint, hashed while it is written.
#include "sextant/ckpt/data_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sextant/base/hash.h"
#include "sextant/ckpt/logical_checksum.h"

namespace sx {
namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;

class PieceWriter {
 public:
  PieceWriter(FileWriter& file, Xxh3Stream& file_hash, const std::atomic<bool>* cancel)
      : file_(file), file_hash_(file_hash), cancel_(cancel) {}

  Result<WrittenPiece> write(const DataPiece& piece) {
    element_ = safetensors::size_bytes(piece.dtype);
    WrittenPiece written;
    written.begin = file_.bytes();
    Xxh3Stream hash;
    const std::int64_t count = piece.region.num_elements();
    std::pair<std::int64_t, std::int64_t> range;
    if (as_range(piece.tensor_shape, piece.region, range)) {
      const std::int64_t step = kBlockBytes / element_;
      for (std::int64_t at = 0; at < count; at += step) {
        const std::int64_t n = std::min(step, count - at);
        SX_TRY(const std::string_view bytes, piece.read(at, n));
        written.logical += logical(bytes, range.first + at);
        SX_TRY_VOID(put(bytes, hash));
      }
    } else {
      SX_TRY(const std::string_view bytes, piece.read(0, count));
      for_each_run(piece.tensor_shape, piece.region,
                   [&](std::int64_t first, std::int64_t local, std::int64_t n) {
                     written.logical +=
                         logical(bytes.substr(static_cast<std::size_t>(local * element_),
                                              static_cast<std::size_t>(n * element_)),
                                 first);
                   });
      SX_TRY_VOID(put(bytes, hash));
    }
    written.end = file_.bytes();
    written.xxh3 = hash.digest();
    return written;
  }

 private:
  std::uint64_t logical(std::string_view bytes, std::int64_t first) const {
    return logical_checksum({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()},
                            element_, static_cast<std::uint64_t>(first));
  }

  Result<void> put(std::string_view bytes, Xxh3Stream& hash) {
    while (!bytes.empty()) {
      if (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed))
        return Error{ErrorKind::kIo, "the save was given up", ""};
      const std::string_view block = bytes.substr(0, static_cast<std::size_t>(kBlockBytes));
      hash.update(block);
      file_hash_.update(block);
      SX_TRY_VOID(file_.write(block));
      bytes.remove_prefix(block.size());
    }
    return {};
  }

  FileWriter& file_;
  Xxh3Stream& file_hash_;
  const std::atomic<bool>* cancel_;
  std::int64_t element_ = 1;
};

}  // namespace

std::string entry_name(const std::string& tensor, std::span<const std::int64_t> tensor_shape,
                       const Region& region) {
  if (region.kind == Region::Kind::kFlat)
    return fmt::format("{}@flat:{}", tensor, region.offset[0]);
  if (region.is_whole(tensor_shape)) return tensor;
  return fmt::format("{}@{}", tensor, fmt::join(region.offset, ","));
}

Result<WrittenData> write_data_file(const fs::path& path, std::span<const DataPiece> pieces,
                                    const std::atomic<bool>* cancel) {
  std::vector<safetensors::Entry> entries;
  std::map<std::string_view, std::size_t> by_name;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    entries.push_back({pieces[i].name, pieces[i].dtype, pieces[i].shape});
    by_name[pieces[i].name] = i;
  }
  SX_TRY(const safetensors::Layout layout,
         safetensors::plan_layout(std::move(entries), {{"format", "pt"}}));
  SX_TRY(FileWriter file, FileWriter::create(path));
  Xxh3Stream file_hash;
  SX_TRY_VOID(file.write(layout.head));
  file_hash.update(layout.head);
  WrittenData written;
  written.pieces.resize(pieces.size());
  PieceWriter writer(file, file_hash, cancel);
  for (const safetensors::Entry& entry : layout.header.entries) {
    const std::size_t i = by_name.at(entry.name);
    SX_TRY(written.pieces[i], writer.write(pieces[i]));
  }
  written.bytes = file.bytes();
  written.xxh3 = file_hash.digest();
  SX_TRY_VOID(file.commit());
  return written;
}

}  // namespace sx
