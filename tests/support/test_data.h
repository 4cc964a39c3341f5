#pragma once

#include <filesystem>
#include <string>

namespace sx {

/// A file or folder of the shared test data; a suite that uses it is registered with DATA in sx_test.
std::filesystem::path test_data(const std::string& relative);

/// A file of the project's own tree, for instance "tests/golden/help.txt".
std::filesystem::path source_file(const std::string& relative);

/// A fresh empty folder that is removed when the object goes.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace sx
