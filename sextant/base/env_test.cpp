#include "sextant/base/env.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "sextant/base/check.h"

namespace sx::env {
namespace {

/// Sets a variable, or removes it with nullptr, and puts the old value back.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~ScopedVariable() { set(old_ ? old_->c_str() : nullptr); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void set(const char* value) {
    if (value != nullptr) {
      setenv(name_, value, 1);
    } else {
      unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> old_;
};

TEST(EnvTest, ReadsTheClosedListOnly) {
  const ScopedVariable rank("SLURM_PROCID", "3");
  EXPECT_EQ(get("SLURM_PROCID"), "3");
  const ScopedVariable none("SLURM_NODEID", nullptr);
  EXPECT_EQ(get("SLURM_NODEID"), std::nullopt);
  EXPECT_THROW(get("SOME_OTHER"), ContractError);
  EXPECT_THROW(get(""), ContractError);
  const ScopedVariable secret("SOME_API_KEY", "s3cret");
  EXPECT_EQ(get_secret("SOME_API_KEY"), "s3cret");
}

TEST(EnvTest, CacheFolder) {
  const ScopedVariable home("HOME", "/home/a");
  {
    const ScopedVariable cache("XDG_CACHE_HOME", "/cache");
    EXPECT_EQ(cache_dir(), "/cache/sextant");
  }
  {
    const ScopedVariable cache("XDG_CACHE_HOME", "relative");
    EXPECT_EQ(cache_dir(), "/home/a/.cache/sextant");
  }
  const ScopedVariable cache("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(cache_dir(), "/home/a/.cache/sextant");
  const ScopedVariable no_home("HOME", nullptr);
  const ScopedVariable temporary("TMPDIR", "/t");
  EXPECT_EQ(cache_dir().rfind("/t/sextant-cache-", 0), 0U);
}

TEST(EnvTest, NamesVariablesNobodyReads) {
  const ScopedVariable stray("SEXTANT_LOG_LEVEL", "debug");
  const ScopedVariable known("SEXTANT_TEST_DATA", "/data");
  const auto names = unknown_sextant_variables();
  EXPECT_NE(std::find(names.begin(), names.end(), "SEXTANT_LOG_LEVEL"), names.end());
  EXPECT_EQ(std::find(names.begin(), names.end(), "SEXTANT_TEST_DATA"), names.end());
}

TEST(EnvTest, ReportsWhatOtherLibrariesReadAndNoSecrets) {
  const ScopedVariable nccl("NCCL_DEBUG", "INFO");
  const ScopedVariable threads("OMP_NUM_THREADS", "1");
  const ScopedVariable secret("SOME_API_KEY", "s3cret");
  const auto reported = reported_variables();
  EXPECT_EQ(reported.at("NCCL_DEBUG"), "INFO");
  EXPECT_EQ(reported.at("OMP_NUM_THREADS"), "1");
  EXPECT_FALSE(reported.contains("SOME_API_KEY"));
}

TEST(EnvTest, KeepsTheUsersMklModeAndSetsOneOtherwise) {
  {
    const ScopedVariable mode("MKL_CBWR", "COMPATIBLE");
    EXPECT_EQ(set_mkl_reproducible(), "COMPATIBLE");
  }
  const ScopedVariable mode("MKL_CBWR", nullptr);
  const std::string value = set_mkl_reproducible();
  EXPECT_TRUE(value == "AVX512,STRICT" || value == "AVX2,STRICT" || value.empty()) << value;
  EXPECT_EQ(get("MKL_CBWR").value_or(""), value);
}

TEST(EnvTest, WidthWithoutATerminalComesFromColumns) {
  if (stderr_is_terminal()) return;  // then the terminal decides
  const ScopedVariable columns("COLUMNS", "132");
  EXPECT_EQ(terminal_columns(), 132);
  const ScopedVariable none("COLUMNS", "wide");
  EXPECT_EQ(terminal_columns(), 80);
  EXPECT_FALSE(want_color());
}

}  // namespace
}  // namespace sx::env
