#include "sextant/dist/detail/call_work.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sx::detail {
namespace {

constexpr std::int64_t kMinBlockBytes = 16 * 1024;
constexpr std::int64_t kMaxBlockBytes = 64 * 1024;
/// Outputs above this do not stay in a cache until somebody reads them.
constexpr std::int64_t kStreamBytes = std::int64_t{8} << 20;

std::int64_t prefix(const std::vector<std::int64_t>& counts, std::size_t coord) {
  return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(coord),
                         std::int64_t{0});
}

}  // namespace

CallWork::CallWork(Collective op, ReduceOp reduce, at::ScalarType dtype, std::int64_t root,
                   std::int64_t numel, std::vector<CallParty> parties)
    : reduce_(reduce),
      dtype_(dtype),
      element_bytes_(static_cast<std::int64_t>(c10::elementSize(dtype))) {
  const std::size_t degree = parties.size();
  for (const CallParty& party : parties) {
    ins_.push_back(party.in);
    outs_.push_back(party.out);
  }
  std::int64_t written = 0;  // elements, apart from the inputs
  switch (op) {
    case Collective::kAllReduce:
      add(numel, kAll, 0, kAll, 0);
      traffic_bytes_ = 2 * numel * static_cast<std::int64_t>(degree);
      break;
    case Collective::kReduceScatter:
      for (std::size_t c = 0; c < degree; ++c) {
        const std::int64_t begin = prefix(parties[0].send_counts, c);
        add(parties[0].send_counts[c], kAll, begin, static_cast<std::int64_t>(c), 0);
      }
      written = total_;
      traffic_bytes_ = total_ * static_cast<std::int64_t>(degree + 1);
      break;
    case Collective::kAllGather:
      for (std::size_t c = 0; c < degree; ++c) {
        const std::int64_t begin = prefix(parties[0].recv_counts, c);
        add(parties[0].recv_counts[c], static_cast<std::int64_t>(c), 0, kAll, begin);
      }
      written = total_ * static_cast<std::int64_t>(degree);
      traffic_bytes_ = total_ + written;
      break;
    case Collective::kBroadcast:
      add(numel, root, 0, kAll, 0);
      written = numel * static_cast<std::int64_t>(degree - 1);
      traffic_bytes_ = numel + written;
      break;
    case Collective::kAllToAll:
      for (std::size_t to = 0; to < degree; ++to) {
        for (std::size_t from = 0; from < degree; ++from) {
          add(parties[to].recv_counts[from], static_cast<std::int64_t>(from),
              prefix(parties[from].send_counts, to), static_cast<std::int64_t>(to),
              prefix(parties[to].recv_counts, from));
        }
      }
      written = total_;
      traffic_bytes_ = 2 * total_;
      break;
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv: break;
  }
  traffic_bytes_ *= element_bytes_;
  if (written * element_bytes_ > kStreamBytes) mode_ = StoreMode::kStream;
  const std::int64_t block_bytes =
      std::clamp(total_ * element_bytes_ / 16, kMinBlockBytes, kMaxBlockBytes);
  block_ = block_bytes / 4096 * 4096 / element_bytes_;
  num_blocks_ = (total_ + block_ - 1) / block_;
}

void CallWork::add(std::int64_t numel, std::int64_t from, std::int64_t from_offset, std::int64_t to,
                   std::int64_t to_offset) {
  if (numel == 0) return;
  pieces_.push_back({total_, numel, from, from_offset, to, to_offset});
  total_ += numel;
}

void CallWork::run(std::int64_t block) const {
  const std::int64_t begin = block * block_;
  const std::int64_t end = std::min(total_, begin + block_);
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), begin,
                                [](std::int64_t at, const Piece& p) { return at < p.begin; });
  for (--piece; piece != pieces_.end() && piece->begin < end; ++piece) {
    run_piece(*piece, std::max(begin, piece->begin), std::min(end, piece->begin + piece->numel));
  }
}

void CallWork::run_piece(const Piece& piece, std::int64_t begin, std::int64_t end) const {
  const std::int64_t from_bytes = (piece.from_offset + begin - piece.begin) * element_bytes_;
  const std::int64_t to_bytes = (piece.to_offset + begin - piece.begin) * element_bytes_;
  std::vector<std::byte*> outs;
  if (piece.to == kAll) {
    for (std::byte* out : outs_) outs.push_back(out + to_bytes);
  } else {
    outs.push_back(outs_[static_cast<std::size_t>(piece.to)] + to_bytes);
  }
  if (piece.from == kAll) {
    std::vector<const std::byte*> inputs;
    for (const std::byte* in : ins_) inputs.push_back(in + from_bytes);
    fold(dtype_, reduce_, inputs, outs, end - begin, mode_);
  } else {
    copy_to_all(ins_[static_cast<std::size_t>(piece.from)] + from_bytes, outs,
                (end - begin) * element_bytes_, mode_);
  }
}

}  // namespace sx::detail
