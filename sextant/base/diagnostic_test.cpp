#include "sextant/base/diagnostic.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

namespace sx {
namespace {

TEST(DiagnosticTest, FourLines) {
  const Diagnostic user{.exit = ExitCode::kUser,
                        .number = 17,
                        .what = "parallelism.tp = 3 does not divide model.num_heads_kv = 8",
                        .where = "8b.toml:14 (parallelism.tp)",
                        .rule = "tp divides num_heads_kv, or num_heads_kv divides tp",
                        .next = "sextant plan search 8b.toml --set parallelism.tp=auto"};
  EXPECT_EQ(user.to_string(),
            "error[SX2-017] parallelism.tp = 3 does not divide model.num_heads_kv = 8\n"
            "  where  8b.toml:14 (parallelism.tp)\n"
            "  rule   tp divides num_heads_kv, or num_heads_kv divides tp\n"
            "  next   sextant plan search 8b.toml --set parallelism.tp=auto");
  const Diagnostic peer{.exit = ExitCode::kPeer, .number = 3, .what = "w", .rule = "r"};
  EXPECT_EQ(peer.to_string("warn"), "warn[SX4-003] w\n  cause  r");
}

TEST(DiagnosticTest, ErrorsMapToNumbers) {
  const auto code = [](ErrorKind kind, const std::string& message) {
    return to_diagnostic({kind, message, "file"}).code();
  };
  for (const int no_space : {ENOSPC, EDQUOT, EFBIG}) {
    EXPECT_EQ(code(ErrorKind::kIo, std::string("cannot write x: ") + std::strerror(no_space)),
              "SX3-001");
  }
  for (const int denied : {EACCES, EPERM, EROFS}) {
    EXPECT_EQ(code(ErrorKind::kIo, std::string("cannot write x: ") + std::strerror(denied)),
              "SX3-002");
  }
  EXPECT_EQ(code(ErrorKind::kIo, std::strerror(EIO)), "SX3-007");
  EXPECT_EQ(code(ErrorKind::kCorrupt, "bad"), "SX3-003");
  EXPECT_EQ(code(ErrorKind::kNotFound, "gone"), "SX2-007");
  EXPECT_EQ(code(ErrorKind::kInvalid, "no"), "SX2-008");
  EXPECT_EQ(code(ErrorKind::kUnsupported, "no"), "SX2-009");
  EXPECT_EQ(code(ErrorKind::kLimit, "no"), "SX3-008");
  EXPECT_EQ(code(ErrorKind::kTimeout, "no"), "SX3-009");
  EXPECT_EQ(code(ErrorKind::kInternal, "no"), "SX1-001");
}

TEST(DiagnosticTest, FatalErrorsCarryAllFaults) {
  const Diagnostic first{.exit = ExitCode::kUser, .number = 1, .what = "a"};
  const Diagnostic second{.exit = ExitCode::kUser, .number = 2, .what = "b"};
  const ConfigError error({first, second});
  EXPECT_EQ(error.faults().size(), 2U);
  EXPECT_EQ(error.exit_code(), ExitCode::kUser);
  EXPECT_STREQ(error.what(), "error[SX2-001] a\nerror[SX2-002] b");
  EXPECT_EQ(IoError(to_diagnostic({ErrorKind::kIo, "x", ""})).exit_code(), ExitCode::kIo);
}

}  // namespace
}  // namespace sx
