#include "sextant/ckpt/save_plan.h"

#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "sextant/base/rng.h"
#include "sextant/ckpt/commit.h"
#include "tests/equivalence/rank_test.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

TensorPart whole_part(const std::string& name, std::int64_t numel, c10::ScalarType dtype,
                      std::int64_t copy, std::int64_t copies) {
  return {name, {numel}, Region::whole(std::vector<std::int64_t>{numel}), at::zeros({numel}, dtype),
          copy, copies};
}

// Copies of many tensors of uneven sizes and dtypes: each element is written once, and no rank
// writes more than its n-th and one element per tensor.
TEST(SavePlan, CopiesShareTheLineEvenly) {
  const RandomStream random(4, "test.save_plan");
  for (std::int64_t copies = 1; copies <= 8; ++copies) {
    std::vector<std::int64_t> sizes;
    for (std::uint64_t i = 0; i < 40; ++i)
      sizes.push_back(static_cast<std::int64_t>(random.u64(i) % (i % 7 == 0 ? 5000 : 60)));
    std::vector<std::vector<int>> written;
    for (const std::int64_t size : sizes) written.emplace_back(static_cast<std::size_t>(size), 0);
    std::vector<std::int64_t> bytes;
    std::int64_t total = 0;
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      std::vector<TensorPart> parts;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        parts.push_back(whole_part("t" + std::to_string(i), sizes[i],
                                   i % 3 == 0 ? at::kDouble : at::kBFloat16, copy, copies));
      }
      bytes.push_back(0);
      for (const PlannedWrite& write : plan_writes(parts)) {
        for (std::int64_t e = write.begin; e < write.end; ++e)
          ++written[write.part][static_cast<std::size_t>(e)];
        bytes.back() += (write.end - write.begin) *
                        static_cast<std::int64_t>(parts[write.part].values.element_size());
      }
      total += bytes.back();
    }
    for (const auto& tensor : written)
      EXPECT_TRUE(std::all_of(tensor.begin(), tensor.end(), [](int n) { return n == 1; }));
    for (const std::int64_t own : bytes) EXPECT_LE(std::abs(own - total / copies), 16) << copies;
  }
}

struct MeshCase {
  const char* name;
  ParallelDims dims;
};

/// Placements of one tensor over every mixture of axes that a mesh has, as later kinds of
/// parallelism will apply them.
std::vector<AxisPlacement> placements_for(int kind, const ParallelDims& dims) {
  std::vector<AxisPlacement> out;
  if (dims.tp > 1 && kind % 3 != 0) out.push_back({Axis::kTp, Shard{kind % 3 - 1}});
  if (dims.cp * dims.dp_shard > 1 && kind % 2 == 0) out.push_back({kFsdpAxes, Shard{kind / 2 % 2}});
  return out;
}

at::Tensor box_of(const at::Tensor& whole, const Box& box) {
  at::Tensor out = whole;
  for (std::size_t dim = 0; dim < box.size.size(); ++dim)
    out = out.narrow(static_cast<std::int64_t>(dim), box.offset[dim], box.size[dim]);
  return out.contiguous();
}

