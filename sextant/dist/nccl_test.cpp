// NCCL on the GPUs of this machine, one rank thread for each: needs at least one. Every call in
// closed form; with the ordered fold the bits of the host's.
#include "sextant/dist/nccl.h"

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <functional>
#include <thread>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/dist/threads.h"

namespace sx {
namespace {

using Body = std::function<void(Communicator&, at::Device)>;

void run_on_gpus(bool ordered, const Body& body) {
  const std::int64_t ranks = c10::cuda::device_count();
  ASSERT_GT(ranks, 0) << "this test needs a GPU";
  ParallelDims dims;
  dims.dp_replicate = ranks;
  const GroupRequest requests[] = {{AxisSet::world(), Purpose::kGather},
                                   {AxisSet::world(), Purpose::kReduce}};
  const GroupPlan plan(DeviceMesh(dims), requests);
  const RankStore shared = RankStore::in_process();
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto device = static_cast<c10::DeviceIndex>(rank);
      const c10::cuda::CUDAGuard guard(device);
      RankStore store = shared;
      NcclWorld world(store, plan,
                      {.global_rank = rank,
                       .world_size = ranks,
                       .device = static_cast<int>(rank),
                       .init_timeout = Seconds{60.0},
                       .timeout = Seconds{30.0},
                       .ordered = ordered});
      Communicator all =
          world.world(AxisSet::world(), Purpose::kReduce, std::make_shared<CommSession>(rank));
      body(all, at::Device(at::kCUDA, device));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

at::Tensor ramp(std::int64_t n, std::int64_t rank, at::Device device, at::ScalarType dtype) {
  return (at::arange(n, at::TensorOptions().dtype(at::kLong).device(device)).remainder(7) + rank)
      .to(dtype);
}

TEST(Nccl, EveryCallInClosedForm) {
  for (const bool ordered : {false, true}) {
    run_on_gpus(ordered, [](Communicator& world, at::Device device) {
      const std::int64_t w = world.degree();
      const std::int64_t r = world.coord();
      for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
        for (const std::int64_t n : {0, 1, 4095, 100'003}) {
          at::Tensor sum = ramp(n, r, device, dtype);
          world.start_all_reduce(sum, ReduceOp::kSum).wait_host();
          at::Tensor want = ramp(n, 0, device, at::kLong) * w + w * (w - 1) / 2;
          EXPECT_TRUE(at::equal(sum, want.to(dtype)));

          at::Tensor gathered = at::empty({n * w}, sum.options());
          world.start_all_gather(gathered, ramp(n, r, device, dtype)).wait_host();
          at::Tensor slice = at::empty({n}, sum.options());
          world.start_reduce_scatter(slice, gathered, ReduceOp::kMax).wait_host();
          EXPECT_TRUE(at::equal(slice, ramp(n, r, device, dtype)));

          at::Tensor root = ramp(n, r, device, dtype);
          world.start_broadcast(root, w - 1).wait_host();
          EXPECT_TRUE(at::equal(root, ramp(n, w - 1, device, dtype)));
        }
      }
      world.barrier();
    });
  }
}

TEST(Nccl, TheOrderedFoldHasTheBitsOfTheHost) {
  run_on_gpus(true, [](Communicator& world, at::Device device) {
    const std::int64_t n = 10'007;
    const auto rough = [&](std::int64_t rank) {
      return (at::arange(n, at::kDouble) * 7919 + rank * 104'729)
          .remainder(10'007)
          .div(3)
          .sub(1500);
    };
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      at::Tensor sum = rough(world.coord()).to(dtype).to(device);
      world.start_all_reduce(sum, ReduceOp::kSum).wait_host();
      const at::ScalarType acc = dtype == at::kDouble ? at::kDouble : at::kFloat;
      at::Tensor want = rough(0).to(dtype).to(acc);
      for (std::int64_t rank = 1; rank < world.degree(); ++rank)
        want.add_(rough(rank).to(dtype).to(acc));
      EXPECT_TRUE(at::equal(sum.cpu(), want.to(dtype))) << toString(dtype);
    }
  });
}

TEST(Nccl, AGroupOutsideThePlanIsRefused) {
  run_on_gpus(false, [](Communicator& world, at::Device) {
    if (world.degree() < 2) return;
    EXPECT_THROW(world.make_group(world.global_ranks(), AxisSet::world(), Purpose::kP2pForward),
                 ContractError);
  });
}

}  // namespace
}  // namespace sx
