#include "sextant/recipe/topology_file.h"

#include <gtest/gtest.h>

namespace sx {
namespace {

std::string fault_of(const std::string& toml, std::int64_t ranks = 4) {
  const Result<Topology> read = read_topology(toml, "t.toml", ranks);
  return read.ok() ? "ok" : read.error().message + " @ " + read.error().where;
}

TEST(TopologyFile, UniformNodesAndLinks) {
  const Result<Topology> read = read_topology(
      "ranks_per_node = 4\nranks_per_island = 2\n"
      "link.network = { bandwidth = \"25GB\", latency = \"20us\" }\n",
      "t.toml", 8);
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->num_nodes(), 2);
  EXPECT_EQ(read->place(6), (RankPlace{.node = 1, .island = 3, .rail = 2}));
  EXPECT_EQ(read->link(LinkClass::kNetwork).per_second, Bytes(25'000'000'000));
  EXPECT_NEAR(read->link(LinkClass::kNetwork).latency.value, 20e-6, 1e-15);
  EXPECT_EQ(read->link(LinkClass::kIsland), Topology::nominal_links()[0]);
}

TEST(TopologyFile, ListsByRank) {
  const Result<Topology> read =
      read_topology("node = [0, 1, 0, 1]\nrail = [0, 0, 1, 1]\n", "t.toml", 4);
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->place(3), (RankPlace{.node = 1, .island = 1, .rail = 1}));
}

TEST(TopologyFile, Faults) {
  EXPECT_EQ(fault_of(""), "ranks_per_node or node is needed @ t.toml");
  EXPECT_EQ(fault_of("ranks_per_nod = 4\n"), "unknown key ranks_per_nod @ t.toml:1");
  EXPECT_EQ(fault_of("\nranks_per_node = 0\n"), "ranks_per_node = 0 @ t.toml:2");
  EXPECT_EQ(fault_of("ranks_per_node = \"many\"\n"),
            "ranks_per_node wants a whole number, or a string such as \"300B\" @ t.toml:1");
  EXPECT_EQ(fault_of("ranks_per_node = 4\nranks_per_island = 3\n"),
            "ranks_per_island = 3 does not divide ranks_per_node = 4 @ t.toml");
  EXPECT_EQ(fault_of("node = [0, 0]\n"), "node has 2 entries for 4 ranks @ t.toml");
  EXPECT_EQ(fault_of("node = [0, 0, 1, 1]\nisland = [0, 1, 1, 2]\n"),
            "island 1 is on two nodes @ t.toml");
  EXPECT_EQ(fault_of("node = [0, 0, 1, 1]\nranks_per_node = 2\n"),
            "both lists and ranks_per_* are given @ t.toml");
  EXPECT_EQ(fault_of("ranks_per_node = 4\nlink.network.bandwidth = \"0B\"\n"),
            "link.network.bandwidth is no bandwidth @ t.toml:2");
  EXPECT_NE(fault_of("ranks_per_node ="), "ok");
}

}  // namespace
}  // namespace sx
