#include "tests/equivalence/reference_run.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "sextant/base/check.h"
#include "sextant/dist/threads.h"
#include "sextant/optim/adamw.h"
#include "sextant/shard/gather_param.h"
#include "sextant/tensor/padded.h"

namespace sx {
namespace {

constexpr std::uint64_t kSeed = 17;
constexpr double kRate = 0.02;

/// Parts of all ranks put together; a second holder of a part must hold the same bits.
class Collector {
 public:
  explicit Collector(RunResult& result) : result_(result) {}
  void put(const std::string& name, const std::vector<std::int64_t>& shape, std::int64_t begin,
           const at::Tensor& part, bool writer) {
    if (!writer) return;
    const std::lock_guard lock(mutex_);
    at::Tensor& whole = result_.bits[name];
    if (!whole.defined()) whole = at::full_like(at::empty(shape, part.options()), -777.0);
    whole.view({-1}).narrow(0, begin, part.numel()).copy_(part.reshape({-1}));
  }
  void check(const std::string& name, std::int64_t begin, const at::Tensor& part) {
    const std::lock_guard lock(mutex_);
    const at::Tensor there = result_.bits.at(name).view({-1}).narrow(0, begin, part.numel());
    SX_CHECK(at::equal(there, part.reshape({-1})), "{}: holders of one part differ", name);
  }
  void put_losses(std::size_t at, double loss) {
    const std::lock_guard lock(mutex_);
    if (result_.losses.size() <= at) result_.losses.resize(at + 1);
    result_.losses[at] = loss;
  }
  RunResult& result() { return result_; }

 private:
  std::mutex mutex_;
  RunResult& result_;
};

std::int64_t row_of(const RunCase& test, std::int64_t step, std::int64_t m, std::int64_t rank) {
  return (step * test.microbatches + m) * test.replicas * test.shards + rank;
}

/// One parameter of the reference: own rows as master.
struct ReferenceParam {
  Parameter* parameter = nullptr;
  GatherSpec spec;
  at::Tensor master;  ///< own rows, padded behind
  at::Tensor sum;     ///< of the step's gradients: own rows, or the whole when local
  std::vector<std::int64_t> own_shape;
  std::int64_t begin = 0;
};

class Reference {
 public:
  Reference(const MakeModel& make, const RunCase& test, Communicator& world)
      : test_(test),
        world_(world),
        shard_(group(world.coord() / test.shards * test.shards, test.shards, 1)),
        replicate_(group(world.coord() % test.shards, test.replicas, test.shards)),
        model_(make()) {
    std::vector<OptimParam> optim;
    for (Parameter* parameter : model_.root->parameters()) {
      ReferenceParam p{.parameter = parameter};
      p.spec = {.shape = parameter->shape,
                .compute_dtype = test.param_dtype,
                .reduce_dtype = test.reduce_dtype,
                .flat_order = test.order == FoldOrder::kFlat,
                .shard = &shard_,
                .flat = &world_};
      const ShardRows rows = shard_rows(parameter->shape, test.shards, shard_.coord());
      p.own_shape = parameter->shape;
      p.own_shape[0] = rows.end - rows.begin;
      const std::int64_t row = parameter->numel() / parameter->shape[0];
      p.begin = rows.begin * row;
      p.master = make_padded(p.own_shape, test.dtype);
      fill_init(p.master, parameter->init, kSeed, parameter->fqn, row, p.begin);
      optim.push_back(
          {parameter->fqn, padded_block(p.master), {p.master.numel()}, parameter->decay});
      params_.push_back(std::move(p));
    }
    optimizer_ = std::make_unique<AdamW>(AdamWOptions{}, std::move(optim));
  }

  void run(Collector& out) {
    for (std::int64_t step = 0; step < test_.steps; ++step) {
      test_.accumulate == Accumulate::kLocal ? step_local(step, out) : step_reduced(step, out);
      add_replicas();
      update(step, out);
    }
    for (ReferenceParam& p : params_) {
      const std::string& name = p.parameter->fqn;
      const bool writer = replicate_.coord() == 0;
      out.put("weights." + name, p.parameter->shape, p.begin, p.master, writer);
      out.put("grads." + name, p.parameter->shape, p.begin, p.sum, writer);
      out.put("exp_avg." + name, p.parameter->shape, p.begin, optimizer_->exp_avg(name), writer);
      out.put("exp_avg_sq." + name, p.parameter->shape, p.begin, optimizer_->exp_avg_sq(name),
              writer);
    }
  }

