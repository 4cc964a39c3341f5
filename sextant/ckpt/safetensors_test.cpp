#include "sextant/ckpt/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "sextant/base/hash.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

const at::ScalarType kDtypes[] = {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
                                  at::kInt,    at::kShort, at::kChar, at::kByte,     at::kBool};

// The whole file for w = [1, -2], byte for byte.
TEST(TensorFile, WritesTheKnownFile) {
  const TempDir dir;
  const at::Tensor w = at::full({2}, 1.0, at::kFloat);
  w[1].fill_(-2.0);
  const auto written = save_safetensors(dir / "w.safetensors", std::vector<NamedTensor>{{"w", w}});
  ASSERT_TRUE(written.ok());
  const std::string bytes = *read_file(dir / "w.safetensors");
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(bytes, std::string("\x58\0\0\0\0\0\0\0", 8) + header + "   " +
                       std::string("\0\0\x80\x3f\0\0\0\xc0", 8));
  EXPECT_EQ(bytes.size(), 104u);
  EXPECT_EQ(written->bytes, 104u);
  EXPECT_EQ(written->xxh3, xxh3_64(bytes));
  EXPECT_EQ(written->entries[0].xxh3, xxh3_64(bytes.substr(96)));
}

TEST(TensorFile, EveryDtypeAndShapeComesBack) {
  const TempDir dir;
  std::vector<NamedTensor> tensors;
  for (const at::ScalarType dtype : kDtypes) {
    const std::string name = toString(dtype);
    tensors.push_back({name + ".matrix", at::arange(12, at::kLong).reshape({3, 4}).to(dtype)});
    tensors.push_back({name + ".scalar", at::full({}, 1, dtype)});
    tensors.push_back({name + ".empty", at::zeros({2, 0, 3}, dtype)});
  }
  tensors.push_back({"nan", at::full({3}, std::numeric_limits<double>::quiet_NaN(), at::kFloat)});
  ASSERT_TRUE(save_safetensors(dir / "f", tensors).ok());
  const auto loaded = load_safetensors(dir / "f");
  ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
  ASSERT_EQ(loaded->size(), tensors.size());
  for (const NamedTensor& got : *loaded) {
    const auto want = std::find_if(tensors.begin(), tensors.end(),
                                   [&](const NamedTensor& t) { return t.name == got.name; });
    ASSERT_NE(want, tensors.end());
    EXPECT_EQ(got.tensor.scalar_type(), want->tensor.scalar_type()) << got.name;
    EXPECT_EQ(got.tensor.sizes(), want->tensor.sizes()) << got.name;
    if (got.name == "nan") {
      EXPECT_TRUE(std::isnan(got.tensor[2].item<float>()));
    } else {
      EXPECT_TRUE(at::equal(got.tensor, want->tensor)) << got.name;
    }
  }
}

TEST(TensorFile, WritesViewsRowMajorAndLeavesWithoutGrad) {
  const TempDir dir;
  const at::Tensor base = at::arange(6, at::kFloat).reshape({2, 3});
  at::Tensor leaf = base.clone();
  leaf.set_requires_grad(true);
  ASSERT_TRUE(
      save_safetensors(dir / "f", std::vector<NamedTensor>{{"t", base.t()}, {"leaf", leaf}}).ok());
  const auto file = safetensors::File::open(dir / "f");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(at::equal(*load_tensor(*file, "t"), base.t()));
  EXPECT_TRUE(at::equal(*load_tensor(*file, "leaf"), base));
  EXPECT_EQ(load_tensor(*file, "absent").error().kind, ErrorKind::kNotFound);
}

TEST(TensorFile, RefusesWhatTheFormatLacks) {
  const TempDir dir;
  const auto complex = save_safetensors(
      dir / "f", std::vector<NamedTensor>{{"c", at::zeros({1}, at::kComplexFloat)}});
  ASSERT_FALSE(complex.ok());
  EXPECT_EQ(complex.error().kind, ErrorKind::kInvalid);
  EXPECT_FALSE(std::filesystem::exists(dir / "f"));
}

}  // namespace
}  // namespace sx