// Meshes with tp, pp and cp exist for checkpoints before training has these axes: boxes of any
// mixture are saved on one mesh and read on every other, bit for bit, and the ranks write evenly.
TEST(Reshard, BoxesOfAnyMeshComeBackOnAnyOther) {
  ParallelDims plain, tp2, tp4, fsdp3, hsdp, mixed, pipeline, context;
  tp2.tp = 2;
  tp4.tp = 4;
  fsdp3.dp_shard = 3;
  hsdp.dp_replicate = 2, hsdp.dp_shard = 2;
  mixed.dp_replicate = 2, mixed.dp_shard = 2, mixed.tp = 2;
  pipeline.pp = 2, pipeline.tp = 2, pipeline.dp_shard = 2;
  context.cp = 2, context.dp_shard = 2, context.tp = 2;
  const std::vector<MeshCase> meshes = {{"1", plain},     {"tp2", tp2},   {"tp4", tp4},
                                        {"fsdp3", fsdp3}, {"hsdp", hsdp}, {"rep shard tp", mixed},
                                        {"pp", pipeline}, {"cp", context}};
  std::map<std::string, at::Tensor> tensors;
  const std::vector<std::vector<std::int64_t>> shapes = {{7, 10}, {12, 5}, {3, 4}, {1, 9},
                                                         {8, 8},  {5, 6},  {2, 2}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::int64_t n = num_elements(shapes[i]);
    tensors["t" + std::to_string(i)] =
        at::arange(n, at::kFloat).add(static_cast<double>(1000 * i)).view(shapes[i]);
  }
  // A stage of the pipeline has every other tensor.
  const auto parts_on = [&](const DeviceMesh& mesh, std::int64_t rank, bool fill) {
    std::vector<TensorPart> parts;
    int kind = 0;
    for (const auto& [name, whole] : tensors) {
      const std::int64_t stage = kind % mesh.degree(Axis::kPp);
      const ShardSpec spec(whole.sizes().vec(), "F32", placements_for(kind++, mesh.dims()));
      std::vector<std::int64_t> holders;
      for (std::int64_t r = 0; r < mesh.world_size(); ++r) {
        if (mesh.coord(r, Axis::kPp) == stage) holders.push_back(r);
      }
      if (mesh.coord(rank, Axis::kPp) != stage) continue;
      const at::Tensor values = box_of(whole, spec.local_box(mesh, rank));
      parts.push_back(
          part_on_mesh(name, spec, mesh, rank, fill ? values : at::zeros_like(values), holders));
    }
    return parts;
  };
  for (const MeshCase& from : meshes) {
    const DeviceMesh source(from.dims);
    const TempDir root;
    rank_test(source.world_size(), [&](Communicator& world) {
      CheckpointContent content;
      content.step = 1;
      content.model_parts = parts_on(source, world.coord(), true);
      const auto saved = save_checkpoint(root.path(), content, world);
      EXPECT_TRUE(saved.ok()) << from.name << ": " << saved.error().to_string();
    });
    const auto checkpoint = Checkpoint::open(root / "step-0000001");
    ASSERT_TRUE(checkpoint.ok()) << from.name << ": " << checkpoint.error().to_string();
    EXPECT_TRUE(verify_checkpoint(checkpoint->path())->empty()) << from.name;
    for (const auto& [name, whole] : tensors)
      EXPECT_TRUE(at::equal(checkpoint->load(name).value(), whole)) << from.name << " " << name;
    for (const MeshCase& to : meshes) {
      const DeviceMesh target(to.dims);
      for (std::int64_t rank = 0; rank < target.world_size(); ++rank) {
        const auto want = parts_on(target, rank, true);
        const auto got = parts_on(target, rank, false);
        // A stage asks for its own tensors only.
        ASSERT_TRUE(checkpoint->load_parts(got, {.strict = false}).ok());
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_TRUE(at::equal(got[i].values, want[i].values))
              << from.name << " to " << to.name << ", rank " << rank << ", " << got[i].name;
        }
      }
    }
  }
}

// Complaint 22: offsets that are wrong on one side are no silent damage. A reader whose layout
// names another place than its memory holds is caught by the sums over ranks.
TEST(Reshard, AWrongOffsetInTheReadersLayoutIsFound) {
  const at::Tensor whole = at::arange(64, at::kFloat);
  const TempDir root;
  const auto part = [&](std::int64_t coord, std::int64_t begin, std::int64_t count) {
    (void)coord;
    return TensorPart{"w", {64}, Region::flat(begin, count), whole.narrow(0, begin, count).clone()};
  };
  rank_test(2, [&](Communicator& world) {
    CheckpointContent content;
    content.step = 1;
    content.model_parts = {part(world.coord(), 32 * world.coord(), 32)};
    ASSERT_TRUE(save_checkpoint(root.path(), content, world).ok());
    const auto checkpoint = Checkpoint::open(root / "step-0000001");
    ASSERT_TRUE(checkpoint.ok());
    std::vector<TensorPart> right = {
        part(world.coord(), 48 * world.coord(), world.coord() == 0 ? 48 : 16)};
    EXPECT_TRUE(checkpoint->load_parts(right, {}, &world).ok());
    // Rank 1 believes to hold what rank 0 holds: a layout made for another group.
    std::vector<TensorPart> wrong = {part(world.coord(), 0, 32)};
    const auto loaded = checkpoint->load_parts(wrong, {}, &world);
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().kind, ErrorKind::kCorrupt);
    EXPECT_NE(loaded.error().message.find("\"w\" has logical checksum"), std::string::npos);
  });
}

