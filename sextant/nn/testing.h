#pragma once

// What the tests of sx_nn share: tiny models whose every parameter is random, and batches by
// counter.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <memory>
#include <string>
#include <vector>

#include "sextant/base/rng.h"
#include "sextant/nn/decoder.h"
#include "sextant/tensor/init.h"
#include "sextant/tensor/rank_thread.h"

namespace sx::testing {

/// Every parameter 0.25 z, norm weights 1 + 0.25 z: no parameter stays at a value that hides a
/// mistake. Padding rows of the vocabulary are random too, so whoever reads them is found out.
inline void randomize(Module& root, std::uint64_t seed) {
  for (Parameter* parameter : root.parameters()) {
    const bool norm_weight =
        parameter->fqn.find("norm") != std::string::npos && parameter->fqn.ends_with(".weight");
    at::Tensor values = parameter->tensor.detach();
    fill_init(values, {InitKind::kNormal, norm_weight ? 1.0 : 0.0, 0.25}, seed, parameter->fqn, 1);
    parameter->initialized = true;
  }
}

inline ModelShape tiny_llama() {
  ModelShape shape = defaults_for(Arch::kLlama);
  shape.num_layers = 2;
  shape.hidden = 16;
  shape.ffn_hidden = 24;
  shape.num_heads = 4;
  shape.num_heads_kv = 2;
  shape.head_dim = 6;
  shape.vocab_size = 19;
  shape.vocab_pad_to = 8;
  shape.max_positions = 32;
  return shape;
}

inline ModelShape tiny_gpt2() {
  ModelShape shape = defaults_for(Arch::kGpt2);
  shape.num_layers = 2;
  shape.hidden = 16;
  shape.num_heads = 4;
  shape.vocab_size = 19;
  shape.vocab_pad_to = 8;
  shape.max_positions = 32;
  derive_sizes(shape);
  return shape;
}

inline std::unique_ptr<Decoder> make_decoder(const ModelShape& shape, c10::ScalarType dtype,
                                             std::uint64_t seed = 42, DecoderOptions options = {}) {
  prepare_rank_thread({});  // one thread: small operations, and tests that run side by side
  auto model = std::make_unique<Decoder>(shape, options);
  model->allocate(dtype);
  randomize(*model, seed);
  return model;
}

inline at::Tensor random_tokens(const std::string& name, std::int64_t batch, std::int64_t seq_len,
                                std::int64_t vocab_size) {
  const RandomStream stream(3, "test." + name);
  at::Tensor tokens = at::empty({batch, seq_len}, c10::kLong);
  auto* data = static_cast<std::int64_t*>(tokens.mutable_data_ptr());
  for (std::int64_t i = 0; i < batch * seq_len; ++i) {
    data[i] = static_cast<std::int64_t>(stream.u64(static_cast<std::uint64_t>(i)) %
                                        static_cast<std::uint64_t>(vocab_size));
  }
  return tokens;
}

inline at::Tensor random_normal(const std::string& name, const std::vector<std::int64_t>& shape,
                                c10::ScalarType dtype) {
  prepare_rank_thread({});
  at::Tensor out = at::empty(shape, dtype);
  fill_init(out, {InitKind::kNormal, 0.0, 1.0}, 5, "test." + name, 1);
  return out;
}

inline at::Tensor long_tensor(const std::vector<std::int64_t>& values,
                              const std::vector<std::int64_t>& shape) {
  at::Tensor out = at::empty(shape, c10::kLong);
  std::copy(values.begin(), values.end(), static_cast<std::int64_t*>(out.mutable_data_ptr()));
  return out;
}

inline double max_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.to(c10::kDouble).sub(b.to(c10::kDouble)).abs().max().item<double>();
}

}  // namespace sx::testing
