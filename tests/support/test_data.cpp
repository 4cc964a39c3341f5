#include "tests/support/test_data.h"

#include <cstdlib>
#include <system_error>

#include "sextant/base/check.h"

namespace sx {

std::filesystem::path test_data(const std::string& relative) {
  const char* root = std::getenv("SEXTANT_TEST_DATA");
  SX_CHECK(root != nullptr, "SEXTANT_TEST_DATA is set by ctest; run this test through ctest");
  return std::filesystem::path(root) / relative;
}

std::filesystem::path source_file(const std::string& relative) {
  return std::filesystem::path(SX_SOURCE_DIR) / relative;
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "sextant-test-XXXXXX").string();
  SX_CHECK(mkdtemp(pattern.data()) != nullptr, "cannot make a temporary folder");
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace sx
