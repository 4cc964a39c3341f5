// Causal attention inside documents: LibTorch's CPU flash kernel, called once per segment, forward
// and backward by hand. A mask would cost S^2 memory and time for what documents exclude; narrowing
// and joining through autograd would add a full-size zero tensor per segment. Letters: B batch, S
// sequence, N query heads, G key/value heads, D head dim, T cached tokens.
#include "sextant/nn/attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <tuple>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr std::int64_t kFields = 4;

/// Tokens of one segment as the kernel wants them: [rows, heads, length, D], a view.
at::Tensor cut(const at::Tensor& x_BSND, const AttentionSegment& s) {
  return x_BSND.narrow(0, s.row, s.num_rows).narrow(1, s.start, s.length).transpose(1, 2);
}

bool is_whole(const at::Tensor& x_BSND, const AttentionSegment& s) {
  return s.num_rows == x_BSND.size(0) && s.length == x_BSND.size(1);
}

struct SegmentAttention : torch::autograd::Function<SegmentAttention> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& q_BSND,
                            const at::Tensor& k_BSGD, const at::Tensor& v_BSGD,
                            const std::vector<AttentionSegment>& segments) {
    at::Tensor out_BSND, lse_BSN;
    if (segments.size() == 1 && is_whole(q_BSND, segments[0])) {
      const AttentionSegment& s = segments[0];
      auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
          cut(q_BSND, s), cut(k_BSGD, s), cut(v_BSGD, s), 0.0, /*is_causal=*/true);
      out_BSND = out.transpose(1, 2);
      lse_BSN = lse.transpose(1, 2);
    } else {
      const bool wide = q_BSND.scalar_type() == c10::kDouble;
      out_BSND = at::empty(q_BSND.sizes(), q_BSND.options());
      lse_BSN = at::empty({q_BSND.size(0), q_BSND.size(1), q_BSND.size(2)},
                          q_BSND.options().dtype(wide ? c10::kDouble : c10::kFloat));
      for (const AttentionSegment& s : segments) {
        const auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
            cut(q_BSND, s), cut(k_BSGD, s), cut(v_BSGD, s), 0.0, /*is_causal=*/true);
        cut(out_BSND, s).copy_(out);
        lse_BSN.narrow(0, s.row, s.num_rows)
            .narrow(1, s.start, s.length)
            .copy_(lse.transpose(1, 2));
      }
    }
    ctx->save_for_backward({q_BSND, k_BSGD, v_BSGD, out_BSND, lse_BSN});
    std::vector<std::int64_t> flat;
    flat.reserve(segments.size() * kFields);
    for (const AttentionSegment& s : segments) {
      flat.insert(flat.end(), {s.row, s.num_rows, s.start, s.length});
    }
    ctx->saved_data["segments"] = std::move(flat);
    return out_BSND;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
    const at::Tensor grad_out = grads[0].contiguous();
    const std::vector<std::int64_t> flat = ctx->saved_data["segments"].toIntVector();
    const auto run = [&](const AttentionSegment& s) {
      return at::_scaled_dot_product_flash_attention_for_cpu_backward(
          cut(grad_out, s), cut(q, s), cut(k, s), cut(v, s), cut(out, s),
          lse.narrow(0, s.row, s.num_rows).narrow(1, s.start, s.length).transpose(1, 2), 0.0,
          /*is_causal=*/true);
    };
    at::Tensor dq, dk, dv;
    const auto segment = [&](std::size_t i) {
      return AttentionSegment{flat[i], flat[i + 1], flat[i + 2], flat[i + 3]};
    };
    if (flat.size() == kFields && is_whole(q, segment(0))) {
      std::tie(dq, dk, dv) = run(segment(0));
      dq = dq.transpose(1, 2);
      dk = dk.transpose(1, 2);
      dv = dv.transpose(1, 2);
    } else {
      dq = at::empty(q.sizes(), q.options());
      dk = at::empty(k.sizes(), k.options());
      dv = at::empty(v.sizes(), v.options());
      for (std::size_t i = 0; i < flat.size(); i += kFields) {
        const AttentionSegment s = segment(i);
        const auto [part_q, part_k, part_v] = run(s);
        cut(dq, s).copy_(part_q);
        cut(dk, s).copy_(part_k);
        cut(dv, s).copy_(part_v);
      }
    }
    return {dq, dk, dv, at::Tensor()};
  }
};

