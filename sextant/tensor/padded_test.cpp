#include "sextant/tensor/padded.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "sextant/base/check.h"
#include "sextant/tensor/dtype.h"

namespace sx {
namespace {

TEST(Padded, LengthIsAMultipleOf128Bytes) {
  EXPECT_EQ(padded_numel(0, c10::kFloat), 0);
  EXPECT_EQ(padded_numel(1, c10::kFloat), 32);
  EXPECT_EQ(padded_numel(32, c10::kFloat), 32);
  EXPECT_EQ(padded_numel(33, c10::kFloat), 64);
  EXPECT_EQ(padded_numel(17, c10::kDouble), 32);
  EXPECT_EQ(padded_numel(65, c10::kBFloat16), 128);
}

TEST(Padded, BlockSharesMemoryAndEndsInZeros) {
  at::Tensor t = make_padded({3, 5}, c10::kFloat);
  EXPECT_EQ(t.sizes(), (at::IntArrayRef{3, 5}));
  t.fill_(2.0);
  const at::Tensor block = padded_block(t);
  ASSERT_EQ(block.numel(), 32);
  EXPECT_EQ(block.sum().item<float>(), 30.0f);
  block.narrow(0, 0, 1).fill_(7.0);
  EXPECT_EQ(t.select(0, 0).select(0, 0).item<float>(), 7.0f);
}

TEST(Padded, RefusesMemoryThatIsNotPadded) {
  EXPECT_THROW(padded_block(at::ones({3})), ContractError);
  const at::Tensor flat = at::zeros({128});
  EXPECT_EQ(padded_block(flat.narrow(0, 32, 5)).numel(), 32);
  EXPECT_THROW(padded_block(flat.narrow(0, 5, 32)), ContractError);
}

TEST(Dtype, NamesGoBothWays) {
  for (const char* name : {"fp64", "fp32", "bf16", "fp16", "int64", "int32", "uint8", "bool"}) {
    EXPECT_EQ(dtype_name(parse_dtype(name).value()), name);
  }
  const auto unknown = parse_dtype("float32");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("fp32"), std::string::npos);
}

}  // namespace
}  // namespace sx
