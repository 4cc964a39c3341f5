#include "sextant/base/launcher.h"

#include <gtest/gtest.h>

#include "sextant/base/host_list.h"

namespace sx::env {
namespace {

using Variables = std::map<std::string, std::string>;

struct Expected {
  Launcher launcher = Launcher::kSingle;
  std::int64_t rank = 0;
  std::int64_t world = 1;
  std::int64_t local = 0;
  std::int64_t local_world = 1;
  std::string address = "";
  int port = 0;
  std::size_t num_warnings = 0;
};

struct Case {
  const char* name;
  Variables variables;
  Expected expected;
  const char* error_part = nullptr;  // set: detection must fail with this text
};

Variables join(std::initializer_list<Variables> parts) {
  Variables all;
  for (const Variables& part : parts) {
    for (const auto& [name, value] : part) all[name] = value;
  }
  return all;
}

const Variables kTorch{{"RANK", "11"},        {"WORLD_SIZE", "16"},
                       {"LOCAL_RANK", "3"},   {"LOCAL_WORLD_SIZE", "8"},
                       {"GROUP_RANK", "1"},   {"GROUP_WORLD_SIZE", "2"},
                       {"MASTER_ADDR", "n0"}, {"MASTER_PORT", "29500"}};
const Variables kStep{{"SLURM_PROCID", "5"},           {"SLURM_NTASKS", "8"},
                      {"SLURM_LOCALID", "1"},          {"SLURM_NODEID", "1"},
                      {"SLURM_NNODES", "2"},           {"SLURM_JOB_ID", "123456"},
                      {"SLURM_STEP_ID", "0"},          {"SLURM_STEP_NODELIST", "node[001-003,007]"},
                      {"SLURM_JOB_NODELIST", "other1"}};
const Variables kBatch{{"SLURM_PROCID", "0"},      {"SLURM_NTASKS", "8"},
                       {"SLURM_LOCALID", "0"},     {"SLURM_NNODES", "2"},
                       {"SLURM_JOB_ID", "123456"}, {"SLURM_JOB_NODELIST", "n[1-2]"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables kHydra{
    {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

Variables with(Variables base, const std::string& name, const std::string& value) {
  base[name] = value;
  return base;
}
Variables without(Variables base, const std::string& name) {
  base.erase(name);
  return base;
}

const Expected kTorchFacts{Launcher::kTorchrun, 11, 16, 3, 8, "n0", 29500};
const Expected kStepFacts{Launcher::kSlurm, 5, 8, 1, 4, "node001", 23456};

std::vector<Case> cases() {
  return {
      {"nothing", {}, {}},
      {"unrelated", {{"PATH", "/bin"}, {"HOME", "/root"}}, {}},
      {"torchrun", kTorch, kTorchFacts},
      {"torchrun, empty Slurm variable", with(kTorch, "SLURM_PROCID", ""), kTorchFacts},
      {"torchrun over Slurm that agrees",
       join({kTorch,
             kStep,
             {{"SLURM_PROCID", "11"}, {"SLURM_NTASKS", "16"}, {"SLURM_LOCALID", "3"}}}),
       kTorchFacts},
      {"torchrun over Slurm that disagrees",
       join({kTorch, kStep}),
       {Launcher::kTorchrun, 11, 16, 3, 8, "n0", 29500, 1}},
      {"torchrun over Slurm and MPI that disagree",
       join({kTorch, kStep, kOpenMpi}),
       {Launcher::kTorchrun, 11, 16, 3, 8, "n0", 29500, 2}},
      {"torchrun inside a batch script", join({kTorch, kBatch}), kTorchFacts},
      {"torchrun over broken Slurm", join({kTorch, with(kStep, "SLURM_NTASKS", "x")}), kTorchFacts},
      {"hand-set env://, one rank",
       {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "1"}},
       {Launcher::kTorchrun, 0, 1, 0, 1, "localhost", 1}},
      {"hand-set env://, two ranks",
       {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "65535"}},
       {Launcher::kTorchrun, 1, 2, 0, 1, "h", 65535, 1}},
      {"RANK alone", {{"RANK", "0"}}, {}, "RANK without WORLD_SIZE, MASTER_ADDR, MASTER_PORT"},
      {"WORLD_SIZE alone",
       {{"WORLD_SIZE", "2"}},
       {},
       "WORLD_SIZE without RANK, MASTER_ADDR, MASTER_PORT"},
      {"RANK without WORLD_SIZE", without(kTorch, "WORLD_SIZE"), {}, "without WORLD_SIZE"},
      {"no MASTER_ADDR", without(kTorch, "MASTER_ADDR"), {}, "without MASTER_ADDR"},
      {"no MASTER_PORT", without(kTorch, "MASTER_PORT"), {}, "without MASTER_PORT"},
      {"MASTER_ADDR alone", {{"MASTER_ADDR", "n0"}, {"MASTER_PORT", "29500"}}, {}},
      {"port 0", with(kTorch, "MASTER_PORT", "0"), {}, "MASTER_PORT=0 is outside 1..65535"},
      {"port 65536", with(kTorch, "MASTER_PORT", "65536"), {}, "outside 1..65535"},
      {"port not a number",
       with(kTorch, "MASTER_PORT", "http"),
       {},
       "MASTER_PORT=\"http\" is not an integer"},
      {"negative rank", with(kTorch, "RANK", "-1"), {}, "RANK=-1 is outside"},
      {"rank with a tail", with(kTorch, "RANK", "1x"), {}, "is not an integer"},
      {"rank beyond the world", with(kTorch, "RANK", "16"), {}, "rank 16 is not below the size 16"},
      {"local rank beyond",
       with(kTorch, "LOCAL_RANK", "8"),
       {},
       "local rank 8 is not below the size 8"},
      {"world 0", with(kTorch, "WORLD_SIZE", "0"), {}, "WORLD_SIZE=0 is outside"},
      {"Slurm step", kStep, kStepFacts},
      {"Slurm step, list of the job",
       without(kStep, "SLURM_STEP_NODELIST"),
       {Launcher::kSlurm, 5, 8, 1, 4, "other1", 23456}},
      {"Slurm step, tasks per node",
       with(kStep, "SLURM_NTASKS_PER_NODE", "6"),
       {Launcher::kSlurm, 5, 8, 1, 6, "node001", 23456}},
      {"Slurm step with the script's MASTER_ADDR and WORLD_SIZE",
       join({kStep, {{"MASTER_ADDR", "x"}, {"WORLD_SIZE", "8"}}}), kStepFacts},
      {"Slurm step started with PMI", join({kStep, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}}}),
       kStepFacts},
      {"Slurm step, PMIx rank only", join({kStep, {{"PMIX_RANK", "5"}}}), kStepFacts},
      {"Slurm step without tasks", without(kStep, "SLURM_NTASKS"), {}, "without SLURM_NTASKS"},
      {"Slurm step without a list",
       without(without(kStep, "SLURM_STEP_NODELIST"), "SLURM_JOB_NODELIST"),
       {},
       "without SLURM_STEP_NODELIST"},
      {"Slurm step with a torn list", with(kStep, "SLURM_STEP_NODELIST", "a[1-"), {}, "column"},
      {"batch script without srun", kBatch, {Launcher::kSingle, 0, 1, 0, 1, "", 0, 1}},
      {"batch script, batch step id",
       with(kBatch, "SLURM_STEP_ID", "4294967291"),
       {Launcher::kSingle, 0, 1, 0, 1, "", 0, 1}},
      {"batch script with one task", with(kBatch, "SLURM_NTASKS", "1"), {}},
      {"mpirun inside a batch script", join({kBatch, kOpenMpi}), {Launcher::kMpi, 2, 4, 0, 2}},
      {"Open MPI", kOpenMpi, {Launcher::kMpi, 2, 4, 0, 2}},
      {"Open MPI without local facts",
       {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
       {Launcher::kMpi, 2, 4, 0, 1}},
      {"Open MPI with its PMIx rank",
       with(kOpenMpi, "PMIX_RANK", "2"),
       {Launcher::kMpi, 2, 4, 0, 2}},
      {"Open MPI with the shell's WORLD_SIZE",
       with(kOpenMpi, "WORLD_SIZE", "9"),
       {Launcher::kMpi, 2, 4, 0, 2}},
      {"Hydra", kHydra, {Launcher::kMpi, 3, 4, 1, 2}},
      {"MPI rank without size", {{"PMI_RANK", "0"}}, {}, "PMI_RANK without PMI_SIZE"},
      {"PMIx rank alone", {{"PMIX_RANK", "0"}}, {}, "PMIX_RANK without OMPI_COMM_WORLD_SIZE"},
  };
}

TEST(LauncherTest, TableOfVariables) {
  ASSERT_GE(cases().size(), 40U);
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto facts = detect_launcher(c.variables);
    if (c.error_part != nullptr) {
      ASSERT_FALSE(facts.ok());
      EXPECT_EQ(facts.error().kind, ErrorKind::kInvalid);
      EXPECT_NE(facts.error().message.find(c.error_part), std::string::npos)
          << facts.error().message;
      continue;
    }
    ASSERT_TRUE(facts.ok()) << facts.error().to_string();
    EXPECT_EQ(facts->launcher, c.expected.launcher);
    EXPECT_EQ(facts->global_rank, c.expected.rank);
    EXPECT_EQ(facts->world_size, c.expected.world);
    EXPECT_EQ(facts->local_rank, c.expected.local);
    EXPECT_EQ(facts->local_world_size, c.expected.local_world);
    EXPECT_EQ(facts->master_address, c.expected.address);
    EXPECT_EQ(facts->master_port, c.expected.port);
    EXPECT_EQ(facts->warnings.size(), c.expected.num_warnings);
  }
}

TEST(LauncherTest, DescribesItselfInOneLine) {
  EXPECT_EQ(describe(*detect_launcher(kTorch)),
            "launcher torchrun · world 16 · node 1/2 · local 3/8 · store tcp://n0:29500");
  EXPECT_EQ(describe(*detect_launcher(Variables{})),
            "launcher single · world 1 · node 0/1 · local 0/1");
}

TEST(LauncherTest, TorchrunExtras) {
  Variables variables = kTorch;
  variables["TORCHELASTIC_RUN_ID"] = "job-7";
  variables["TORCHELASTIC_RESTART_COUNT"] = "2";
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  const LauncherFacts facts = *detect_launcher(variables);
  EXPECT_EQ(facts.run_id, "job-7");
  EXPECT_EQ(facts.restart_count, 2);
  EXPECT_TRUE(facts.agent_store);
  EXPECT_FALSE(
      detect_launcher(with(variables, "TORCHELASTIC_USE_AGENT_STORE", "true"))->agent_store);
}

TEST(LauncherTest, DisagreementShowsBoth) {
  EXPECT_EQ(detect_launcher(join({kTorch, kStep}))->warnings.front(),
            "torchrun says rank 11 of 16, slurm says rank 5 of 8: torchrun is taken");
  EXPECT_EQ(detect_launcher(kBatch)->warnings.front(),
            "Slurm gave 8 tasks but this is one process outside a step: use srun to start 8 tasks");
}

TEST(HostListTest, KnownAnswers) {
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(*expand_host_list("n1"), (Hosts{"n1"}));
  EXPECT_EQ(*expand_host_list("node[001-003,007]"),
            (Hosts{"node001", "node002", "node003", "node007"}));
  EXPECT_EQ(*expand_host_list("gpu-a[1-2],gpu-b3"), (Hosts{"gpu-a1", "gpu-a2", "gpu-b3"}));
  EXPECT_EQ(*expand_host_list("r[1-2]n[08-10]"),
            (Hosts{"r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10"}));
}

TEST(HostListTest, FaultsNameTheColumn) {
  const std::pair<const char*, const char*> cases[] = {
      {"a[1-", "column 5"},    {"", "column 1"},          {"a,", "column 3"},
      {"a[3-1]", "backwards"}, {"a]", "column 2"},        {"a[1", "missing ] at column 4"},
      {"a[x]", "column 3"},    {"a[]", "missing number"}, {"a b", "column 2"}};
  for (const auto& [list, part] : cases) {
    const auto hosts = expand_host_list(list);
    ASSERT_FALSE(hosts.ok()) << list;
    EXPECT_EQ(hosts.error().kind, ErrorKind::kCorrupt);
    EXPECT_NE(hosts.error().message.find(part), std::string::npos) << hosts.error().message;
  }
}

TEST(HostListTest, SizeIsLimitedBeforeItIsMade) {
  for (const char* list : {"a[0-999999999999999999]", "a[1-60000]b[1-60000]",
                           "a[1-60000],b[1-60000]", "a[1-60000,1-60000]"}) {
    ASSERT_FALSE(expand_host_list(list).ok()) << list;
    EXPECT_EQ(expand_host_list(list).error().kind, ErrorKind::kLimit) << list;
  }
}

}  // namespace
}  // namespace sx::env