 private:
  Communicator group(std::int64_t first, std::int64_t count, std::int64_t stride) {
    std::vector<std::int64_t> ranks;
    for (std::int64_t i = 0; i < count; ++i)
      ranks.push_back(world_.global_ranks()[static_cast<std::size_t>(first + i * stride)]);
    return world_.make_group(ranks, stride == 1 ? Axis::kDpShard : Axis::kDpReplicate,
                             Purpose::kGather);
  }

  at::Tensor loss_of(std::int64_t step, std::int64_t m, Collector& out) {
    const std::int64_t row = row_of(test_, step, m, world_.coord());
    const at::Tensor loss = model_.loss(row, test_.param_dtype.value_or(test_.dtype));
    out.put_losses(static_cast<std::size_t>(row), loss.item<double>());
    return loss;
  }

  static void add(at::Tensor& sum, const at::Tensor& grad, std::int64_t m) {
    if (m == 0) {
      sum = grad.clone();
    } else {
      sum = sum + grad;
    }
  }

  void step_reduced(std::int64_t step, Collector& out) {
    for (std::int64_t m = 0; m < test_.microbatches; ++m) {
      std::vector<at::Tensor> leaves;
      for (ReferenceParam& p : params_) {
        leaves.push_back(p.master.detach().set_requires_grad(true));
        p.parameter->tensor = gather_param(leaves.back(), p.spec);
      }
      const at::Tensor loss = loss_of(step, m, out);
      // Communication inside backward is in the order of the graph, the same on every rank.
      torch::autograd::backward({loss}, {at::full_like(loss.detach(), 0.25)});
      for (std::size_t i = 0; i < params_.size(); ++i) add(params_[i].sum, leaves[i].grad(), m);
    }
  }

  void step_local(std::int64_t step, Collector& out) {
    std::vector<at::Tensor> whole(params_.size());
    for (std::int64_t m = 0; m < test_.microbatches; ++m) {
      for (ReferenceParam& p : params_)
        p.parameter->tensor = gather_param(p.master, p.spec).detach().set_requires_grad(true);
      const at::Tensor loss = loss_of(step, m, out);
      torch::autograd::backward({loss}, {at::full_like(loss.detach(), 0.25)});
      for (std::size_t i = 0; i < params_.size(); ++i) {
        add(whole[i], params_[i].parameter->tensor.grad().to(test_.dtype), m);
      }
    }
    for (std::size_t i = 0; i < params_.size(); ++i) {
      params_[i].sum = reduce_grad(whole[i], params_[i].spec, test_.dtype);
    }
  }

  void add_replicas() {
    if (test_.order == FoldOrder::kFlat) return;
    for (ReferenceParam& p : params_) {
      const at::Tensor wire =
          p.sum.to(test_.reduce_dtype.value_or(test_.dtype)).contiguous().clone();
      replicate_.start_all_reduce(wire.view({-1}), ReduceOp::kSum).wait();
      p.sum = wire.to(test_.dtype);
    }
  }

  void update(std::int64_t, Collector& out) {
    ExactSum squares;
    if (replicate_.coord() == 0) {
      for (ReferenceParam& p : params_) squares.add_squares(p.sum.contiguous());
    }
    const double norm = reduce_step_sums(squares, world_).norm.norm;
    if (world_.coord() == 0) out.result().norms.push_back(norm);
    const double coefficient = clip_coefficient(norm, test_.max_norm);
    std::vector<at::Tensor> grads;
    for (ReferenceParam& p : params_) {
      if (coefficient < 1.0) p.sum = p.sum * coefficient;
      grads.push_back(p.sum.contiguous().view({-1}));
    }
    const at::NoGradGuard no_grad;
    optimizer_->step(grads, kRate);
  }

