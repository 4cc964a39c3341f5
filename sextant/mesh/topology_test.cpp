#include "sextant/mesh/topology.h"

#include <gtest/gtest.h>

#include "sextant/base/check.h"

namespace sx {
namespace {

TEST(Topology, LinksOfAxes) {
  const Topology topology = Topology::uniform(16, 8, 4);
  EXPECT_EQ(topology.num_nodes(), 2);
  EXPECT_EQ(topology.place(13), (RankPlace{.node = 1, .island = 3, .rail = 5}));
  const DeviceMesh mesh({.pp = 2, .dp_shard = 2, .tp = 4});
  EXPECT_EQ(topology.link_class(mesh, Axis::kTp), LinkClass::kIsland);
  EXPECT_EQ(topology.link_class(mesh, Axis::kDpShard), LinkClass::kNode);
  EXPECT_EQ(topology.link_class(mesh, Axis::kPp), LinkClass::kNetwork);
  EXPECT_TRUE(topology.one_rail(mesh, Axis::kPp));
  EXPECT_FALSE(topology.one_rail(mesh, Axis::kDpShard));
  EXPECT_TRUE(topology.warnings(mesh).empty());
}

TEST(Topology, TensorParallelOutsideItsIslandIsAWarning) {
  const Topology topology = Topology::uniform(16, 8, 4);
  const auto inside = topology.warnings(DeviceMesh({.dp_shard = 2, .tp = 8}));
  ASSERT_EQ(inside.size(), 1u);
  EXPECT_EQ(inside[0].code(), "SX2-029");
  EXPECT_NE(inside[0].what.find("tp = 8 leaves its island: its collectives run over the node"),
            std::string::npos)
      << inside[0].what;
  EXPECT_NE(inside[0].what.find("7.1 times slower"), std::string::npos) << inside[0].what;
  const auto across = topology.warnings(DeviceMesh({.tp = 16}));
  ASSERT_EQ(across.size(), 1u);
  EXPECT_NE(across[0].what.find("9.0 times slower"), std::string::npos) << across[0].what;
}

TEST(Topology, Contract) {
  EXPECT_THROW(Topology({{.node = 0, .island = 0}, {.node = 1, .island = 0}}), ContractError);
  EXPECT_THROW(Topology::uniform(8, 8, 3), ContractError);
  EXPECT_THROW(Topology::uniform(8, 8, 8).place(8), ContractError);
}

}  // namespace
}  // namespace sx
