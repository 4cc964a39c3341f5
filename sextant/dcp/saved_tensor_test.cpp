#include "sextant/dcp/saved_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sextant/base/fs.h"
#include "sextant/dcp/dcp_folder.h"
#include "sextant/dcp/zip_entries.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using testing::HasSubstr;

/// The archive of tensor "model.w" [3, 4] of tests/golden/reference/dcp/one.
std::string archive() {
  const fs::path folder = source_file("tests/golden/reference/dcp/one");
  const auto opened = DcpFolder::open(folder).value();
  const DcpChunk& chunk = opened.index().tensors.at("model.w").chunks.front();
  return read_file(folder / chunk.file).value().substr(chunk.begin, chunk.bytes);
}

TEST(SavedTensor, ReadsOne) {
  const std::string bytes = archive();
  const auto tensor = read_saved_tensor(bytes);
  ASSERT_TRUE(tensor.ok()) << tensor.error().to_string();
  EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(tensor->bytes.size(), 48u);
  EXPECT_EQ(torch_dtype("bfloat16").value(), safetensors::Dtype::kBF16);
  EXPECT_EQ(torch_dtype("LongStorage").value(), safetensors::Dtype::kI64);
  EXPECT_EQ(torch_dtype("complex64").error().kind, ErrorKind::kUnsupported);
}

TEST(SavedTensor, ZipLiesAreErrors) {
  const std::string good = archive();
  ASSERT_GE(list_zip(good).value().size(), 4u);
  for (std::size_t n = 0; n < good.size(); n += 7) {
    EXPECT_FALSE(read_saved_tensor(std::string_view(good).substr(0, n)).ok()) << n;
  }
  const auto changed = [&good](std::size_t at, char value) {
    std::string bytes = good;
    bytes[at] = value;
    const auto tensor = read_saved_tensor(bytes);
    return tensor.ok() ? Error{} : tensor.error();
  };
  const std::size_t end = good.rfind("PK\x05\x06"), first = good.find("PK\x01\x02");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(changed(first + 10, 8).kind, ErrorKind::kUnsupported);      // deflated
  EXPECT_EQ(changed(first + 8, 1).kind, ErrorKind::kUnsupported);       // encrypted
  EXPECT_THAT(changed(first + 23, 9).message, HasSubstr("zip: byte"));  // stored size
  EXPECT_THAT(changed(first + 44, 9).message, HasSubstr("zip: byte"));  // place of the file
  EXPECT_THAT(changed(end + 18, 9).message, HasSubstr("zip: byte"));    // place of the directory
  EXPECT_THAT(changed(end + 11, 9).message, HasSubstr("zip: byte"));    // number of entries
  EXPECT_EQ(changed(end + 4, 1).kind, ErrorKind::kUnsupported);         // parts
}

// The description asks for more than the storage has.
TEST(SavedTensor, SizesAreCheckedAgainstTheStorage) {
  const std::string good = archive();
  const std::string shape = "K\x03K\x04\x86";
  const std::size_t at = good.find(shape);
  ASSERT_NE(at, std::string::npos);
  for (const char rows : {4, 127}) {
    std::string bytes = good;
    bytes[at + 1] = rows;
    EXPECT_THAT(read_saved_tensor(bytes).error().message, HasSubstr("of a storage of 48"));
  }
  std::string bytes = good;
  bytes[at + 3] = 3;  // [3, 3] with strides (4, 1)
  EXPECT_THAT(read_saved_tensor(bytes).error().message, HasSubstr("not contiguous"));
}

}  // namespace
}  // namespace sx
