#include "sextant/recipe/load.h"

#include <gtest/gtest.h>

#include <fstream>

#include "sextant/recipe/model_shape.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

class RecipeFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  static std::string all(const LoadedRecipe& loaded) {
    std::string text;
    for (const Diagnostic& fault : loaded.faults) text += fault.to_string() + "\n";
    return text;
  }
  TempDir folder_;
};

TEST_F(RecipeFiles, LaterSourcesWin) {
  write("base.toml", "[training]\nsteps = 100\nseq_len = 64\nmicro_batch_size = 3\n");
  const std::string path = write(
      "run.toml", "include = [\"base.toml\"]\n[training]\nseq_len = 32\nmicro_batch_size = 4\n");
  const LoadedRecipe loaded =
      load_recipe({.preset = "tiny", .path = path, .sets = {{"training.micro_batch_size", "5"}}});
  ASSERT_TRUE(loaded.faults.empty()) << all(loaded);
  EXPECT_EQ(loaded.recipe->model.num_layers, 4);
  EXPECT_EQ(loaded.recipe->training.steps, 100);
  EXPECT_EQ(loaded.recipe->training.seq_len, 32);
  EXPECT_EQ(loaded.recipe->training.micro_batch_size, 5);
  EXPECT_EQ(loaded.recipe.source("training.micro_batch_size"), "--set");
  EXPECT_EQ(loaded.recipe.source("training.seq_len"), path + ":3");
  EXPECT_EQ(loaded.recipe.source("training.steps"), (folder_ / "base.toml").string() + ":2");
  EXPECT_EQ(loaded.recipe.source("model.num_layers"), "preset tiny:8");
  EXPECT_EQ(loaded.recipe.source("optimizer.beta1"), "default");
  EXPECT_EQ(loaded.recipe.source("lr_scheduler.decay_steps"), "derived");
}

