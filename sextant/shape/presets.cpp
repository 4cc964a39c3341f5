// Shapes of published models and the built-in small ones, one row each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sextant/shape/model_shape.h"

namespace sx {
namespace {

struct Row {
  const char* name;
  Arch arch;
  std::int64_t layers, hidden, ffn, heads, heads_kv, head_dim, vocab, positions;
  double rope_theta;
  bool tied;
  std::int64_t experts, topk;
};

// Sources: the models' published configurations; CS336 sizes from its assignment 2; nanotron sizes
// from its scaling benchmarks. "tiny" and "small" are ours, for the built-in text and the demo;
// their vocabulary is the tokenizer's.
constexpr Row kRows[] = {
    {"tiny", Arch::kLlama, 2, 64, 192, 4, 2, 16, 256, 1024, 1e4, true, 0, 0},
    {"small", Arch::kLlama, 4, 256, 704, 4, 2, 64, 8192, 2048, 1e4, true, 0, 0},
    {"gpt2-124m", Arch::kGpt2, 12, 768, 3072, 12, 12, 64, 50257, 1024, 1e4, true, 0, 0},
    {"gpt2-350m", Arch::kGpt2, 24, 1024, 4096, 16, 16, 64, 50257, 1024, 1e4, true, 0, 0},
    {"gpt2-774m", Arch::kGpt2, 36, 1280, 5120, 20, 20, 64, 50257, 1024, 1e4, true, 0, 0},
    {"gpt2-1.5b", Arch::kGpt2, 48, 1600, 6400, 25, 25, 64, 50257, 1024, 1e4, true, 0, 0},
    {"llama2-7b", Arch::kLlama, 32, 4096, 11008, 32, 32, 128, 32000, 4096, 1e4, false, 0, 0},
    {"llama3-1b", Arch::kLlama, 16, 2048, 8192, 32, 8, 64, 128256, 8192, 5e5, true, 0, 0},
    {"llama3-8b", Arch::kLlama, 32, 4096, 14336, 32, 8, 128, 128256, 8192, 5e5, false, 0, 0},
    {"llama3-70b", Arch::kLlama, 80, 8192, 28672, 64, 8, 128, 128256, 8192, 5e5, false, 0, 0},
    {"llama3-405b", Arch::kLlama, 126, 16384, 53248, 128, 8, 128, 128256, 8192, 5e5, false, 0, 0},
    {"mixtral-8x7b", Arch::kMixtral, 32, 4096, 14336, 32, 8, 128, 32000, 32768, 1e6, false, 8, 2},
    {"qwen3-30b-a3b", Arch::kQwen3, 48, 2048, 768, 32, 4, 128, 151936, 40960, 1e6, false, 128, 8},
    {"cs336-small", Arch::kLlama, 12, 768, 3072, 12, 12, 64, 10000, 1024, 1e4, false, 0, 0},
    {"cs336-medium", Arch::kLlama, 24, 1024, 4096, 16, 16, 64, 10000, 1024, 1e4, false, 0, 0},
    {"cs336-large", Arch::kLlama, 36, 1280, 5120, 20, 20, 64, 10000, 1024, 1e4, false, 0, 0},
    {"cs336-xl", Arch::kLlama, 32, 2560, 10240, 32, 32, 80, 10000, 1024, 1e4, false, 0, 0},
    {"cs336-10b", Arch::kLlama, 50, 4608, 12288, 36, 36, 128, 10000, 1024, 1e4, false, 0, 0},
    {"nanotron-llama-1b", Arch::kLlama, 16, 2048, 8192, 32, 32, 64, 131072, 4096, 1e4, true, 0, 0},
    {"nanotron-llama-8b", Arch::kLlama, 32, 4096, 14336, 32, 32, 128, 131072, 4096, 1e4, false, 0,
     0},
};

ModelShape to_shape(const Row& row) {
  ModelShape shape = defaults_for(row.arch);
  shape.name = row.name;
  shape.num_layers = row.layers;
  shape.hidden = row.hidden;
  shape.ffn_hidden = row.ffn;
  shape.num_heads = row.heads;
  shape.num_heads_kv = row.heads_kv;
  shape.head_dim = row.head_dim;
  shape.vocab_size = row.vocab;
  shape.max_positions = row.positions;
  shape.rope_theta = row.rope_theta;
  shape.tie_embeddings = row.tied;
  shape.num_experts = row.experts;
  shape.experts_topk = row.topk;
  if (row.experts > 0) shape.expert_hidden = row.ffn;
  return shape;
}

}  // namespace

std::vector<std::string> shape_preset_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

Result<ModelShape> shape_preset(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return to_shape(row);
  }
  return Error{ErrorKind::kNotFound,
               fmt::format("model preset \"{}\" is not known; known: {}", name,
                           fmt::join(shape_preset_names(), " ")),
               ""};
}

}  // namespace sx
