#pragma once

// What the tests of sx_ep share: small layers, a plain layer of experts on one process that shares
// no code with the library, and layouts of ranks.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/base/rng.h"
#include "sextant/ep/moe_layer.h"
#include "sextant/nn/testing.h"
#include "tests/equivalence/rank_test.h"

namespace sx::testing {

inline ModelShape moe_shape(std::int64_t num_experts = 8, std::int64_t topk = 3) {
  ModelShape shape = defaults_for(Arch::kLlama);
  shape.name = "moe";
  shape.num_layers = 2;
  shape.hidden = 8;
  shape.init_std = 0.5;
  shape.num_experts = num_experts;
  shape.experts_topk = topk;
  shape.expert_hidden = 6;
  return shape;
}

/// ranks = edp x ep x etp, etp fastest.
struct MoeRanks {
  std::int64_t edp = 1, ep = 1, etp = 1;
  std::int64_t size() const { return edp * ep * etp; }
  std::string name() const {
    return "edp" + std::to_string(edp) + " ep" + std::to_string(ep) + " etp" + std::to_string(etp);
  }
};

/// Communicators of one rank of such a layout over `world`.
struct MoeComms {
  Communicator ep, etp, edp;
};
inline MoeComms make_comms(Communicator& world, MoeRanks ranks) {
  const std::int64_t r = world.coord();
  const std::int64_t etp = r % ranks.etp, ep = r / ranks.etp % ranks.ep,
                     edp = r / (ranks.etp * ranks.ep);
  std::vector<std::int64_t> along_ep, along_etp, along_edp;
  for (std::int64_t i = 0; i < ranks.ep; ++i)
    along_ep.push_back((edp * ranks.ep + i) * ranks.etp + etp);
  for (std::int64_t i = 0; i < ranks.etp; ++i)
    along_etp.push_back((edp * ranks.ep + ep) * ranks.etp + i);
  for (std::int64_t i = 0; i < ranks.edp; ++i)
    along_edp.push_back((i * ranks.ep + ep) * ranks.etp + etp);
  return {world.make_group(along_ep, Axis::kEp, Purpose::kGather),
          world.make_group(along_etp, Axis::kEtp, Purpose::kGather),
          world.make_group(along_edp, Axis::kEdp, Purpose::kReduce)};
}

/// Whole parameters under the names of a layer called "moe".
using WholeParameters = std::map<std::string, at::Tensor>;

/// The same layer on one process, as its definition says it: every expert sees every token.
struct PlainMoe {
  ModelShape shape;
  MoeOptions options;
  WholeParameters weights;

  struct Output {
    at::Tensor y_BSH;
    at::Tensor aux, z;  ///< without coefficients
    std::int64_t dropped = 0;
  };

  at::Tensor expert(const at::Tensor& x, std::int64_t e) const {
    const at::Tensor up = at::linear(x, weights.at("moe.experts.up.weight").select(0, e));
    const at::Tensor gate = at::linear(x, weights.at("moe.experts.gate.weight").select(0, e));
    return at::linear(at::silu(gate).mul(up), weights.at("moe.experts.down.weight").select(0, e));
  }

