#include "sextant/ep/exchange.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>
#include <utility>

#include "sextant/base/check.h"

namespace sx {

struct RowExchange::Flight {
  enum class Kind : std::uint8_t { kAllToAll, kGather, kSum };
  Communicator* axis = nullptr;
  Kind kind = Kind::kAllToAll;
  std::vector<std::int64_t> send, recv;  ///< rows; for gather and sum both are those of all
  std::string unit;
  Handle handle;
  at::Tensor out;

  /// Begins the collective, or its adjoint, on `x`; the result is in `out`.
  void begin(const at::Tensor& given, bool adjoint);
  void end() { handle.wait(); }
};

namespace {

using Flight = RowExchange::Flight;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::int64_t total(const std::vector<std::int64_t>& rows) {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

std::vector<std::int64_t> times(std::vector<std::int64_t> rows, std::int64_t width) {
  for (std::int64_t& n : rows) n *= width;
  return rows;
}

struct KeptFlight : torch::CustomClassHolder {
  explicit KeptFlight(std::shared_ptr<Flight> f) : flight(std::move(f)) {}
  std::shared_ptr<Flight> flight;
};
using FlightHolder = c10::intrusive_ptr<torch::CustomClassHolder>;

Flight& flight_of(AutogradContext* ctx) {
  return *static_cast<KeptFlight&>(*ctx->saved_data["flight"].toCapsule()).flight;
}

struct StartExchange : torch::autograd::Function<StartExchange> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const FlightHolder& holder) {
    ctx->saved_data["flight"] = c10::IValue::make_capsule(holder);
    Flight& flight = flight_of(ctx);
    flight.begin(x, false);
    return std::exchange(flight.out, at::Tensor());
  }
  static variable_list backward(AutogradContext* ctx, variable_list) {
    Flight& flight = flight_of(ctx);
    flight.end();
    return {std::exchange(flight.out, at::Tensor()), at::Tensor()};
  }
};

struct FinishExchange : torch::autograd::Function<FinishExchange> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& started,
                            const FlightHolder& holder) {
    ctx->saved_data["flight"] = c10::IValue::make_capsule(holder);
    flight_of(ctx).end();
    return started;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    flight_of(ctx).begin(grads[0], true);
    return {grads[0], at::Tensor()};
  }
};

}  // namespace

void RowExchange::Flight::begin(const at::Tensor& given, bool adjoint) {
  const at::Tensor in = given.detach().contiguous();
  std::vector<std::int64_t> sizes = in.sizes().vec();
  std::int64_t width = 1;
  for (std::size_t dim = 1; dim < sizes.size(); ++dim) width *= sizes[dim];
  const bool gathers = (kind == Kind::kGather) != adjoint;
  const auto own = static_cast<std::size_t>(axis->coord());
  if (kind == Kind::kAllToAll) {
    const auto& to = adjoint ? recv : send;
    const auto& from = adjoint ? send : recv;
    SX_CHECK(in.size(0) == total(to), "{}: {} rows, but {} to send", unit, in.size(0), total(to));
    sizes[0] = total(from);
    out = at::empty(sizes, in.options());
    handle = axis->start_all_to_all(out.view({-1}), in.view({-1}), times(to, width),
                                    times(from, width), {.unit = unit});
  } else if (gathers) {
    SX_CHECK(in.size(0) == send[own], "{}: {} rows instead of {}", unit, in.size(0), send[own]);
    sizes[0] = total(send);
    out = at::empty(sizes, in.options());
    handle =
        axis->start_all_gather(out.view({-1}), in.view({-1}), times(send, width), {.unit = unit});
  } else {
    SX_CHECK(in.size(0) == total(send), "{}: {} rows instead of {}", unit, in.size(0), total(send));
    sizes[0] = send[own];
    out = at::empty(sizes, in.options());
    handle = axis->start_reduce_scatter(out.view({-1}), in.view({-1}), ReduceOp::kSum,
                                        times(send, width), {.unit = unit});
  }
}

RowExchange RowExchange::all_to_all(Communicator& axis, std::vector<std::int64_t> send_rows,
                                    std::vector<std::int64_t> recv_rows, std::string unit) {
  auto flight = std::make_shared<Flight>();
  flight->axis = &axis;
  flight->send = std::move(send_rows);
  flight->recv = std::move(recv_rows);
  flight->unit = std::move(unit);
  return RowExchange(std::move(flight));
}

RowExchange RowExchange::gather(Communicator& axis, std::vector<std::int64_t> rows,
                                std::string unit) {
  RowExchange exchange = all_to_all(axis, std::move(rows), {}, std::move(unit));
  exchange.flight_->kind = Flight::Kind::kGather;
  return exchange;
}

RowExchange RowExchange::sum(Communicator& axis, std::vector<std::int64_t> rows, std::string unit) {
  RowExchange exchange = all_to_all(axis, std::move(rows), {}, std::move(unit));
  exchange.flight_->kind = Flight::Kind::kSum;
  return exchange;
}

at::Tensor RowExchange::start(const at::Tensor& x) {
  if (flight_->axis->degree() == 1) return x;
  const FlightHolder holder = c10::make_intrusive<KeptFlight>(flight_);
  return StartExchange::apply(x, holder);
}

at::Tensor RowExchange::finish(const at::Tensor& started) {
  if (flight_->axis->degree() == 1) return started;
  const FlightHolder holder = c10::make_intrusive<KeptFlight>(flight_);
  return FinishExchange::apply(started, holder);
}

std::vector<std::vector<std::int64_t>> gather_counts(Communicator& axis,
                                                     const std::vector<std::int64_t>& own,
                                                     const std::string& unit) {
  const auto n = static_cast<std::int64_t>(own.size());
  if (axis.degree() == 1) return {own};
  at::Tensor in = at::empty({n}, c10::kInt), out = at::empty({n * axis.degree()}, c10::kInt);
  auto* to = in.mutable_data_ptr<std::int32_t>();
  for (std::size_t i = 0; i < own.size(); ++i) to[i] = static_cast<std::int32_t>(own[i]);
  axis.start_all_gather(out, in, {}, {.unit = unit}).wait();
  std::vector<std::vector<std::int64_t>> counts;
  const auto* from = out.const_data_ptr<std::int32_t>();
  for (std::int64_t c = 0; c < axis.degree(); ++c)
    counts.emplace_back(from + c * n, from + c * n + n);
  return counts;
}

}  // namespace sx
