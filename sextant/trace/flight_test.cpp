#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sextant/trace/flight_dump.h"
#include "sextant/trace/flight_report.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

FlightEntry call(std::uint64_t number, std::int64_t group, std::uint64_t sequence,
                 const std::string& unit, std::uint64_t hash,
                 FlightState state = FlightState::kDone) {
  return {.number = number,
          .group = group,
          .sequence = sequence,
          .op = "all_reduce sum",
          .dtype = "Float",
          .numel = 64,
          .unit = unit,
          .step = 3,
          .hash = hash,
          .started_ns = static_cast<std::int64_t>(1000 + number),
          .done_ns = state == FlightState::kStarted ? 0 : 2000,
          .state = state};
}

FlightDump dump_of(std::int64_t rank, std::vector<FlightEntry> entries) {
  FlightDump dump{.rank = rank, .reason = "asked", .written_at = "t", .clock_ns = 5000};
  for (const std::int64_t id : {0, 1}) {
    FlightGroup group{.id = id,
                      .axis = id == 0 ? "world" : "dp_shard",
                      .purpose = id == 0 ? "control" : "reduce",
                      .transport = "threads",
                      .ranks = {0, 1, 2}};
    for (const FlightEntry& e : entries) {
      if (e.group == id) group.calls = e.sequence + 1;
    }
    dump.groups.push_back(group);
  }
  dump.entries = std::move(entries);
  return dump;
}

TEST(FlightDump, ComesBackFromItsFile) {
  const TempDir folder;
  FlightDump dump =
      dump_of(5, {call(0, 0, 0, "", 0), call(1, 1, 0, "a \"b\"", 0xffffffffffffffff)});
  dump.entries.push_back(dump.entries[0]);
  dump.entries.back().p2p = true;
  dump.entries.back().op = "send";
  dump.entries.back().peer = 2;
  dump.entries.back().tag = 7;
  ASSERT_TRUE(write_flight_dump(folder.path() / "flight", dump).ok());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "flight/rank-00005.json"));
  const auto back = read_flight_dumps(folder.path() / "flight");
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  ASSERT_EQ(back->size(), 1u);
  EXPECT_EQ((*back)[0], dump);
  const auto json = nlohmann::json::parse(to_json(dump));
  EXPECT_EQ(json["entries"][1]["collective_seq_id"], 0);
  EXPECT_EQ(json["entries"][2]["p2p_seq_id"], 0);
}

TEST(FlightDump, RefusesWhatIsNone) {
  for (const char* text :
       {"", "{", "[]", "{\"format\":\"sextant flight 2\"}", "{\"format\":\"sextant flight 1\"}",
        "{\"format\":\"sextant flight 1\",\"rank\":\"x\"}"}) {
    const auto parsed = parse_flight_dump(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kCorrupt);
  }
  const TempDir folder;
  EXPECT_EQ(read_flight_dumps(folder.path()).error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(read_flight_dumps(folder.path() / "none").error().kind, ErrorKind::kNotFound);
}

TEST(FlightReport, SameCallsAreNoDivergence) {
  const auto all = {call(0, 0, 0, "a", 1), call(1, 1, 0, "b", 2)};
  const auto report = compare_flights({dump_of(0, all), dump_of(1, all), dump_of(2, all)});
  EXPECT_TRUE(report.divergences.empty());
  EXPECT_THAT(to_text(report), HasSubstr("the same calls"));
}

TEST(FlightReport, FindsTheFirstDifferentCall) {
  const auto right = {call(0, 1, 0, "a", 1), call(1, 1, 1, "b", 2), call(2, 1, 2, "c", 3)};
  const auto swapped = {call(0, 1, 0, "a", 1), call(1, 1, 1, "c", 2), call(2, 1, 2, "b", 4)};
  const auto report = compare_flights({dump_of(0, right), dump_of(1, swapped), dump_of(2, right)});
  ASSERT_EQ(report.divergences.size(), 1u);
  const FlightDivergence& d = report.divergences[0];
  EXPECT_EQ(d.kind, FlightDivergence::Kind::kDifferent);
  EXPECT_EQ(d.sequence, 1u);
  ASSERT_EQ(d.sides.size(), 2u);
  EXPECT_THAT(d.sides[0].ranks, ElementsAre(0, 2));
  EXPECT_THAT(d.sides[1].ranks, ElementsAre(1));
  EXPECT_THAT(d.sides[1].call, HasSubstr("unit \"c\""));
}

// Rank 2 makes one call more on dp_shard and waits there; the others wait for it in the world's.
TEST(FlightReport, AnExtraCallIsTheFirstOfTwo) {
  const auto others = {call(0, 1, 0, "a", 1), call(5, 0, 0, "check", 1, FlightState::kStarted)};
  const auto extra = {call(0, 1, 0, "a", 1), call(3, 1, 1, "b", 2, FlightState::kStarted)};
  const auto report = compare_flights({dump_of(0, others), dump_of(1, others), dump_of(2, extra)});
  ASSERT_EQ(report.divergences.size(), 2u);
  EXPECT_EQ(report.divergences[0].group.axis, "dp_shard");
  EXPECT_EQ(report.divergences[0].kind, FlightDivergence::Kind::kMissing);
  EXPECT_EQ(report.divergences[0].sequence, 1u);
  EXPECT_EQ(report.divergences[1].group.axis, "world");
  const std::string text = to_text(report);
  EXPECT_THAT(text,
              HasSubstr("first divergence: dp_shard (reduce) of ranks 0 1 2, call 1, step 3"));
  EXPECT_THAT(text, HasSubstr("rank 0, 1: no call"));
  EXPECT_THAT(text, HasSubstr("rank 2: all_reduce sum Float x 64, unit \"b\", started"));
}

TEST(FlightReport, NamesRanksWithoutARecordAndUnfinishedCalls) {
  const auto stuck = {call(0, 1, 0, "a", 1, FlightState::kStarted)};
  const auto report = compare_flights({dump_of(0, stuck), dump_of(2, stuck)});
  EXPECT_THAT(report.missing, ElementsAre(1));
  ASSERT_EQ(report.divergences.size(), 1u);
  EXPECT_EQ(report.divergences[0].kind, FlightDivergence::Kind::kUnfinished);
  EXPECT_EQ(to_json(report)["missing"][0], 1);
}

}  // namespace
}  // namespace sx
