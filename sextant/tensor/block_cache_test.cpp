#include "sextant/tensor/block_cache.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace sx {
namespace {

constexpr std::int64_t kMega = std::int64_t{1} << 20;

at::Tensor bytes(std::int64_t n) { return at::empty({n}, at::kByte); }

struct BlockCache : ::testing::Test {
  BlockCache() {
    install_block_cache(0);  // forgets what other tests left
    install_block_cache(64 * kMega);
  }
};

TEST_F(BlockCache, AFreedBlockServesTheNextTensorOfAboutItsSize) {
  at::Tensor a = at::full({8 * kMega}, 7, at::kByte);
  const void* place = a.const_data_ptr();
  const BlockCacheNumbers before = block_cache_numbers();
  a.reset();
  EXPECT_EQ(block_cache_numbers().kept_bytes, before.kept_bytes + 8 * kMega);
  const at::Tensor b = bytes(8 * kMega - 100);
  EXPECT_EQ(b.const_data_ptr(), place);
  EXPECT_EQ(block_cache_numbers().reuses, before.reuses + 1);
  EXPECT_EQ(block_cache_numbers().maps, before.maps);
}

TEST_F(BlockCache, ABlockMuchTooLargeIsNotUsed) {
  at::Tensor a = bytes(16 * kMega);
  const void* place = a.const_data_ptr();
  a.reset();
  EXPECT_NE(bytes(8 * kMega).const_data_ptr(), place);
  EXPECT_EQ(bytes(15 * kMega).const_data_ptr(), place);
}

TEST_F(BlockCache, SmallBlocksPassThrough) {
  const BlockCacheNumbers before = block_cache_numbers();
  for (int i = 0; i < 10; ++i) bytes(kMega - 1).fill_(1);
  EXPECT_EQ(block_cache_numbers().maps, before.maps);
  EXPECT_EQ(block_cache_numbers().kept_bytes, before.kept_bytes);
}

TEST_F(BlockCache, OverTheLimitTheOldestGoes) {
  install_block_cache(10 * kMega);
  at::Tensor a = bytes(6 * kMega), b = bytes(8 * kMega);
  const std::int64_t mapped = block_cache_numbers().mapped_bytes;
  a.reset();
  b.reset();
  EXPECT_EQ(block_cache_numbers().kept_bytes, 8 * kMega);
  EXPECT_EQ(block_cache_numbers().mapped_bytes, mapped - 6 * kMega);
  install_block_cache(0);
  EXPECT_EQ(block_cache_numbers().kept_bytes, 0);
}

TEST_F(BlockCache, ARequestNobodyCanServeIsAnException) {
  EXPECT_THROW(bytes(std::int64_t{1} << 60), c10::Error);
}

TEST_F(BlockCache, ThreadsShareIt) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) {
        const at::Tensor x = at::full({(1 + (i + t) % 4) * kMega}, t, at::kByte);
        EXPECT_EQ(x[0].item<int>(), t);
        EXPECT_EQ(x[x.size(0) - 1].item<int>(), t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(block_cache_numbers().kept_bytes, 64 * kMega);
}

}  // namespace
}  // namespace sx
