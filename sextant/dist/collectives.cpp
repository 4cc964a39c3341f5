#include "sextant/dist/collectives.h"

#include <utility>

namespace sx {

const char* to_string(Collective op) {
  switch (op) {
    case Collective::kBroadcast: return "broadcast";
    case Collective::kAllReduce: return "all_reduce";
    case Collective::kReduceScatter: return "reduce_scatter";
    case Collective::kAllGather: return "all_gather";
    case Collective::kAllToAll: return "all_to_all";
    case Collective::kSend: return "send";
    case Collective::kRecv: return "recv";
    case Collective::kBarrier: return "barrier";
  }
  return "?";
}

const char* to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kMax: return "max";
    case ReduceOp::kMin: return "min";
  }
  return "?";
}

namespace collective {

Operation broadcast(at::Tensor tensor, std::int64_t root) {
  return {.op = Collective::kBroadcast, .out = tensor, .in = std::move(tensor), .peer = root};
}

Operation all_reduce(at::Tensor tensor, ReduceOp op) {
  return {.op = Collective::kAllReduce, .reduce = op, .out = tensor, .in = std::move(tensor)};
}

Operation reduce_scatter(at::Tensor out, at::Tensor in, ReduceOp op,
                         std::vector<std::int64_t> counts) {
  return {.op = Collective::kReduceScatter,
          .reduce = op,
          .out = std::move(out),
          .in = std::move(in),
          .send_counts = std::move(counts)};
}

Operation all_gather(at::Tensor out, at::Tensor in, std::vector<std::int64_t> counts) {
  return {.op = Collective::kAllGather,
          .out = std::move(out),
          .in = std::move(in),
          .recv_counts = std::move(counts)};
}

Operation all_to_all(at::Tensor out, at::Tensor in, std::vector<std::int64_t> send_counts,
                     std::vector<std::int64_t> recv_counts) {
  return {.op = Collective::kAllToAll,
          .out = std::move(out),
          .in = std::move(in),
          .send_counts = std::move(send_counts),
          .recv_counts = std::move(recv_counts)};
}

Operation send(at::Tensor tensor, std::int64_t to, std::int64_t tag) {
  return {.op = Collective::kSend, .in = std::move(tensor), .peer = to, .tag = tag};
}

Operation recv(at::Tensor tensor, std::int64_t from, std::int64_t tag) {
  return {.op = Collective::kRecv, .out = std::move(tensor), .peer = from, .tag = tag};
}

}  // namespace collective
}  // namespace sx