template <class Id>
void append_row(const Id* ids, std::int64_t row, std::int64_t seq_len,
                std::vector<AttentionSegment>& out) {
  std::int64_t start = 0;
  for (std::int64_t i = 1; i <= seq_len; ++i) {
    if (i == seq_len || ids[i] != ids[i - 1]) {
      out.push_back({row, 1, start, i - start});
      start = i;
    }
  }
}

/// Rows of one document each, next to each other, are one call of the kernel.
std::vector<AttentionSegment> merge_whole_rows(const std::vector<AttentionSegment>& segments,
                                               std::int64_t seq_len) {
  std::vector<AttentionSegment> out;
  for (const AttentionSegment& s : segments) {
    const bool joins = !out.empty() && s.length == seq_len && out.back().length == seq_len;
    if (joins) {
      ++out.back().num_rows;
    } else {
      out.push_back(s);
    }
  }
  return out;
}

}  // namespace

std::vector<AttentionSegment> whole_rows(std::int64_t batch, std::int64_t seq_len) {
  return {{0, batch, 0, seq_len}};
}

std::vector<AttentionSegment> document_segments(const at::Tensor& document_ids_BS) {
  SX_CHECK(document_ids_BS.dim() == 2, "document ids have {} dimensions, not [B, S]",
           document_ids_BS.dim());
  const at::Tensor ids = document_ids_BS.contiguous();
  const std::int64_t batch = ids.size(0), seq_len = ids.size(1);
  std::vector<AttentionSegment> segments;
  for (std::int64_t row = 0; row < batch; ++row) {
    if (ids.scalar_type() == c10::kInt) {
      append_row(ids.const_data_ptr<std::int32_t>() + row * seq_len, row, seq_len, segments);
    } else {
      SX_CHECK(ids.scalar_type() == c10::kLong, "document ids are int32 or int64");
      append_row(ids.const_data_ptr<std::int64_t>() + row * seq_len, row, seq_len, segments);
    }
  }
  return merge_whole_rows(segments, seq_len);
}

at::Tensor causal_attention(const at::Tensor& q_BSND, const at::Tensor& k_BSGD,
                            const at::Tensor& v_BSGD,
                            const std::vector<AttentionSegment>& segments) {
  SX_CHECK(q_BSND.size(2) % k_BSGD.size(2) == 0, "{} query heads over {} key heads", q_BSND.size(2),
           k_BSGD.size(2));
  std::int64_t covered = 0;
  for (const AttentionSegment& s : segments) covered += s.num_rows * s.length;
  SX_CHECK(covered == q_BSND.size(0) * q_BSND.size(1), "segments cover {} of {} tokens", covered,
           q_BSND.size(0) * q_BSND.size(1));
  if (covered == 0) return at::empty(q_BSND.sizes(), q_BSND.options());  // the kernel divides by it
  return SegmentAttention::apply(q_BSND, k_BSGD, v_BSGD, segments);
}

at::Tensor cached_attention(const at::Tensor& q_BSND, const at::Tensor& k_BTGD,
                            const at::Tensor& v_BTGD) {
  const std::int64_t queries = q_BSND.size(1), keys = k_BTGD.size(1);
  SX_CHECK(queries >= 1 && queries <= keys, "{} queries over {} keys", queries, keys);
  std::optional<at::Tensor> mask_ST;
  if (queries > 1) {
    // The kernel's causal mask starts at the first key; here query i ends at key keys - queries +
    // i.
    mask_ST = at::full({queries, keys}, -std::numeric_limits<double>::infinity(), q_BSND.options())
                  .triu(keys - queries + 1);
  }
  const auto result = at::_scaled_dot_product_flash_attention_for_cpu(
      q_BSND.transpose(1, 2), k_BTGD.transpose(1, 2), v_BTGD.transpose(1, 2), 0.0,
      /*is_causal=*/false, mask_ST);
  return std::get<0>(result).transpose(1, 2);
}

}  // namespace sx