// A chunk whose entry says another place than its bytes: the manifest holds together, the sums do
// not.
TEST(Reshard, AWrongOffsetInTheManifestIsFound) {
  const TempDir root;
  Communicator solo = Communicator::solo();
  CheckpointContent content;
  content.step = 1;
  content.model_parts = {
      {"w", {8, 4}, Region::whole(std::vector<std::int64_t>{8, 4}), at::arange(32, at::kFloat)}};
  ASSERT_TRUE(save_checkpoint(root.path(), content, solo).ok());
  auto text = read_file(root / "step-0000001/manifest.json");
  auto manifest = parse_manifest(*text);
  ASSERT_TRUE(manifest.ok());
  Chunk& chunk = manifest->tensors.at("w").chunks.front();
  Chunk low = chunk, high = chunk;
  low.size = {4, 4};
  high.size = {4, 4};
  high.offset = {4, 0};
  const std::uint64_t middle = (chunk.begin + chunk.end) / 2;
  low.end = middle;
  high.begin = middle;
  std::swap(low.offset, high.offset);
  manifest->tensors.at("w").chunks = {low, high};
  ASSERT_TRUE(
      write_file_atomic(root / "step-0000001/manifest.json", format_manifest(*manifest)).ok());
  const auto checkpoint = Checkpoint::open(root / "step-0000001");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  EXPECT_EQ(checkpoint->load("w").error().kind, ErrorKind::kCorrupt);
  EXPECT_FALSE(verify_checkpoint(checkpoint->path())->empty());
}

// Complaint 23: nothing keeps its initial value unsaid.
TEST(Reshard, MissingTensorsAreListedAndNothingIsLoaded) {
  const TempDir root;
  Communicator solo = Communicator::solo();
  CheckpointContent content;
  content.step = 1;
  content.model = {{"a", at::arange(4, at::kFloat)}, {"b", at::arange(4, at::kFloat)}};
  ASSERT_TRUE(save_checkpoint(root.path(), content, solo).ok());
  const auto checkpoint = Checkpoint::open(root / "step-0000001");
  ASSERT_TRUE(checkpoint.ok());
  const auto part = [](const char* name) {
    return TensorPart{name, {4}, Region::flat(0, 4), at::zeros({4}, at::kFloat)};
  };
  std::vector<TensorPart> parts = {part("a"), part("c"), part("d")};
  const auto strict = checkpoint->load_parts(parts, {}, &solo);
  ASSERT_FALSE(strict.ok());
  EXPECT_EQ(strict.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(strict.error().message.find("missing: c, d; unexpected: b"), std::string::npos)
      << strict.error().message;
  EXPECT_EQ(parts[0].values.sum().item<float>(), 0.0F);
  const auto excluded = checkpoint->load_parts(parts, {.exclude = {"c", "d"}});
  ASSERT_FALSE(excluded.ok());
  EXPECT_NE(excluded.error().message.find("unexpected: b"), std::string::npos);
  const auto loose = checkpoint->load_parts(parts, {.strict = false}, &solo);
  ASSERT_TRUE(loose.ok()) << loose.error().to_string();
  EXPECT_EQ(loose->missing, (std::vector<std::string>{"c", "d"}));
  EXPECT_EQ(loose->unexpected, (std::vector<std::string>{"b"}));
  EXPECT_EQ(parts[0].values.sum().item<float>(), 6.0F);
}

}  // namespace
}  // namespace sx
