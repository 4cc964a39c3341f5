// The mechanics of Ddp; that whole runs give the same bits is tests/equivalence/dp_test.cpp.
#include "sextant/dp/ddp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>

#include <memory>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/dist/dist_error.h"
#include "tests/equivalence/rank_test.h"

namespace sx {
namespace {

/// loss = sum over the used parameters of x * factor, so each gradient element is the factor.
class Terms : public Module {
 public:
  explicit Terms(std::vector<std::int64_t> sizes, const std::string& prefix = "p") {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      parts_.push_back(
          &add_parameter(prefix + std::to_string(i), {sizes[i]}, {.kind = InitKind::kZeros}, true));
    }
    allocate(at::kDouble);
    init_parameters(*this, 1);
  }
  at::Tensor loss(double factor, std::size_t num_used) {
    at::Tensor sum = at::full({}, 0.0, at::kDouble);
    for (std::size_t i = 0; i < num_used; ++i) sum = sum + (parts_[i]->tensor * factor).sum();
    return sum;
  }
  Parameter& part(std::size_t i) { return *parts_[i]; }
  std::size_t num_parts() const { return parts_.size(); }

 private:
  std::vector<Parameter*> parts_;
};

TEST(Ddp, SumsOverRanksAndMicrobatchesForEveryBucketSize) {
  for (const std::int64_t bucket_elements : {1, 40, 100, 1'000'000}) {
    rank_test(3, [&](Communicator& world) {
      Terms model({5, 33, 16, 1, 70});
      MainGrads grads(model);
      Ddp ddp(grads, world, {.bucket_elements = bucket_elements});
      EXPECT_EQ(ddp.num_buckets(), bucket_elements == 1           ? 5
                                   : bucket_elements == 1'000'000 ? 1
                                                                  : ddp.num_buckets());
      EXPECT_EQ(ddp.reduce_bytes(), (16 + 48 + 16 + 16 + 80) * 8);
      for (int step = 0; step < 3; ++step) {
        ddp.begin_step();
        for (int m = 0; m < 2; ++m) {
          ddp.backward(model.loss(static_cast<double>(1 + world.coord() + 10 * m), 5), 0.5, m == 1);
        }
        ddp.finish_grads();
        for (std::size_t i = 0; i < 5; ++i) {
          // 0.5 * ((1 + 11) + (2 + 12) + (3 + 13))
          EXPECT_TRUE(at::equal(grads.grad(i), at::full_like(grads.grad(i), 21.0))) << "slot " << i;
        }
        EXPECT_EQ(grads.flat().sum().item<double>(),
                  21.0 * (5 + 33 + 16 + 1 + 70));  // padding is zero
      }
    });
  }
}

TEST(Ddp, UnusedParametersCountAsZero) {
  rank_test(2, [](Communicator& world) {
    Terms model({20, 20, 20});
    MainGrads grads(model);
    Ddp ddp(grads, world, {.bucket_elements = 1});
    ddp.begin_step();
    // Rank 0 reaches one parameter, rank 1 two; nobody the third.
    ddp.backward(model.loss(1.0, world.coord() == 0 ? 1 : 2), 1.0, true);
    ddp.finish_grads();
    EXPECT_EQ(grads.grad(0)[19].item<double>(), 2.0);
    EXPECT_EQ(grads.grad(1)[19].item<double>(), 1.0);
    EXPECT_EQ(grads.grad(2)[19].item<double>(), 0.0);
  });
}

TEST(Ddp, BroadcastsTheFirstRanksParameters) {
  rank_test(3, [](Communicator& world) {
    Terms model({7, 5000});
    for (std::size_t i = 0; i < 2; ++i)
      model.part(i).tensor.detach().fill_(static_cast<double>(world.coord() + 4));
    MainGrads grads(model);
    Ddp ddp(grads, world);
    ddp.broadcast_parameters();
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(model.part(i).tensor.min().item<double>(), 4.0);
  });
}

TEST(Ddp, RanksWithDifferentParametersAreToldSo) {
  const auto run = [](const std::vector<std::int64_t>& sizes, const std::string& prefix) {
    run_ranks(2, [&](Communicator& world) {
      const bool first = world.coord() == 0;
      Terms model(first ? std::vector<std::int64_t>{4, 4} : sizes, first ? "p" : prefix);
      MainGrads grads(model);
      Ddp ddp(grads, world);
    });
  };
  EXPECT_THROW(run({4, 5}, "p"), ContractError);
  EXPECT_THROW(run({4, 4}, "q"), ContractError);
  EXPECT_THROW(run({4, 4, 1}, "p"), ContractError);
  EXPECT_NO_THROW(run({4, 4}, "p"));
}

TEST(Ddp, OneMicrobatchMoreOnOneRankEndsBoth) {
  try {
    run_ranks(2,
              [](Communicator& world) {
                Terms model({4});
                MainGrads grads(model);
                Ddp ddp(grads, world);
                for (int step = 0; step < 2 + world.coord(); ++step) {
                  ddp.begin_step();
                  ddp.backward(model.loss(1.0, 1), 1.0, true);
                  ddp.finish_grads();
                }
              },
              {.timeout = Seconds{10.0}});
    FAIL() << "no exception";
  } catch (const DistError& e) {
    EXPECT_EQ(e.fault(), DistFault::kPeerLeft);
    EXPECT_THAT(e.what(), testing::HasSubstr("rank 0 ended its work"));
  }
}

TEST(Ddp, CallsOutOfOrderAreContractErrors) {
  Communicator solo = Communicator::solo();
  Terms model({4});
  MainGrads grads(model);
  Ddp ddp(grads, solo);
  EXPECT_THROW(ddp.backward(model.loss(1.0, 1), 1.0, true), ContractError);
  ddp.begin_step();
  EXPECT_THROW(ddp.begin_step(), ContractError);
  EXPECT_THROW(ddp.finish_grads(), ContractError);
  ddp.backward(model.loss(1.0, 1), 1.0, true);
  EXPECT_THROW(ddp.backward(model.loss(1.0, 1), 1.0, true), ContractError);
  ddp.finish_grads();
  EXPECT_EQ(grads.grad(0)[0].item<double>(), 1.0);
}

}  // namespace
}  // namespace sx
