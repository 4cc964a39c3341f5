#include "tests/equivalence/preset_matrix.h"

#include <gtest/gtest.h>

#include "sextant/dp/testing.h"

namespace sx {

TestModel make_stack() {
  const auto model = std::make_shared<testing::Stack>(3, 7);
  return {model,
          [model](std::int64_t row, c10::ScalarType dtype) { return model->loss(row, dtype); }};
}

std::vector<Variant> variants(bool over_replicas) {
  std::vector<Variant> out;
  const auto add = [&](const char* name, Policy policy) { out.push_back({name, policy}); };
  add("ddp", {.preset = Preset::kDdp});
  add("ddp plain",
      {.preset = Preset::kDdp, .layout = LayoutKind::kBucketPlain, .bucket_elements = 60});
  add("ddp flat", {.preset = Preset::kDdp, .layout = LayoutKind::kFlat});
  add("zero1", {.preset = Preset::kZero1, .bucket_elements = 60});
  add("zero1 tensor", {.preset = Preset::kZero1, .layout = LayoutKind::kTensor});
  add("zero1 per_param", {.preset = Preset::kZero1, .layout = LayoutKind::kPerParam});
  add("zero2", {.preset = Preset::kZero2, .bucket_elements = 60});
  add("fsdp1", {.preset = Preset::kFsdp1});
  add("fsdp1 never",
      {.preset = Preset::kFsdp1, .reshard_after_forward = {Reshard::Kind::kNever, 0, 0}});
  add("fsdp2", {.preset = Preset::kFsdp2, .layout = LayoutKind::kPerParam});
  add("fsdp2 block", {.preset = Preset::kFsdp2, .layout = LayoutKind::kBlock});
  add("fsdp2 tensor", {.preset = Preset::kFsdp2,
                       .layout = LayoutKind::kTensor,
                       .reshard_after_forward = {Reshard::Kind::kAlways, 0, 0}});
  add("fsdp2 bucket", {.preset = Preset::kFsdp2, .layout = LayoutKind::kBucket});
  if (over_replicas) {
    const std::size_t plain = out.size();
    for (std::size_t i = 0; i < plain; ++i) {
      if (out[i].policy.preset == Preset::kDdp || out[i].name.ends_with("never")) continue;
      Variant hybrid = out[i];
      hybrid.name += " over replicas";
      hybrid.policy.optimizer_over_replicas = true;
      out.push_back(std::move(hybrid));
    }
  }
  return out;
}

int run_matrix(const std::vector<MeshSize>& meshes, const std::vector<c10::ScalarType>& dtypes,
               const std::vector<std::int64_t>& microbatches) {
  int cells = 0;
  for (const c10::ScalarType dtype : dtypes) {
    for (const MeshSize& mesh : meshes) {
      for (const FoldOrder order : {FoldOrder::kNested, FoldOrder::kFlat}) {
        // With one axis the orders are the same sum.
        if (order == FoldOrder::kFlat && (mesh.replicas == 1)) continue;
        for (const Accumulate accumulate : {Accumulate::kLocal, Accumulate::kReduced}) {
          for (const std::int64_t m : microbatches) {
            if (m == 1 && accumulate == Accumulate::kReduced) continue;
            const RunCase test{.replicas = mesh.replicas,
                               .shards = mesh.shards,
                               .order = order,
                               .accumulate = accumulate,
                               .microbatches = m,
                               .dtype = dtype};
            const RunResult expected = run_reference(make_stack, test);
            for (const Variant& variant : variants(mesh.replicas > 1)) {
              const auto found =
                  differences(expected, run_engine(make_stack, test, variant.policy));
              EXPECT_TRUE(found.empty())
                  << test.to_string() << " " << variant.name << ": " << found.front();
              ++cells;
              if (::testing::Test::HasFailure() && cells > 60) return cells;
            }
          }
        }
      }
    }
  }
  return cells;
}

}  // namespace sx
