#include "sextant/base/result.h"

#include <gtest/gtest.h>

#include <memory>

#include "sextant/base/check.h"

namespace sx {
namespace {

Result<int> half(int x) {
  if (x % 2 != 0) return Error{ErrorKind::kInvalid, "odd", "input"};
  return x / 2;
}

Result<int> quarter(int x) {
  SX_TRY(const int once, half(x));
  SX_TRY(const int twice, half(once));
  return twice;
}

Result<void> require_even(int x) {
  SX_TRY_VOID([&]() -> Result<void> {
    SX_TRY([[maybe_unused]] const int ignored, half(x));
    return {};
  }());
  return {};
}

TEST(ResultTest, CarriesValueOrError) {
  ASSERT_TRUE(quarter(8).ok());
  EXPECT_EQ(*quarter(8), 2);
  ASSERT_FALSE(quarter(6).ok());
  EXPECT_EQ(quarter(6).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(quarter(6).error().to_string(), "invalid: odd (input)");
  EXPECT_TRUE(require_even(2).ok());
  EXPECT_EQ(require_even(3).error().message, "odd");
}

TEST(ResultTest, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 5);
}

TEST(ResultTest, WrongAccessBreaksTheContract) {
  EXPECT_THROW(static_cast<void>(half(3).value()), ContractError);
  EXPECT_THROW(static_cast<void>(half(2).error()), ContractError);
  EXPECT_THROW(Result<void>(Error{}).value(), ContractError);
  EXPECT_THROW(static_cast<void>(Result<void>().error()), ContractError);
}

TEST(CheckTest, MessageHasTextConditionAndPlaceWithoutTheBuildFolder) {
  const int tp = 3;
  try {
    SX_CHECK(tp == 2, "tp is {}", tp);
    FAIL() << "no exception";
  } catch (const ContractError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.rfind("tp is 3 (tp == 2) at sextant/base/result_test.cpp:", 0), 0U) << text;
  }
}

TEST(CheckTest, ArgumentsAreOnlyEvaluatedOnFailure) {
  int num_evaluated = 0;
  const auto count = [&] { return ++num_evaluated; };
  SX_CHECK(true, "{}", count());
  EXPECT_EQ(num_evaluated, 0);
}

}  // namespace
}  // namespace sx
