#include "sextant/dist/detail/check_operation.h"

#include <numeric>

#include "sextant/base/check.h"

namespace sx::detail {
namespace {

using Counts = std::vector<std::int64_t>;

std::int64_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

void check_tensor(const Operation& o, const at::Tensor& t, const char* role,
                  const Capabilities& can) {
  SX_CHECK(t.defined(), "{}: {} is not a tensor", to_string(o.op), role);
  SX_CHECK(t.is_contiguous(), "{}: {} is not contiguous", to_string(o.op), role);
  SX_CHECK(t.is_cpu() ? can.cpu : (t.is_cuda() && can.cuda),
           "{}: {} lies on a device the transport \"{}\" does not serve", to_string(o.op), role,
           can.transport);
}

/// Fills even counts in, or checks given ones against the elements there are.
void settle_counts(const Operation& o, Counts& counts, std::int64_t degree, std::int64_t numel,
                   const char* role) {
  if (counts.empty()) {
    SX_CHECK(numel % degree == 0, "{}: {} has {} elements, not a multiple of the degree {}",
             to_string(o.op), role, numel, degree);
    counts.assign(static_cast<std::size_t>(degree), numel / degree);
  }
  SX_CHECK(static_cast<std::int64_t>(counts.size()) == degree,
           "{}: {} counts for {} given, the degree is {}", to_string(o.op), counts.size(), role,
           degree);
  for (const std::int64_t count : counts) {
    SX_CHECK(count >= 0, "{}: negative count {} for {}", to_string(o.op), count, role);
  }
  SX_CHECK(sum(counts) == numel, "{}: counts for {} add up to {}, it has {} elements",
           to_string(o.op), role, sum(counts), numel);
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  const auto* pa = static_cast<const char*>(a.const_data_ptr());
  const auto* pb = static_cast<const char*>(b.const_data_ptr());
  return a.nbytes() != 0 && b.nbytes() != 0 && pa < pb + b.nbytes() && pb < pa + a.nbytes();
}

/// `part` may lie in `whole` only as the slice that begins at element `begin`.
void check_slice_or_apart(const Operation& o, const at::Tensor& part, const at::Tensor& whole,
                          std::int64_t begin) {
  const auto* own = static_cast<const char*>(whole.const_data_ptr()) + begin * whole.element_size();
  SX_CHECK(!overlap(part, whole) || part.const_data_ptr() == own,
           "{}: out and in overlap otherwise than by the rank's own slice", to_string(o.op));
}

void check_reducible(const Operation& o) {
  const at::ScalarType dtype = o.in.scalar_type();
  SX_CHECK(is_reducible(dtype), "{}: {} cannot be reduced", to_string(o.op), toString(dtype));
  SX_CHECK(dtype != at::kBool || o.reduce != ReduceOp::kSum, "{}: bool has max and min, no sum",
           to_string(o.op));
}

void check_same_dtype(const Operation& o) {
  SX_CHECK(o.in.scalar_type() == o.out.scalar_type(), "{}: in is {}, out is {}", to_string(o.op),
           toString(o.in.scalar_type()), toString(o.out.scalar_type()));
}

}  // namespace

bool is_reducible(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
    case at::kFloat:
    case at::kBFloat16:
    case at::kHalf:
    case at::kLong:
    case at::kInt:
    case at::kChar:
    case at::kByte:
    case at::kBool: return true;
    default: return false;
  }
}

void check_operation(Operation& o, const GroupInfo& group, const Capabilities& can) {
  const std::int64_t degree = group.degree();
  const auto coord = static_cast<std::size_t>(group.coord);
  if (o.op != Collective::kBarrier && o.op != Collective::kRecv) check_tensor(o, o.in, "in", can);
  if (o.op != Collective::kBarrier && o.op != Collective::kSend) check_tensor(o, o.out, "out", can);
  switch (o.op) {
    case Collective::kBroadcast:
    case Collective::kSend:
    case Collective::kRecv:
      SX_CHECK(o.peer >= 0 && o.peer < degree, "{}: coord {} is outside the degree {}",
               to_string(o.op), o.peer, degree);
      break;
    case Collective::kAllReduce: check_reducible(o); break;
    case Collective::kReduceScatter: {
      check_same_dtype(o);
      check_reducible(o);
      settle_counts(o, o.send_counts, degree, o.in.numel(), "in");
      SX_CHECK(o.out.numel() == o.send_counts[coord], "{}: out has {} elements, its count is {}",
               to_string(o.op), o.out.numel(), o.send_counts[coord]);
      const std::int64_t begin = std::accumulate(
          o.send_counts.begin(), o.send_counts.begin() + group.coord, std::int64_t{0});
      check_slice_or_apart(o, o.out, o.in, begin);
      break;
    }
    case Collective::kAllGather: {
      check_same_dtype(o);
      settle_counts(o, o.recv_counts, degree, o.out.numel(), "out");
      SX_CHECK(o.in.numel() == o.recv_counts[coord], "{}: in has {} elements, its count is {}",
               to_string(o.op), o.in.numel(), o.recv_counts[coord]);
      const std::int64_t begin = std::accumulate(
          o.recv_counts.begin(), o.recv_counts.begin() + group.coord, std::int64_t{0});
      check_slice_or_apart(o, o.in, o.out, begin);
      break;
    }
    case Collective::kAllToAll:
      check_same_dtype(o);
      settle_counts(o, o.send_counts, degree, o.in.numel(), "in");
      settle_counts(o, o.recv_counts, degree, o.out.numel(), "out");
      SX_CHECK(!overlap(o.in, o.out), "{}: out and in overlap", to_string(o.op));
      break;
    case Collective::kBarrier: break;
  }
}

}  // namespace sx::detail
