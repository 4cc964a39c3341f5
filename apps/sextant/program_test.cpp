// The program as a user meets it: exit codes, what goes to which stream, files it leaves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sextant/base/fs.h"
#include "tests/support/run_shell.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

class Program : public testing::Test {
 protected:
  /// Runs `sextant LINE` by the shell in an empty folder, with these variables in front.
  ShellOutcome run(const std::string& line, const std::string& variables = "") {
    return run_shell(variables + " '" SX_PROGRAM "' " + line, folder_.path());
  }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  TempDir folder_;
};

TEST_F(Program, AFullStandardOutputIsAFaultAndAClosedPipeIsNone) {
  for (const char* line : {"--help", "--version", "doctor --json", "completion bash"}) {
    const ShellOutcome full = run(std::string(line) + " >/dev/full");
    EXPECT_EQ(full.code, 3) << line;
    EXPECT_NE(full.err.find("standard output"), std::string::npos) << full.err;
  }
  run("| true", "sh -c '\"$0\" --help-recipe; echo $? >code'");
  EXPECT_EQ(read_file(folder_ / "code").value(), "0\n");
}

TEST_F(Program, HelpAndVersionGoToStandardOutput) {
  for (const char* line : {"--help", "-h", "crawl --help", "train -h", "--version", "--help-recipe",
                           "crawl --help-recipe"}) {
    const ShellOutcome outcome = run(line);
    EXPECT_EQ(outcome.code, 0) << line;
    EXPECT_FALSE(outcome.out.empty()) << line;
    EXPECT_EQ(outcome.err, "") << line;
  }
  const auto version = nlohmann::json::parse(run("--version --json").out);
  for (const char* key : {"version", "git_commit", "build_type", "compiler"})
    EXPECT_TRUE(version.contains(key)) << key;
  const ShellOutcome nothing = run("");
  EXPECT_EQ(nothing.code, 2);
  EXPECT_EQ(nothing.out, "");
  EXPECT_NE(nothing.err.find("Usage"), std::string::npos);
}

TEST_F(Program, FaultsAreFourLinesOnStandardError) {
  const ShellOutcome outcome = run("crwal x");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err.find("error[SX2-001] unknown verb crwal: did you mean crawl?\n  where  "),
            0u)
      << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 4) << outcome.err;
}

TEST_F(Program, ColourOnlyOnATerminalOrWhenAsked) {
  EXPECT_EQ(run("crwal").err.find('\x1b'), std::string::npos);
  EXPECT_EQ(run("crwal --color always").err.find("\x1b[1;31merror[SX2-001]\x1b[0m"), 0u);
}

TEST_F(Program, ValidateReportsEveryFaultOfLineAndRecipe) {
  write("r.toml", "[training]\nsteps = -1\n[modle]\nhidden = 3\n");
  const ShellOutcome outcome = run("train r.toml --outt x --validate --optimizer.lr=fast");
  EXPECT_EQ(outcome.code, 2);
  for (const char* part : {"unknown flag --outt", "r.toml:2 (training.steps)",
                           "did you mean model.hidden?", "optimizer.lr"}) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << part << "\n" << outcome.err;
  }
  EXPECT_EQ(run("train --preset tiny --data.paths=demo --validate").code, 0);
}

TEST_F(Program, PrintedConfigIsARecipe) {
  const ShellOutcome first = run("train --preset tiny --data.paths=demo --print-config");
  ASSERT_EQ(first.code, 0) << first.err;
  write("again.toml", first.out);
  const ShellOutcome second = run("train again.toml --print-config --json");
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.out, run("train --preset tiny --data.paths=demo --print-config --json").out);
  EXPECT_EQ(nlohmann::json::parse(second.out)["training"]["seq_len"], 128);
}

TEST_F(Program, MappedNamesAreNotedOnce) {
  const ShellOutcome outcome = run("train --preset tiny --training.max_norm=2 --print-config");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "note  training.max_norm is training.grad_clip here (--set)\n");
}

TEST_F(Program, VariablesAreNotSettings) {
  const ShellOutcome outcome = run("doctor", "SEXTANT_SEED=3");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("warn[SX2-028] variable SEXTANT_SEED"), std::string::npos)
      << outcome.err;
}

TEST_F(Program, DoctorTellsWhatIsThere) {
  const ShellOutcome text = run("doctor");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("cores"), std::string::npos);
  const auto json = nlohmann::json::parse(run("doctor --json").out);
  EXPECT_GE(json["cpu"]["cores"], 1);
  EXPECT_GT(json["memory"]["total_bytes"], 1 << 20);
  const bool torch = json["parts"]["torch"];
  EXPECT_EQ(run("doctor --require torch").code, torch ? 0 : 5);
  EXPECT_EQ(run("doctor --require torhc").code, 2);
}

