#include "sextant/dist/rendezvous.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "sextant/base/diagnostic.h"
#include "sextant/dist/plan_check.h"

namespace sx {
namespace {

std::string scratch_file() {
  static int count = 0;
  const auto path = std::filesystem::temp_directory_path() /
                    ("sx_store_" + std::to_string(getpid()) + "_" + std::to_string(count++));
  std::filesystem::remove(path);
  return path.string();
}

/// The same on every kind of store; four users at once.
void exercise(const std::function<RankStore(int user)>& open) {
  RankStore first = open(0);
  std::vector<std::thread> users;
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([&, user] {
      RankStore store = user == 0 ? first : open(user);
      store.set("own/" + std::to_string(user), "value " + std::to_string(user));
      for (int other = 0; other < 4; ++other) {
        EXPECT_EQ(store.get("own/" + std::to_string(other), Seconds{10.0}),
                  "value " + std::to_string(other));
      }
      store.add("sum", user + 1);
      store.set_once("first", "user " + std::to_string(user));
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(first.add("sum", 0), 10);
  const std::string winner = first.get("first", Seconds{1.0}).value();
  EXPECT_EQ(winner.substr(0, 5), "user ");
  EXPECT_EQ(first.set_once("first", "late"), winner);
  EXPECT_FALSE(first.has("absent"));
  EXPECT_EQ(first.get("absent", Seconds{0.05}), std::nullopt);
  int asked = 0;
  EXPECT_EQ(first.get("absent", Seconds{60.0}, [&] { return ++asked == 3; }), std::nullopt);
  RankStore run = first.with_prefix("sx/run/1/");
  EXPECT_FALSE(run.has("first"));
  run.set("first", "of another attempt");
  EXPECT_EQ(first.get("first", Seconds{1.0}), winner);
  const std::string bytes("\0\n\xff", 3);
  first.set("bytes", bytes);
  EXPECT_EQ(first.get("bytes", Seconds{1.0}), bytes);
}

TEST(RankStore, InProcess) {
  const RankStore store = RankStore::in_process();
  exercise([&](int) { return store; });
}

TEST(RankStore, File) {
  const std::string path = scratch_file();
  exercise([&](int) { return RankStore::file(path, 4); });
}

TEST(RankStore, Tcp) {
  const RankStore server = RankStore::tcp_server(0, Seconds{10.0});
  ASSERT_GT(server.port(), 0);
  exercise([&](int user) {
    return user == 0 ? server : RankStore::tcp_client("localhost", server.port(), Seconds{10.0});
  });
}

TEST(RankStore, NobodyThereIsAnIoErrorInTime) {
  EXPECT_THROW(RankStore::tcp_client("127.0.0.1", 1, Seconds{0.5}), IoError);
}

env::LauncherFacts facts_of(std::int64_t rank, env::Launcher launcher, int port) {
  env::LauncherFacts facts;
  facts.launcher = launcher;
  facts.global_rank = rank;
  facts.world_size = 2;
  facts.master_address = "127.0.0.1";
  facts.master_port = port;
  facts.run_id = "7";
  return facts;
}

TEST(OpenRankStore, TorchrunsAgentServesAndEveryRankIsAClient) {
  const RankStore agent = RankStore::tcp_server(0, Seconds{10.0});
  for (const std::int64_t rank : {0, 1}) {
    auto facts = facts_of(rank, env::Launcher::kTorchrun, agent.port());
    facts.agent_store = true;
    facts.restart_count = 3;
    RankStore store = open_rank_store(facts, Seconds{10.0});
    store.set("key" + std::to_string(rank), "x");
  }
  // Under run and attempt, so that what an earlier attempt left is never read.
  RankStore agents = agent;
  EXPECT_TRUE(agents.has("sx/7/3/key0"));
  EXPECT_TRUE(agents.has("sx/7/3/key1"));
}

TEST(OpenRankStore, Rank0ServesWithoutAgent) {
  int port = 0;
  { port = RankStore::tcp_server(0, Seconds{10.0}).port(); }
  RankStore zero = open_rank_store(facts_of(0, env::Launcher::kTorchrun, port), Seconds{10.0});
  RankStore one = open_rank_store(facts_of(1, env::Launcher::kTorchrun, port), Seconds{10.0});
  zero.set("a", "b");
  EXPECT_EQ(one.get("a", Seconds{5.0}), "b");
}

// Another job's store lies on the first port.
TEST(OpenRankStore, SlurmTakesTheNextFreePort) {
  RankStore other = RankStore::tcp_server(0, Seconds{10.0});
  const int base = other.port();
  RankStore zero = open_rank_store(facts_of(0, env::Launcher::kSlurm, base), Seconds{10.0});
  EXPECT_GE(zero.port(), base);
  RankStore one = open_rank_store(facts_of(1, env::Launcher::kSlurm, base), Seconds{10.0});
  zero.set("a", "b");
  EXPECT_EQ(one.get("a", Seconds{5.0}), "b");
}

TEST(OpenRankStore, Rank0ThatDoesNotComeIsNamed) {
  try {
    open_rank_store(facts_of(1, env::Launcher::kTorchrun, 1), Seconds{0.5});
    FAIL() << "a store was found";
  } catch (const FatalError& e) {
    EXPECT_EQ(e.exit_code(), ExitCode::kPeer);
    EXPECT_EQ(e.faults()[0].code(), "SX4-001");
    EXPECT_EQ(e.faults()[0].where, "tcp://127.0.0.1:1");
  }
}

TEST(HostIdentity, IsTheSameWithinAHost) {
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_FALSE(host_identity().empty());
}

StartFacts facts_with(const std::string& mesh) {
  StartFacts facts;
  facts.add("sextant", "1.0");
  facts.add("mesh", mesh);
  facts.add("recipe", "abc");
  return facts;
}

/// What each of `num_ranks` ranks throws; empty where nothing is thrown.
std::vector<std::string> check_on_threads(std::int64_t num_ranks,
                                          const std::function<StartFacts(std::int64_t)>& facts,
                                          Seconds timeout, std::int64_t absent = -1) {
  const RankStore shared = RankStore::in_process();
  std::vector<std::string> thrown(static_cast<std::size_t>(num_ranks));
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    if (rank == absent) continue;
    threads.emplace_back([&, rank] {
      RankStore store = shared;
      try {
        check_start_facts(store, rank, num_ranks, facts(rank), timeout);
      } catch (const FatalError& e) {
        thrown[static_cast<std::size_t>(rank)] =
            e.faults()[0].code() + " " + e.faults()[0].what + " / " + e.faults()[0].where;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

TEST(StartCheck, EqualRanksPass) {
  for (const std::string& text : check_on_threads(
           4, [](std::int64_t) { return facts_with("dp4"); }, Seconds{10.0})) {
    EXPECT_EQ(text, "");
  }
}

TEST(StartCheck, AnotherMeshOnOneRankEndsAllWithTheFirstDifferingLine) {
  const auto thrown = check_on_threads(
      4, [](std::int64_t rank) { return facts_with(rank == 2 ? "dp2 tp2" : "dp4"); },
      Seconds{10.0});
  for (const std::string& text : thrown) {
    EXPECT_EQ(text,
              "SX2-019 the ranks of this run do not start alike / rank 0: mesh dp4 | rank 2: mesh "
              "dp2 tp2");
  }
}

TEST(StartCheck, ARankThatDoesNotComeIsNamedEverywhere) {
  const auto thrown = check_on_threads(
      3, [](std::int64_t) { return facts_with("dp3"); }, Seconds{0.3}, 1);
  for (const std::int64_t rank : {0, 2}) {
    EXPECT_EQ(thrown[static_cast<std::size_t>(rank)].substr(0, 50),
              "SX4-001 rank 1 of 3 did not come within 0.3 s / ra");
  }
}

TEST(StartFacts, FirstDifferenceShowsMissingLines) {
  StartFacts longer = facts_with("dp4");
  longer.add("more", "1");
  EXPECT_EQ(first_difference(facts_with("dp4"), "a", longer, "b"), "a: (nothing) | b: more 1");
  EXPECT_EQ(first_difference(longer, "a", longer, "b"), "");
  EXPECT_NE(longer.hash(), facts_with("dp4").hash());
}

}  // namespace
}  // namespace sx
