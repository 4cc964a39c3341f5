#include "sextant/schedule/csv.h"

#include <gtest/gtest.h>

#include "sextant/schedule/insert_comm.h"
#include "sextant/schedule/validate.h"

namespace sx {
namespace {

TEST(ScheduleCsv, EveryScheduleComesBack) {
  for (const std::string& name : schedule_names()) {
    const Schedule schedule =
        insert_comm(make_schedule({name, 4, 1, 8, 0}).value(), {.gather = true});
    const Result<Schedule> read = from_csv(to_csv(schedule), name);
    ASSERT_TRUE(read.ok()) << name << ": " << read.error().to_string();
    EXPECT_EQ(read->ops, schedule.ops) << name;
    EXPECT_EQ(read->placement, schedule.placement) << name;
    EXPECT_EQ(read->microbatches, 8);
  }
}

TEST(ScheduleCsv, ReadsSpacesQuotesAndEmptyCells) {
  const Result<Schedule> read = from_csv("0F0, ,0B0,\r\n\"1F0\",1B0");
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(to_csv(*read), "0F0,0B0\n1F0,1B0\n");
  EXPECT_TRUE(validate(*read).empty());
}

TEST(ScheduleCsv, OverlappingPairsStandInOneCell) {
  const Result<Schedule> read = from_csv("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n");
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  ASSERT_EQ(read->ops[0].size(), 4U);
  EXPECT_TRUE(read->ops[0][1].overlap);
  EXPECT_EQ(to_csv(*read), "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n");
}

TEST(ScheduleCsv, BadCellsAreNamed) {
  const auto fault = [](std::string_view text) { return from_csv(text).error().to_string(); };
  EXPECT_EQ(fault("0F0,0X0\n"), "corrupt: \"0X0\" is no op (row 0, cell 1)");
  EXPECT_EQ(fault("0F0\n1F\n"), "corrupt: \"1F\" is no op (row 1, cell 0)");
  EXPECT_EQ(fault("-1F0"), "corrupt: \"-1F0\" is no op (row 0, cell 0)");
  EXPECT_EQ(fault("0F99999999999"), "corrupt: \"0F99999999999\" is no op (row 0, cell 0)");
  EXPECT_EQ(fault("(0F1;0B0)OVERLAP"), "corrupt: \"(0F1;0B0)OVERLAP\" is no op (row 0, cell 0)");
  EXPECT_EQ(fault(""), "invalid: the table has no op of a microbatch");
  EXPECT_EQ(fault("0F0\n0F1\n"), "invalid: no placement has 1 stages on these 2 ranks");
  EXPECT_EQ(fault("2000000000F0\n"),
            "limit: 2000000001 stages times 1 microbatches; at most 16777216");
}

}  // namespace
}  // namespace sx