  /// x [B, S, H], whole sequences; real [B, S] of 1 and 0.
  Output forward(const at::Tensor& x_BSH, const at::Tensor& real_BS) const {
    const std::int64_t batch = x_BSH.size(0), seq_len = x_BSH.size(1), experts = shape.num_experts;
    const double topk = static_cast<double>(shape.experts_topk),
                 n_experts = static_cast<double>(experts);
    const at::Tensor real = real_BS.to(x_BSH.scalar_type()).unsqueeze(2);
    const at::Tensor logits = at::linear(x_BSH, weights.at("moe.router.weight"));
    const bool softmax = options.router.score == RouterScore::kSoftmax;
    const at::Tensor scores = softmax ? at::softmax(logits, -1) : at::sigmoid(logits);
    const at::Tensor index = std::get<1>(at::topk(scores, shape.experts_topk, -1));
    at::Tensor chosen = at::one_hot(index, experts).sum(2).to(x_BSH.scalar_type()).mul(real);
    at::Tensor dense = scores.mul(chosen);  // softmax over the chosen = scores over their sum
    dense = dense.div(dense.sum(-1, true).add(real.mul(-1).add(1))).mul(options.router.topk_scale);
    const at::Tensor routed_tokens = real.sum();

    Output out;
    const at::Tensor normalised = scores.div(scores.sum(-1, true)).mul(real);
    const at::Tensor tokens_B = real.sum(at::IntArrayRef{1, 2});
    out.aux = chosen.sum(1)
                  .mul(normalised.sum(1))
                  .sum(1)
                  .mul(n_experts / topk)
                  .div(tokens_B.clamp_min(1))
                  .sum()
                  .div(routed_tokens);
    out.z = at::logsumexp(logits, {-1}, true).square().mul(real).sum().div(routed_tokens);

    at::Tensor kept = chosen.clone();
    if (options.capacity.factor > 0) drop(dense, real, kept, out.dropped);
    out.y_BSH = at::zeros({batch, seq_len, shape.hidden}, x_BSH.options());
    for (std::int64_t e = 0; e < experts; ++e) {
      out.y_BSH = out.y_BSH.add(expert(x_BSH, e).mul(dense.mul(kept).select(-1, e).unsqueeze(-1)));
    }
    if (shape.num_shared_experts > 0) {
      const at::Tensor act = at::silu(at::linear(x_BSH, weights.at("moe.shared.gate.weight")))
                                 .mul(at::linear(x_BSH, weights.at("moe.shared.up.weight")));
      at::Tensor y = at::linear(act, weights.at("moe.shared.down.weight"));
      if (options.shared_gate) {
        y = y.mul(at::sigmoid(at::linear(x_BSH, weights.at("moe.shared.scale.weight"))));
      }
      out.y_BSH = out.y_BSH.add(y);
    }
    return out;
  }

  void drop(const at::Tensor& dense, const at::Tensor& real, at::Tensor& kept,
            std::int64_t& dropped) const {
    for (std::int64_t q = 0; q < dense.size(0); ++q) {
      const double tokens = real.select(0, q).sum().item<double>();
      const auto places = static_cast<std::size_t>(
          std::ceil(tokens * static_cast<double>(shape.experts_topk) /
                        static_cast<double>(shape.num_experts) * options.capacity.factor -
                    1e-9));
      for (std::int64_t e = 0; e < shape.num_experts; ++e) {
        std::vector<std::pair<double, std::int64_t>> wanted;
        for (std::int64_t s = 0; s < dense.size(1); ++s) {
          if (kept[q][s][e].item<double>() == 0) continue;
          const double key = options.capacity.policy == CapacityPolicy::kProbs
                                 ? -dense[q][s][e].item<double>()
                                 : 0.0;
          wanted.emplace_back(key, s);
        }
        std::sort(wanted.begin(), wanted.end());
        for (std::size_t i = places; i < wanted.size(); ++i) {
          kept[q][wanted[i].second][e] = 0;
          ++dropped;
        }
      }
    }
  }
};

/// Random whole parameters of a layer.
inline WholeParameters whole_parameters(const ModelShape& shape, const MoeOptions& options,
                                        c10::ScalarType dtype) {
  Module root;
  Communicator solo = Communicator::solo();
  MoeLayer layer(root, "moe", shape, options, {solo, solo, solo});
  WholeParameters whole;
  for (Parameter* parameter : layer.parameters()) {
    if (!parameter->trainable) continue;
    whole[parameter->fqn] =
        random_normal(parameter->fqn, parameter->shape, c10::kDouble).mul(0.5).to(dtype);
  }
  return whole;
}

/// The part of a whole tensor that a parameter of this layer is.
inline at::Tensor own_part(const at::Tensor& whole, const std::string& fqn, MoeRanks ranks,
                           std::int64_t ep_coord, std::int64_t etp_coord) {
  if (fqn.find(".experts.") == std::string::npos) return whole;
  at::Tensor part = whole.chunk(ranks.ep, 0)[static_cast<std::size_t>(ep_coord)];
  const std::int64_t dim = fqn.ends_with("down.weight") ? 2 : 1;
  return part.chunk(ranks.etp, dim)[static_cast<std::size_t>(etp_coord)];
}

inline double relative_error(const at::Tensor& got, const at::Tensor& want) {
  if (want.numel() == 0) return got.numel() == 0 ? 0.0 : 1.0;
  const double scale = want.abs().max().item<double>();
  return max_difference(got, want) / std::max(scale, 1e-300);
}

}  // namespace sx::testing