  const RunCase& test_;
  Communicator& world_;
  Communicator shard_, replicate_;
  TestModel model_;
  std::vector<ReferenceParam> params_;
  std::unique_ptr<AdamW> optimizer_;
};

}  // namespace

std::string RunCase::to_string() const {
  return fmt::format(
      "{}x{} {} {} m{} {}", replicas, shards, order == FoldOrder::kFlat ? "flat" : "nested",
      accumulate == Accumulate::kLocal ? "local" : "reduced", microbatches, c10::toString(dtype));
}

RunResult run_reference(const MakeModel& make, const RunCase& test) {
  RunResult result;
  Collector out(result);
  run_ranks(test.replicas * test.shards,
            [&](Communicator& world) { Reference(make, test, world).run(out); },
            {.timeout = Seconds{120.0}});
  return result;
}

RunResult run_engine(const MakeModel& make, const RunCase& test, Policy policy, ArenaDebug debug) {
  RunResult result;
  Collector out(result);
  policy.order = test.order;
  policy.accumulate = test.accumulate;
  if (test.param_dtype) policy.param_dtype = test.param_dtype;
  if (test.reduce_dtype) policy.reduce_dtype = test.reduce_dtype;
  run_ranks(
      test.replicas * test.shards,
      [&](Communicator& world) {
        DataComms comms(world, test.replicas, test.shards, policy.separate_comms);
        const TestModel model = make();
        Engine engine(*model.root, comms, policy, test.dtype, Arena::make(debug));
        engine.init_parameters(kSeed);
        std::vector<OptimParam> optim;
        for (const OwnedPart& part : engine.owned()) {
          optim.push_back(
              {part.parameter->fqn, part.master, {part.end - part.begin}, part.parameter->decay});
        }
        AdamW optimizer({}, std::move(optim));
        for (std::int64_t step = 0; step < test.steps; ++step) {
          engine.begin_step();
          for (std::int64_t m = 0; m < test.microbatches; ++m) {
            engine.begin_microbatch(m + 1 == test.microbatches);
            const std::int64_t row = row_of(test, step, m, world.coord());
            const at::Tensor loss = model.loss(row, test.param_dtype.value_or(test.dtype));
            out.put_losses(static_cast<std::size_t>(row), loss.item<double>());
            engine.backward(loss, 0.25);
          }
          engine.finish_grads();
          const double norm = engine.step_sums().norm.norm;
          if (world.coord() == 0) out.result().norms.push_back(norm);
          engine.clip(norm, test.max_norm);
          std::vector<at::Tensor> grads;
          for (const OwnedPart& part : engine.owned()) grads.push_back(part.grad);
          optimizer.step(grads, kRate);
          engine.commit();
        }
        for (const bool write : {true, false}) {
          for (const OwnedPart& part : engine.owned()) {
            const std::string& name = part.parameter->fqn;
            const std::int64_t n = part.end - part.begin;
            const std::pair<const char*, at::Tensor> tensors[] = {
                {"weights.", part.master.narrow(0, 0, n)},
                {"grads.", part.grad},
                {"exp_avg.", optimizer.exp_avg(name)},
                {"exp_avg_sq.", optimizer.exp_avg_sq(name)}};
            for (const auto& [what, tensor] : tensors) {
              if (write) {
                out.put(what + name, part.parameter->shape, part.begin, tensor, part.writer);
              } else {
                out.check(what + name, part.begin, tensor);
              }
            }
          }
          world.barrier();
        }
      },
      {.timeout = Seconds{120.0}});
  return result;
}

std::vector<std::string> differences(const RunResult& expected, const RunResult& actual) {
  std::vector<std::string> out;
  if (expected.losses != actual.losses) out.push_back("losses differ");
  if (expected.norms != actual.norms) out.push_back("norms differ");
  if (expected.bits.size() != actual.bits.size()) out.push_back("other tensors");
  for (const auto& [name, tensor] : expected.bits) {
    const auto found = actual.bits.find(name);
    if (found == actual.bits.end()) {
      out.push_back(name + " is missing");
    } else if (!at::equal(tensor, found->second)) {
      out.push_back(fmt::format("{} differs by up to {:.3g}", name,
                                (tensor - found->second).abs().max().item<double>()));
    }
  }
  return out;
}

double loss_difference(const RunResult& a, const RunResult& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    worst =
        std::max(worst, std::abs(a.losses[i] - b.losses[i]) / std::max(1.0, std::abs(a.losses[i])));
  }
  return worst;
}

double tensor_difference(const RunResult& a, const RunResult& b, const std::string& prefix) {
  double worst = 0;
  for (const auto& [name, tensor] : a.bits) {
    if (!name.starts_with(prefix)) continue;
    const double scale = std::max(1e-30, tensor.abs().max().item<double>());
    worst = std::max(worst, (tensor - b.bits.at(name)).abs().max().item<double>() / scale);
  }
  return worst;
}

}  // namespace sx
