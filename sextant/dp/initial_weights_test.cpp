// Initial weights: the same bits whatever the mesh, preset and layout.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "sextant/base/hash.h"
#include "sextant/dp/engine.h"
#include "sextant/nn/decoder.h"
#include "tests/equivalence/rank_test.h"

namespace sx {
namespace {

struct Mesh {
  std::int64_t replicas, shards;
};
// 3, 5, 6 and 7 ranks leave uneven and, with 7 norms of 24 elements in blocks of rows, empty
// shards.
constexpr Mesh kMeshes[] = {{1, 1}, {2, 1}, {1, 2}, {1, 3}, {3, 1}, {1, 4}, {2, 2}, {4, 1}, {1, 5},
                            {1, 6}, {2, 3}, {3, 2}, {1, 7}, {1, 8}, {2, 4}, {4, 2}, {8, 1}};

ModelShape shape_of(Arch arch) {
  ModelShape shape = defaults_for(arch);
  shape.num_layers = 2;
  shape.hidden = 24;
  shape.ffn_hidden = 40;
  shape.num_heads = 4;
  shape.num_heads_kv = arch == Arch::kLlama ? 2 : 4;
  shape.head_dim = 6;
  shape.vocab_size = 53;
  shape.vocab_pad_to = 1;
  shape.max_positions = 11;
  return shape;
}

/// XXH64 of every parameter, put together from the parts that ranks own, by name.
std::map<std::string, std::uint64_t> hashes_of(Arch arch, const Mesh& mesh, const Policy& policy,
                                               c10::ScalarType dtype) {
  std::map<std::string, std::uint64_t> hashes;
  std::mutex mutex;
  rank_test(mesh.replicas * mesh.shards, [&](Communicator& world) {
    DataComms comms(world, mesh.replicas, mesh.shards);
    Decoder model(shape_of(arch));
    Engine engine(model, comms, policy, dtype);
    engine.init_parameters(5);
    for (Parameter* parameter : model.parameters()) {
      const at::Tensor whole = engine.whole_parameter(parameter->fqn);
      const std::uint64_t hash =
          xxh64({static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()});
      const std::lock_guard lock(mutex);
      const auto [at, fresh] = hashes.emplace(parameter->fqn, hash);
      EXPECT_TRUE(fresh || at->second == hash) << parameter->fqn << ": ranks differ";
    }
  });
  return hashes;
}

TEST(InitialWeights, BitIdenticalOverAllMeshes) {
  int cells = 0;
  for (const auto& [arch, dtype] :
       {std::pair{Arch::kLlama, c10::kFloat}, {Arch::kGpt2, c10::kDouble}}) {
    std::map<std::string, std::uint64_t> expected;
    for (const Mesh& mesh : kMeshes) {
      for (const Preset preset :
           {Preset::kDdp, Preset::kZero1, Preset::kZero2, Preset::kFsdp1, Preset::kFsdp2}) {
        for (const bool over_replicas : {false, true}) {
          if (over_replicas && (preset == Preset::kDdp || mesh.replicas == 1)) continue;
          Policy policy{.preset = preset,
                        .optimizer_over_replicas = over_replicas,
                        .tie = Tie::kMergeUnits,
                        .bucket_elements = 1500};
          const auto hashes = hashes_of(arch, mesh, policy, dtype);
          if (expected.empty()) expected = hashes;
          EXPECT_EQ(hashes, expected)
              << fmt::format("{} {}x{}{}", preset_row(preset).name, mesh.replicas, mesh.shards,
                             over_replicas ? " over replicas" : "");
          ++cells;
        }
      }
    }
    EXPECT_GT(expected.size(), 10u);
  }
  fmt::print("{} cells over {} meshes\n", cells, std::size(kMeshes));
}

}  // namespace
}  // namespace sx