TEST_F(Program, DoctorReadsARunFolder) {
  write(
      "run/run.json",
      R"({"verb": "train", "start": "2026-01-01T00:00:00Z", "command": ["sextant", "train", "a.toml"]})");
  write("run/metrics.jsonl",
        "{\"schema\":\"sextant-metrics\",\"version\":1}\n{\"step\":1,\"loss\":5.5}\n{\"step\":2,"
        "\"loss\":5.25}\n{\"step\":3,\"lo");
  write("run/ckpt/step-0000002/manifest.json", "{}");
  write("run/ckpt/.tmp-step-0000003-abc/model-00000.safetensors", "x");
  write("run/ckpt/latest", "step-0000004\n");
  const ShellOutcome outcome = run("doctor run");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"step 2  loss 5.25", "1 whole, newest step-0000002",
                           ".tmp-step-0000003-abc is a save that was not finished",
                           "latest names step-0000004", "next         sextant train a.toml"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
  EXPECT_EQ(run("doctor nowhere").code, 2);
  write("broken/run.json", "[1");
  EXPECT_EQ(run("doctor broken").code, 3);
}

TEST_F(Program, CompletionScriptsAreWellFormed) {
  write("complete.sh",
        run("completion bash").out +
            "COMP_WORDS=(sextant tok); COMP_CWORD=1; _sextant; echo \"${COMPREPLY[0]}\"\n"
            "COMP_WORDS=(sextant crawl --out); COMP_CWORD=2; _sextant; echo \"${COMPREPLY[0]}\"\n");
  FILE* pipe = popen(("bash '" + (folder_ / "complete.sh").string() + "'").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char block[256] = {};
  const std::size_t got = fread(block, 1, sizeof block - 1, pipe);
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(std::string(block, got), "tokenize\n--out\n");
  EXPECT_EQ(run("completion tcsh").code, 2);
}

TEST_F(Program, TrainingVerbsAreHandedOnUnchanged) {
  std::filesystem::copy_file(SX_PROGRAM, folder_ / "sextant");
  write("sextant-train", "#!/bin/sh\nprintf '%s|' \"$@\"\nexit 75\n");
  std::filesystem::permissions(folder_ / "sextant-train", std::filesystem::perms::owner_all);
  const std::string line = "'" + (folder_ / "sextant").string() + "' ";
  FILE* pipe =
      popen((line + "train --preset tiny --run.name='a b' --set data.paths=demo").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char block[256] = {};
  const std::size_t got = fread(block, 1, sizeof block - 1, pipe);
  EXPECT_EQ(WEXITSTATUS(pclose(pipe)), 75);
  EXPECT_EQ(std::string(block, got), "train|--preset|tiny|--run.name=a b|--set|data.paths=demo|");
  // What needs no training is answered here.
  EXPECT_EQ(WEXITSTATUS(std::system((line + "train --help >/dev/null").c_str())), 0);
  EXPECT_EQ(WEXITSTATUS(std::system((line + "train --presett x 2>/dev/null").c_str())), 2);
}

TEST_F(Program, MissingTrainingProgramIsExplained) {
  std::filesystem::copy_file(SX_PROGRAM, folder_ / "alone");
  FILE* pipe = popen(("'" + (folder_ / "alone").string() + "' sample runs/x 2>&1").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char block[1024] = {};
  const std::size_t got = fread(block, 1, sizeof block - 1, pipe);
  EXPECT_EQ(WEXITSTATUS(pclose(pipe)), 2);
  EXPECT_NE(std::string(block, got).find("SX2-005"), std::string::npos) << block;
}

TEST_F(Program, PlanMeshShowsWhoIsInWhichGroup) {
  const std::string degrees =
      "--set parallelism.pp=2 --set parallelism.dp_replicate=2 --set parallelism.dp_shard=2 --set "
      "parallelism.cp=2 --set parallelism.tp=4 --set parallelism.ep=4";
  const auto json = nlohmann::json::parse(run("plan mesh " + degrees + " --json").out);
  EXPECT_EQ(json["ranks"], 64);
  EXPECT_EQ(json["groups_named"], 216);
  EXPECT_EQ(json["groups"], 184);
  EXPECT_EQ(json["views"]["fsdp"]["groups"][0], (std::vector<int>{0, 4, 8, 12}));

  write("mesh.toml",
        "[parallelism]\ntp = 4\ndp_shard = \"auto\"\nrank_order = \"dp-tp-cp-ep-pp\"\n"
        "topology = \"${recipe}/nodes.toml\"\n");
  write("nodes.toml", "ranks_per_node = 4\n");
  const ShellOutcome outcome = run("plan mesh mesh.toml --ranks 8 --rank 5");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("rank 5: dp_shard 1 tp 2\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("  tp            1 3 5 7, network at 50 GB/s\n"), std::string::npos)
      << outcome.out;
  EXPECT_EQ(outcome.err.find("warn[SX2-029] tp = 4 leaves its island"), 0u) << outcome.err;

  const ShellOutcome wrong =
      run("plan mesh --set parallelism.tp=3 --set parallelism.ep=2 --ranks 4");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("SX2-011"), std::string::npos) << wrong.err;
  EXPECT_NE(wrong.err.find("SX2-010"), std::string::npos) << wrong.err;
}

}  // namespace
}  // namespace sx
