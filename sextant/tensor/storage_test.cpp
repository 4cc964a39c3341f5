#include "sextant/tensor/storage.h"

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rms_norm.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstring>
#include <memory>

#include "sextant/base/rng.h"
#include "sextant/tensor/arena.h"
#include "sextant/tensor/compat.h"
#include "sextant/tensor/padded.h"
#include "sextant/tensor/rank_thread.h"

namespace sx {
namespace {

std::int64_t padded_bytes(const at::Tensor& t) {
  return padded_numel(t.numel(), t.scalar_type()) * static_cast<std::int64_t>(t.element_size());
}

at::Tensor random_values(const std::vector<std::int64_t>& shape, const char* name) {
  at::Tensor t = at::empty(shape, at::kDouble);
  const RandomStream random(5, std::string("test.storage:") + name);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    t.mutable_data_ptr<double>()[i] = random.normal(static_cast<std::uint64_t>(i));
  }
  return t;
}

/// A parameter whose memory moves: detached after its forward use, attached elsewhere for backward.
struct Moving {
  at::Tensor leaf;
  Lease lease;
  std::string name;
  std::vector<char> saved;

  Moving(Arena& arena, const at::Tensor& values, std::string n) : name(std::move(n)) {
    leaf = make_detached(values.sizes().vec(), values.scalar_type(), name);
    leaf.set_requires_grad(true);
    lease = arena.acquire(padded_bytes(values), MemoryClass::kTransient, name);
    attach(leaf, lease.data(), lease.bytes());
    const at::NoGradGuard no_grad;
    leaf.copy_(values);
  }
  void release() {
    saved.assign(static_cast<char*>(lease.data()),
                 static_cast<char*>(lease.data()) + lease.bytes());
    detach_memory(leaf, name);
    lease.reset();
  }
  void gather(Arena& arena) {
    const Lease other = arena.acquire(64, MemoryClass::kTransient, "in between");
    lease = arena.acquire(static_cast<std::int64_t>(saved.size()), MemoryClass::kTransient, name);
    std::memcpy(lease.data(), saved.data(), saved.size());
    attach(leaf, lease.data(), lease.bytes());
  }
};

class StorageGradient : public testing::TestWithParam<at::ScalarType> {};

/// embedding tied to the head, norms, matmul with t(), addmm and linear; with `move` every
/// parameter loses its memory after forward and gets other memory before backward.
std::vector<at::Tensor> gradients(at::ScalarType dtype, bool move) {
  const auto arena = Arena::make({.poison = true, .check = true});
  std::vector<std::unique_ptr<Moving>> params;
  const auto add = [&](const char* name, const std::vector<std::int64_t>& shape) -> at::Tensor {
    params.push_back(std::make_unique<Moving>(*arena, random_values(shape, name).to(dtype), name));
    return params.back()->leaf;
  };
  const at::Tensor table = add("table", {7, 12}), gain = add("gain", {12}), w1 = add("w1", {9, 12}),
                   w2 = add("w2", {9, 12}), bias = add("bias", {12}), w3 = add("w3", {12, 12});
  const at::Tensor x = random_values({5, 12}, "x").to(dtype);
  at::Tensor h = at::rms_norm(x, {12}, gain, 1e-5);
  h = at::matmul(h, w1.t());
  h = at::addmm(bias, h, w2);
  h = at::layer_norm(at::linear(h, w3), {12}, gain, bias, 1e-5);
  h = at::linear(at::linear(h, table), table.t().contiguous());
  const at::Tensor loss = at::linear(h, table).pow(2).sum();
  if (move) {
    for (auto& p : params) p->release();
    for (auto& p : params) p->gather(*arena);
  }
  torch::autograd::backward({loss}, {});
  std::vector<at::Tensor> out{loss.detach()};
  for (auto& p : params) {
    EXPECT_EQ(p->leaf._version(), 1);  // the copy of the first values
    out.push_back(p->leaf.grad().clone());
  }
  return out;
}

TEST_P(StorageGradient, MovedParametersGiveTheSameBits) {
  prepare_rank_thread({});
  const auto still = gradients(GetParam(), false), moved = gradients(GetParam(), true);
  ASSERT_EQ(still.size(), moved.size());
  for (std::size_t i = 0; i < still.size(); ++i) {
    EXPECT_TRUE(at::equal(still[i], moved[i])) << i;
    EXPECT_TRUE(still[i].isfinite().all().item<bool>()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, StorageGradient,
                         testing::Values(at::kDouble, at::kFloat, at::kBFloat16));

TEST(Storage, ReleasedParameterSaysItsName) {
  const at::Tensor w = make_detached({4, 4}, at::kFloat, "layers.3.wq.weight");
  EXPECT_FALSE(is_attached(w));
  EXPECT_NO_THROW(w.view({16}));
  EXPECT_NO_THROW(w.detach());
  EXPECT_ANY_THROW(at::linear(random_values({2, 4}, "x").to(at::kFloat), w));
  if (compat::has_access_guard()) {
    for (const auto& use : std::vector<std::function<void()>>{[&] { w.add(1.0); }, [&] { w.sum(); },
                                                              [&] { w.clone(); },
                                                              [&] {
                                                                at::mm(w.view({4, 4}), w);
                                                              },
                                                              [&] { w.data_ptr<float>(); }}) {
      try {
        use();
        ADD_FAILURE() << "no exception";
      } catch (const std::exception& e) {
        EXPECT_NE(std::string(e.what()).find("layers.3.wq.weight: parameter used while released"),
                  std::string::npos)
            << e.what();
      }
    }
  }
  std::vector<float> memory(32, 2.0F);
  attach(w, memory.data(), 128);
  EXPECT_TRUE(is_attached(w));
  EXPECT_EQ(w.sum().item<float>(), 32.0F);
  detach_memory(w, "w");
  EXPECT_FALSE(is_attached(w));
  EXPECT_ANY_THROW(attach(w, memory.data(), 60));
  EXPECT_ANY_THROW(attach(w, nullptr, 64));
  const at::Tensor empty = make_detached({0, 4}, at::kFloat, "empty");
  EXPECT_NO_THROW(attach(empty, nullptr, 0));
}

TEST(Storage, SavedTransposeSeesTheNewMemory) {
  const at::Tensor w = make_detached({2, 3}, at::kFloat, "w");
  std::vector<float> first{1, 2, 3, 4, 5, 6}, second{10, 20, 30, 40, 50, 60};
  attach(w, first.data(), 24);
  const at::Tensor transposed = w.t();
  detach_memory(w, "w");
  attach(w, second.data(), 24);
  EXPECT_EQ(transposed[2][1].item<float>(), 60.0F);
  EXPECT_EQ(w._version(), 0);
}

TEST(Storage, PoisonIsNotANumberInEveryDtype) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor t = at::empty({32}, dtype);
    poison(t.mutable_data_ptr(), static_cast<std::int64_t>(t.nbytes()));
    EXPECT_TRUE(t.isnan().all().item<bool>()) << toString(dtype);
  }
}

}  // namespace
}  // namespace sx