TEST_F(RecipeFiles, AllFaultsAtOnceWithTheirLines) {
  const std::string path = write("bad.toml",
                                 "[training]\nsteps = \"many\"\nseq_len = 0\nmicro_batch_siez = 4\n"
                                 "[model]\nactivation = \"tanh\"\n[modle]\nhidden = 3\n");
  const LoadedRecipe loaded = load_recipe({.path = path});
  ASSERT_EQ(loaded.faults.size(), 5u) << all(loaded);
  const std::string text = all(loaded);
  for (const char* part :
       {":2 (training.steps)", ":3 (training.seq_len)", ":4 (training.micro_batch_siez)",
        ":6 (model.activation)", ":8 (modle.hidden)", "did you mean training.micro_batch_size?",
        "did you mean model.hidden?"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST_F(RecipeFiles, JsonGivesTheSameRecipeAndLines) {
  const std::string toml = write("a.toml",
                                 "[run]\nname = \"x\"\nseed = 7\n[crawl.html]\nmax_depth = "
                                 "64\n[crawl]\nselect.status = [200, 203]\n");
  const std::string json =
      write("b.json",
            "{\n  \"run\": {\"name\": \"x\", \"seed\": 7},\n  \"crawl\": {\n    \"html\": "
            "{\"max_depth\": 64},\n    \"select\": {\"status\": [200, 203]}\n  }\n}\n");
  const LoadedRecipe a = load_recipe({.path = toml});
  const LoadedRecipe b = load_recipe({.path = json});
  ASSERT_TRUE(a.faults.empty()) << all(a);
  ASSERT_TRUE(b.faults.empty()) << all(b);
  EXPECT_EQ(a.recipe.fingerprint(), b.recipe.fingerprint());
  EXPECT_EQ(b.recipe.source("crawl.html.max_depth"), json + ":4");
  EXPECT_EQ(b.recipe.source("crawl.select.status"), json + ":5");
}

TEST_F(RecipeFiles, BrokenFilesAreOneFaultEach) {
  std::string endless;
  for (int i = 0; i < 200'000; ++i) endless += "a.";
  const std::pair<const char*, std::string> files[] = {
      {"a.toml", "[training\nsteps = 1\n"},
      {"b.toml", "a = 1\na = 2\n"},
      {"c.json", "{\"run\": {\"seed\": 1,}}"},
      {"d.json", "[1, 2]"},
      {"e.json", "7"},
      {"f.yaml", "run:\n  seed: 1\n"},
      {"g.json", "{\"run\": {\"seed\": 1, \"seed\": 2}}"},
      {"h.toml", "include = [\"h.toml\"]\n"},
      {"i.toml", "include = [\"no/such.toml\"]\n"},
      {"j.toml", "include = 3\n"},
      {"k.toml", endless + "b = 1\n"},
      {"l.toml", "[" + endless + "b]\nc = 1\n"}};
  for (const auto& [name, text] : files) {
    const LoadedRecipe loaded = load_recipe({.path = write(name, text)});
    EXPECT_EQ(loaded.faults.size(), 1u) << name << "\n" << all(loaded);
  }
  EXPECT_EQ(load_recipe({.path = (folder_ / "none.toml").string()}).faults.at(0).number, 7);
  const LoadedRecipe yaml = load_recipe({.path = (folder_ / "f.yaml").string()});
  EXPECT_NE(all(yaml).find("TOML"), std::string::npos);
}

TEST_F(RecipeFiles, IncludeCyclesAndDepthAreFaults) {
  write("a.toml", "include = [\"b.toml\"]\n");
  write("b.toml", "include = [\"a.toml\"]\n");
  const LoadedRecipe cycle = load_recipe({.path = (folder_ / "a.toml").string()});
  ASSERT_EQ(cycle.faults.size(), 1u);
  EXPECT_NE(all(cycle).find("includes itself"), std::string::npos) << all(cycle);

  for (int i = 0; i < 12; ++i) {
    write("d" + std::to_string(i) + ".toml",
          "include = [\"d" + std::to_string(i + 1) + ".toml\"]\n");
  }
  write("d12.toml", "[run]\nseed = 2\n");
  const LoadedRecipe deep = load_recipe({.path = (folder_ / "d0.toml").string()});
  ASSERT_EQ(deep.faults.size(), 1u);
  EXPECT_NE(all(deep).find("nested too deeply"), std::string::npos) << all(deep);
  EXPECT_TRUE(load_recipe({.path = (folder_ / "d4.toml").string()}).faults.empty());
  // The same file twice, side by side, is no cycle.
  write("twice.toml", "include = [\"d12.toml\", \"d12.toml\"]\n");
  EXPECT_TRUE(load_recipe({.path = (folder_ / "twice.toml").string()}).faults.empty());
}

TEST_F(RecipeFiles, ResolvedRecipeReadsBackWithTheSameFingerprint) {
  const std::vector<std::vector<std::pair<std::string, std::string>>> cases{
      {},
      {{"run.seed", "18446744073709551615"}, {"run.name", "a \"quoted\" name"}},
      {{"training.tokens", "1000000"},
       {"training.seq_len", "96"},
       {"training.global_batch_size", "16"}},
      {{"comm.timeout", "250ms"}, {"crawl.max_payload", "12345B"}, {"checkpoint.interval", "90s"}},
      {{"model.preset", "gpt2-124m"}, {"training.seq_len", "1024"}, {"training.steps", "3"}},
      {{"data.paths", "[\"a b\", \"c\"]"}, {"optimizer.lr", "0.1"}, {"optimizer.eps", "1e-300"}}};
  for (const auto& sets : cases) {
    for (const char* preset : {"", "tiny", "debug"}) {
      if (std::string(preset) != "" && !sets.empty() &&
          (sets[0].first == "model.preset" || sets[0].first == "training.tokens"))
        continue;
      const LoadedRecipe first = load_recipe({.preset = preset, .sets = sets});
      ASSERT_TRUE(first.faults.empty()) << all(first);
      const LoadedRecipe again =
          load_recipe({.path = write("resolved.toml", first.recipe.to_toml())});
      ASSERT_TRUE(again.faults.empty()) << all(again) << first.recipe.to_toml();
      EXPECT_EQ(again.recipe.fingerprint(), first.recipe.fingerprint());
      EXPECT_TRUE(diff(first.recipe, again.recipe).empty());
      const LoadedRecipe json =
          load_recipe({.path = write("resolved.json", first.recipe.to_json().dump(1))});
      ASSERT_TRUE(json.faults.empty()) << all(json);
      EXPECT_EQ(json.recipe.fingerprint(), first.recipe.fingerprint());
    }
  }
}

TEST_F(RecipeFiles, PathsKnowTheRecipesFolder) {
  const std::string path =
      write("sub/r.toml", "[data]\npaths = [\"${recipe}/x\", \"${run}/y\", \"${home}/z\"]\n");
  const LoadedRecipe loaded = load_recipe({.path = path});
  ASSERT_EQ(loaded.faults.size(), 1u) << all(loaded);
  EXPECT_NE(all(loaded).find("${home}"), std::string::npos);
  EXPECT_EQ(loaded.recipe->data.paths.at(0), (folder_ / "sub").string() + "/x");
  EXPECT_EQ(ResolvedRecipe::expand_run(loaded.recipe->data.paths.at(1), "runs/a"), "runs/a/y");
}

TEST(RecipeSets, BareStringsAndTypedValues) {
  const LoadedRecipe loaded =
      load_recipe({.sets = {{"data.paths", "demo"},
                            {"run.name", "2024-01-01"},
                            {"tokenizer.path", "8"},
                            {"crawl.select.types", "[\"response\", \"resource\"]"},
                            {"metrics.jsonl", "false"}}});
  ASSERT_TRUE(loaded.faults.empty());
  EXPECT_EQ(loaded.recipe->data.paths, std::vector<std::string>{"demo"});
  EXPECT_EQ(loaded.recipe->run.name, "2024-01-01");
  EXPECT_EQ(loaded.recipe->tokenizer.path, "8");
  EXPECT_EQ(loaded.recipe->crawl.select.types.size(), 2u);
  EXPECT_FALSE(loaded.recipe->metrics.jsonl);
}

TEST_F(RecipeFiles, UnitsMayDiffer) {
  const std::string path = write("units.toml",
                                 "[[parallelism.dp.overrides]]\n"
                                 "unit = \"tok_embeddings\"\nzero = \"zero1\"\n"
                                 "[[parallelism.dp.overrides]]\n"
                                 "unit = \"layers.*\"\nreshard_after_forward = 2\n"
                                 "param_dtype = \"bf16\"\ncast_inputs = false\n");
  const LoadedRecipe loaded = load_recipe({.path = path});
  ASSERT_TRUE(loaded.faults.empty()) << all(loaded);
  const std::vector<DpOverride>& units = loaded.recipe->parallelism.dp.overrides;
  ASSERT_EQ(units.size(), 2U);
  EXPECT_EQ(units[0], (DpOverride{.unit = "tok_embeddings", .zero = Zero::kZero1}));
  EXPECT_EQ(units[1].param_dtype, DtypeOrAuto::kBf16);
  EXPECT_EQ(units[1].reshard_after_forward->text, "2");
  EXPECT_EQ(units[1].cast_inputs, false);
  const LoadedRecipe again = load_recipe({.path = write("resolved.toml", loaded.recipe.to_toml())});
  ASSERT_TRUE(again.faults.empty()) << all(again);
  EXPECT_EQ(again.recipe->parallelism.dp.overrides, units);
  EXPECT_EQ(again.recipe.fingerprint(), loaded.recipe.fingerprint());
  for (const char* wrong :
       {"[{zero = \"ddp\"}]", "[{unit = \"a\", zero = \"zero9\"}]", "[{unit = \"a\", size = 3}]",
        "[{unit = \"\"}]", "[3]", "{unit = \"a\"}",
        "[{unit = \"a\", reshard_after_forward = \"soon\"}]"}) {
    const LoadedRecipe bad = load_recipe({.sets = {{"parallelism.dp.overrides", wrong}}});
    ASSERT_EQ(bad.faults.size(), 1U) << wrong;
    EXPECT_EQ(bad.faults[0].number, 2) << wrong;
  }
  const LoadedRecipe typed = load_recipe(
      {.sets = {{"parallelism.dp.overrides", "[{unit = \"layers.0\", wire = \"a2a_fp32\"}]"}}});
  ASSERT_TRUE(typed.faults.empty()) << all(typed);
  EXPECT_EQ(typed.recipe->parallelism.dp.overrides.at(0).wire, DpWire::kA2aFp32);
}

TEST(RecipeSets, TorchtitanNamesAreMappedAndNoted) {
  const LoadedRecipe loaded =
      load_recipe({.sets = {{"training.max_norm", "2.5"},
                            {"parallelism.data_parallel_replicate_degree", "2"},
                            {"lr_scheduler.decay_type", "linear"},
                            {"checkpoint.folder", "saves"},
                            {"training.mixed_precision_param", "bfloat16"},
                            {"optimizer.name", "AdamW"},
                            {"metrics.log_freq", "3"}}});
  ASSERT_TRUE(loaded.faults.empty()) << loaded.faults[0].to_string();
  EXPECT_DOUBLE_EQ(loaded.recipe->training.grad_clip, 2.5);
  EXPECT_EQ(loaded.recipe->parallelism.dp_replicate, 2);
  EXPECT_EQ(loaded.recipe->lr_scheduler.decay, Decay::kLinear);
  EXPECT_EQ(loaded.recipe->checkpoint.dir, "saves");
  EXPECT_EQ(loaded.recipe->training.dtype, Dtype::kBf16);
  EXPECT_EQ(loaded.recipe->metrics.log_every, 3);
  EXPECT_EQ(loaded.notes.size(), 6u);
}

TEST(RecipeSets, TwoNamesWithTwoValuesAreAConflict) {
  const LoadedRecipe conflict =
      load_recipe({.sets = {{"training.max_norm", "2"}, {"training.grad_clip", "1"}}});
  ASSERT_EQ(conflict.faults.size(), 1u);
  EXPECT_EQ(conflict.faults[0].number, 4);
  EXPECT_NE(conflict.faults[0].what.find("training.max_norm = 2 and training.grad_clip = 1"),
            std::string::npos);
  EXPECT_TRUE(load_recipe({.sets = {{"training.max_norm", "2"}, {"training.grad_clip", "2"}}})
                  .faults.empty());
  EXPECT_TRUE(load_recipe({.sets = {{"run.seed", "1"}, {"run.seed", "2"}}}).faults.empty());
}

TEST(RecipeRules, JoinedKeysAreChecked) {
  struct Case {
    int number;
    std::vector<std::pair<std::string, std::string>> sets;
  };
  const Case cases[] = {
      {15, {{"training.global_batch_size", "9"}}},
      {15, {{"parallelism.dp_replicate", "3"}, {"training.global_batch_size", "32"}}},
      {10, {{"comm.transport", "solo"}, {"parallelism.dp_replicate", "2"}}},
      {13, {{"model.num_heads", "5"}}},
      {13, {{"model.head_dim", "7"}}},
      {17, {{"model.num_heads_kv", "3"}}},
      {3, {{"lr_scheduler.warmup_steps", "1000"}}},
      {3, {{"training.seq_len", "512"}}},
      {3, {{"data.split", "1,2"}}},
      {3, {{"data.split", "0,0,0"}}},
      {3, {{"model.preset", "gpt5"}}},
      {5, {{"model.preset", "mixtral-8x7b"}}},
      {4, {{"training.tokens", "12345678"}}},
      {4, {{"model.preset", "gpt2-124m"}}},
      {3, {{"parallelism.zero", "zero3"}}},
      {3, {{"training.loss_scale.min", "1e6"}}},
  };
  for (const Case& one : cases) {
    const LoadedRecipe loaded = load_recipe({.preset = "tiny", .sets = one.sets});
    ASSERT_EQ(loaded.faults.size(), 1u)
        << one.sets[0].first << " " << one.sets[0].second
        << (loaded.faults.empty() ? "" : loaded.faults.back().to_string());
    EXPECT_EQ(loaded.faults[0].number, one.number) << loaded.faults[0].to_string();
    EXPECT_FALSE(loaded.faults[0].rule.empty());
  }
}

TEST(RecipeRules, DerivesWhatWasLeftOut) {
  const LoadedRecipe loaded = load_recipe({.preset = "tiny",
                                           .sets = {{"parallelism.dp_replicate", "2"},
                                                    {"lr_scheduler.stable_ratio", "0.5"},
                                                    {"run.seed", "9"}}});
  ASSERT_TRUE(loaded.faults.empty());
  EXPECT_EQ(loaded.recipe->training.global_batch_size, 16);
  EXPECT_EQ(loaded.recipe->training.tokens, 200 * 16 * 128);
  EXPECT_EQ(loaded.recipe->lr_scheduler.decay_steps, 200 - 20 - 100);
  EXPECT_EQ(loaded.recipe->data.shuffle_seed, 9u);
  EXPECT_EQ(loaded.recipe->model.head_dim, 32);
  const LoadedRecipe tokens = load_recipe({.sets = {{"training.tokens", "1000"},
                                                    {"training.seq_len", "64"},
                                                    {"training.micro_batch_size", "4"}}});
  EXPECT_EQ(tokens.recipe->training.steps, 4) << "1000 tokens, 256 a step";
}

TEST(RecipeRules, ModelPresetGivesTheShape) {
  const LoadedRecipe loaded =
      load_recipe({.sets = {{"model.preset", "gpt2-124m"}, {"model.num_layers", "2"}}});
  ASSERT_TRUE(loaded.faults.empty()) << loaded.faults[0].to_string();
  const ModelShape shape = to_model_shape(loaded.recipe.get(), 50257);
  EXPECT_EQ(shape.num_layers, 2);
  EXPECT_EQ(shape.hidden, 768);
  EXPECT_EQ(shape.arch, Arch::kGpt2);
  EXPECT_EQ(shape.positions, Positions::kLearned);
  EXPECT_TRUE(shape.tie_embeddings);
  EXPECT_TRUE(shape.validate().empty());
}

// A folder of Hugging Face gives the shape, and its positions stay whatever the sequences.
TEST(RecipeRules, HuggingFaceFolderGivesTheShape) {
  const std::string folder = "hf:" + source_file("tests/golden/reference/hf/gpt2").string();
  for (const char* key : {"model.preset", "checkpoint.load"}) {
    const LoadedRecipe loaded =
        load_recipe({.sets = {{key, folder}, {"training.seq_len", "16"}, {"training.steps", "1"}}});
    ASSERT_TRUE(loaded.faults.empty()) << loaded.faults[0].to_string();
    const ModelShape shape = to_model_shape(loaded.recipe.get(), 0);
    EXPECT_EQ(shape.arch, Arch::kGpt2);
    EXPECT_EQ(shape.max_positions, 64);
    EXPECT_EQ(shape.vocab_size, 37);
    EXPECT_TRUE(shape.qkv_bias);
    EXPECT_EQ(loaded.recipe->model.preset, folder);
  }
  const LoadedRecipe absent = load_recipe({.sets = {{"model.preset", "hf:/absent"}}});
  ASSERT_FALSE(absent.faults.empty());
  EXPECT_EQ(absent.faults[0].number, 7);
}

TEST(RecipeRules, WhoOnlyEvaluatesNeedsNoStepsAndTakesAllData) {
  const std::vector<std::string> groups{"model", "training", "data"};
  const LoadedRecipe loaded =
      load_recipe({.preset = "debug", .required_groups = groups, .only_evaluates = true});
  ASSERT_TRUE(loaded.faults.empty()) << loaded.faults[0].to_string();
  EXPECT_EQ(loaded.recipe->metrics.eval_steps, 2) << "what the preset says";
  const LoadedRecipe bare = load_recipe({.sets = {{"model.preset", "llama3-8b"}},
                                         .required_groups = groups,
                                         .only_evaluates = true});
  ASSERT_TRUE(bare.faults.empty()) << bare.faults[0].to_string();
  EXPECT_EQ(bare.recipe->training.seq_len, 1024);
  EXPECT_EQ(bare.recipe->metrics.eval_steps, 0);
}

TEST(RecipeRules, CompletenessIsAskedForByGroup) {
  EXPECT_TRUE(load_recipe({}).faults.empty());
  EXPECT_TRUE(load_recipe({.required_groups = {"crawl", "run"}}).faults.empty());
  const LoadedRecipe bare = load_recipe({.required_groups = {"model", "training", "data"}});
  EXPECT_EQ(bare.faults.size(), 6u);
  for (const Diagnostic& fault : bare.faults) EXPECT_EQ(fault.number, 25);
  EXPECT_TRUE(load_recipe({.preset = "debug", .required_groups = {"model", "training", "data"}})
                  .faults.empty());
}

TEST(Fingerprint, IgnoresCosmeticKeysOnly) {
  const std::string base = load_recipe({.preset = "tiny"}).recipe.fingerprint();
  EXPECT_EQ(base.size(), 32u);
  EXPECT_EQ(load_recipe({.preset = "tiny", .sets = {{"log.level", "debug"}, {"run.threads", "7"}}})
                .recipe.fingerprint(),
            base);
  EXPECT_NE(load_recipe({.preset = "tiny", .sets = {{"run.seed", "2"}}}).recipe.fingerprint(),
            base);
}

TEST(Fingerprint, DiffNamesKeysAndWhetherARunMayGoOn) {
  const auto a = load_recipe({.preset = "tiny"}).recipe;
  const auto b =
      load_recipe({.preset = "tiny", .sets = {{"run.seed", "2"}, {"checkpoint.keep", "9"}}}).recipe;
  const std::vector<RecipeDifference> found = diff(a, b);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].key, "run.seed");
  EXPECT_EQ(found[0].left, "1");
  EXPECT_EQ(found[0].right, "2");
  EXPECT_FALSE(found[0].resumable);
  EXPECT_EQ(found[1].key, "checkpoint.keep");
  EXPECT_TRUE(found[1].resumable);
  EXPECT_EQ(found[2].key, "data.shuffle_seed");
}

TEST(Presets, AreSoundAndTiny) {
  for (const std::string& name : recipe_preset_names()) {
    const LoadedRecipe loaded = load_recipe({.preset = name,
                                             .sets = {{"data.paths", "demo"}},
                                             .required_groups = {"model", "training", "data"}});
    EXPECT_TRUE(loaded.faults.empty()) << name;
  }
  EXPECT_EQ(recipe_preset_names(), (std::vector<std::string>{"debug", "demo", "tiny"}));
  const LoadedRecipe unknown = load_recipe({.preset = "tyni"});
  ASSERT_EQ(unknown.faults.size(), 1u);
  EXPECT_NE(unknown.faults[0].what.find("did you mean tiny?"), std::string::npos);
}

}  // namespace
}  // namespace sx
