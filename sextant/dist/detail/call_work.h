#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sextant/dist/collectives.h"
#include "sextant/dist/detail/fold.h"

namespace sx::detail {

/// Where one rank's buffers of a call are.
struct CallParty {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::vector<std::int64_t> send_counts;  ///< elements; reduce_scatter and all_to_all
  std::vector<std::int64_t> recv_counts;  ///< elements; all_gather and all_to_all
};

/// The work of one collective over buffers that all lie in this process, cut into blocks that can
/// be done in any order, by any thread, at the same time. Each input byte is read once per rank
/// that needs it and each output byte written once; the cut does not change results.
class CallWork {
 public:
  CallWork() = default;  ///< nothing to do
  /// `parties` by coord. `numel` is the elements of broadcast and all_reduce.
  CallWork(Collective op, ReduceOp reduce, at::ScalarType dtype, std::int64_t root,
           std::int64_t numel, std::vector<CallParty> parties);

  std::int64_t num_blocks() const { return num_blocks_; }
  /// Bytes that are read and written, all ranks together.
  std::int64_t traffic_bytes() const { return traffic_bytes_; }
  void run(std::int64_t block) const;

 private:
  /// Elements [begin, begin + numel) of the flattened work: from offset `from_offset` of rank
  /// `from`'s input (all inputs: a fold) to offset `to_offset` of rank `to`'s output (all outputs).
  struct Piece {
    std::int64_t begin;
    std::int64_t numel;
    std::int64_t from;
    std::int64_t from_offset;
    std::int64_t to;
    std::int64_t to_offset;
  };
  static constexpr std::int64_t kAll = -1;

  void add(std::int64_t numel, std::int64_t from, std::int64_t from_offset, std::int64_t to,
           std::int64_t to_offset);
  void run_piece(const Piece& piece, std::int64_t begin, std::int64_t end) const;

  ReduceOp reduce_ = ReduceOp::kSum;
  at::ScalarType dtype_ = at::kByte;
  std::int64_t element_bytes_ = 1;
  std::vector<const std::byte*> ins_;
  std::vector<std::byte*> outs_;
  std::vector<Piece> pieces_;
  std::int64_t total_ = 0;
  std::int64_t block_ = 1;
  std::int64_t num_blocks_ = 0;
  std::int64_t traffic_bytes_ = 0;
  StoreMode mode_ = StoreMode::kCached;
};

}  // namespace sx::detail
