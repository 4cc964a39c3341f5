#include "sextant/recipe/open_run.h"

#include <gtest/gtest.h>

#include <fstream>

#include "sextant/base/fs.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

class OpenRun : public testing::Test {
 protected:
  Invocation call(std::vector<std::pair<std::string, std::string>> sets = {}) {
    Invocation made;
    made.verb = find_verb("train");
    made.sub = &made.verb->subs[0];
    made.out = (folder_ / "run").string();
    made.command = {"sextant", "train"};
    made.recipe = load_recipe({.preset = "debug", .sets = std::move(sets)}).recipe;
    return made;
  }
  static int number_of(const std::function<void()>& body) {
    try {
      body();
    } catch (const ConfigError& error) {
      return error.faults().front().number;
    }
    return 0;
  }
  TempDir folder_;
};

TEST_F(OpenRun, WritesWhatWasAskedAndWhatIsUsed) {
  const OpenedRun run = open_run(call(), Resume::kNever);
  EXPECT_FALSE(run.resumed);
  const auto resolved = load_recipe({.path = run.folder.file("recipe.resolved.toml").string()});
  EXPECT_EQ(resolved.recipe.fingerprint(), call().recipe.fingerprint());
  const auto facts = nlohmann::json::parse(read_file(run.folder.file("run.json")).value());
  EXPECT_EQ(facts["recipe_fingerprint"], call().recipe.fingerprint());
  EXPECT_EQ(facts["verb"], "train");
}

TEST_F(OpenRun, RefusesGoesOnOrOverwrites) {
  open_run(call(), Resume::kNever);
  EXPECT_EQ(number_of([&] { open_run(call(), Resume::kNever); }), 6);
  EXPECT_TRUE(open_run(call(), Resume::kIfSame).resumed);
  EXPECT_TRUE(open_run(call({{"checkpoint.keep", "7"}, {"log.level", "warn"}}), Resume::kMustExist)
                  .resumed);
  std::ofstream(folder_ / "run/old.txt") << "x";
  Invocation again = call({{"run.seed", "5"}});
  again.overwrite = true;
  EXPECT_FALSE(open_run(again, Resume::kIfSame).resumed);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/old.txt"));
}

TEST_F(OpenRun, ListsEveryKeyThatDiffers) {
  open_run(call(), Resume::kNever);
  try {
    open_run(call({{"run.seed", "5"}, {"optimizer.lr", "1"}, {"checkpoint.keep", "9"}}),
             Resume::kIfSame);
    FAIL();
  } catch (const ConfigError& error) {
    ASSERT_EQ(error.faults().size(), 3u) << error.what();
    EXPECT_EQ(error.faults()[0].number, 20);
    EXPECT_EQ(error.faults()[0].what, "run.seed = 5 differs from the run's 1");
  }
}

TEST_F(OpenRun, GoesOnAfterADeathBeforeTheRecipeWasWritten) {
  std::filesystem::create_directories(folder_ / "run/log");
  EXPECT_FALSE(open_run(call(), Resume::kIfSame).resumed);
  std::filesystem::remove(folder_ / "run/recipe.resolved.toml");
  EXPECT_FALSE(open_run(call({{"run.seed", "8"}}), Resume::kIfSame).resumed);
  EXPECT_TRUE(open_run(call({{"run.seed", "8"}}), Resume::kIfSame).resumed);
}

TEST_F(OpenRun, NeverTouchesAFolderThatIsNoRun) {
  std::filesystem::create_directories(folder_ / "run");
  std::ofstream(folder_ / "run/thesis.tex") << "x";
  Invocation forced = call();
  forced.overwrite = true;
  EXPECT_EQ(number_of([&] { open_run(forced, Resume::kNever); }), 6);
  EXPECT_EQ(number_of([&] { open_run(call(), Resume::kIfSame); }), 6);
  EXPECT_EQ(number_of([&] { open_run(call(), Resume::kMustExist); }), 7);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/thesis.tex"));
}

}  // namespace
}  // namespace sx
