#include "sextant/ep/capacity.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/ep/exchange.h"

namespace sx {
namespace {

/// One pair that asks for a place.
struct Candidate {
  double weight = 0.0;
  std::int64_t position = 0;
  std::int64_t own_pair = -1;  ///< -1: of another coordinate
};

bool before(CapacityPolicy policy, const Candidate& a, const Candidate& b) {
  if (policy == CapacityPolicy::kProbs && a.weight != b.weight) return a.weight > b.weight;
  return a.position < b.position;
}

/// All tokens of all parts, part after part, sequence-major within each.
struct Parts {
  std::vector<std::int64_t> tokens;  ///< per sequence, of each coordinate
  at::Tensor experts, weights, positions, real;
};

at::Tensor gathered(Communicator& axis, const at::Tensor& own,
                    const std::vector<std::int64_t>& rows, const char* unit) {
  RowExchange exchange = RowExchange::gather(axis, rows, unit);
  return exchange.finish(exchange.start(own.contiguous()));
}

Parts collect(const CapacityInput& input, Communicator& sequence) {
  const std::int64_t q = input.num_sequences, own = input.experts_TK.size(0) / q;
  Parts parts;
  std::vector<std::int64_t> rows;
  std::int64_t first = 0;
  for (const auto& n : gather_counts(sequence, {own}, "capacity counts")) {
    if (static_cast<std::int64_t>(parts.tokens.size()) < sequence.coord()) first += n[0];
    parts.tokens.push_back(n[0]);
    rows.push_back(n[0] * q);
  }
  at::Tensor positions = input.positions_T;
  if (!positions.defined()) positions = at::arange(first, first + own, c10::kLong).repeat({q});
  at::Tensor real = input.padding_T.defined() ? input.padding_T.logical_not().to(c10::kByte)
                                              : at::ones({q * own}, c10::kByte);
  parts.experts = gathered(sequence, input.experts_TK, rows, "capacity experts");
  parts.weights =
      gathered(sequence, input.weights_TK.detach().to(c10::kDouble), rows, "capacity weights");
  parts.positions = gathered(sequence, positions.to(c10::kLong), rows, "capacity positions");
  parts.real = gathered(sequence, real, rows, "capacity padding");
  return parts;
}

}  // namespace

std::int64_t expert_capacity(std::int64_t tokens, std::int64_t topk, std::int64_t num_experts,
                             double factor) {
  const double places =
      static_cast<double>(tokens * topk) / static_cast<double>(num_experts) * factor;
  return static_cast<std::int64_t>(std::ceil(places * (1.0 - 1e-12)));
}

at::Tensor apply_capacity(const CapacityInput& input, const CapacityOptions& options,
                          Communicator& sequence) {
  if (options.factor == 0.0) return input.experts_TK;
  SX_CHECK(options.factor > 0.0, "capacity factor {}", options.factor);
  CapacityInput group = input;
  Communicator alone = Communicator::solo();
  const bool whole_rank = options.scope == CapacityScope::kRank;
  if (whole_rank) {
    group.num_sequences = 1;
    group.positions_T = at::Tensor();  // by token of the microbatch
  }
  Communicator& axis = whole_rank ? alone : sequence;
  const Parts parts = collect(group, axis);

  at::Tensor kept = input.experts_TK.clone();
  auto* out = kept.mutable_data_ptr<std::int32_t>();
  const std::int64_t topk = input.experts_TK.size(1);
  const auto* experts = parts.experts.const_data_ptr<std::int32_t>();
  const auto* weights = parts.weights.const_data_ptr<double>();
  const auto* positions = parts.positions.const_data_ptr<std::int64_t>();
  const auto* real = parts.real.const_data_ptr<std::uint8_t>();
  std::vector<std::vector<Candidate>> wanted(static_cast<std::size_t>(input.num_experts));
  for (std::int64_t q = 0; q < group.num_sequences; ++q) {
    for (auto& list : wanted) list.clear();
    std::int64_t tokens = 0, part_begin = 0;
    for (std::size_t part = 0; part < parts.tokens.size(); ++part) {
      const bool own = static_cast<std::int64_t>(part) == axis.coord();
      for (std::int64_t i = 0; i < parts.tokens[part]; ++i) {
        const std::int64_t in_part = q * parts.tokens[part] + i, token = part_begin + in_part;
        tokens += real[token];
        for (std::int64_t pair = token * topk; pair < (token + 1) * topk; ++pair) {
          if (experts[pair] < 0) continue;
          wanted[static_cast<std::size_t>(experts[pair])].push_back(
              {weights[pair], positions[token], own ? in_part * topk + pair - token * topk : -1});
        }
      }
      part_begin += parts.tokens[part] * group.num_sequences;
    }
    const auto places =
        static_cast<std::size_t>(expert_capacity(tokens, topk, input.num_experts, options.factor));
    for (auto& list : wanted) {
      if (list.size() <= places) continue;
      std::sort(list.begin(), list.end(), [&](const Candidate& a, const Candidate& b) {
        return before(options.policy, a, b);
      });
      for (std::size_t i = places; i < list.size(); ++i)
        if (list[i].own_pair >= 0) out[list[i].own_pair] = -1;
    }
  }
  return kept;
}

}  // namespace sx
