#include "sextant/recipe/command_line.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "sextant/base/rng.h"

namespace sx {
namespace {

ParsedCommandLine parse(std::vector<std::string> words, Program program = Program::kSextant) {
  words.insert(words.begin(), "sextant");
  return parse_command_line(program, words);
}

std::string faults_of(const ParsedCommandLine& parsed) {
  std::string text;
  for (const Diagnostic& fault : parsed.faults) text += fault.to_string() + "\n";
  return text;
}

Invocation good(std::vector<std::string> words) {
  ParsedCommandLine parsed = parse(std::move(words));
  EXPECT_TRUE(parsed.faults.empty()) << faults_of(parsed);
  return parsed.invocation;
}

TEST(CommandLine, FindsVerbSubVerbRecipeAndInputs) {
  const Invocation run = good({"crawl", "a.toml", "x.warc.gz", "@list.txt", "-"});
  EXPECT_EQ(run.verb->name, "crawl");
  EXPECT_EQ(run.sub->name, "run");
  EXPECT_FALSE(run.sub_given);
  EXPECT_EQ(run.recipe_path, "a.toml");
  EXPECT_EQ(run.inputs, (std::vector<std::string>{"x.warc.gz", "@list.txt", "-"}));
  ASSERT_EQ(run.sets.size(), 1u) << "inputs stand for crawl.inputs";
  EXPECT_EQ(run.sets[0].first, "crawl.inputs");

  const Invocation verify = good({"crawl", "verify", "runs/x"});
  EXPECT_EQ(verify.sub->name, "verify");
  EXPECT_EQ(verify.inputs, std::vector<std::string>{"runs/x"});
  EXPECT_EQ(good({"tokenizer", "decode"}).verb->name, "tokenize") << "alias";
}

TEST(CommandLine, TakesEveryFormOfAFlag) {
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"crawl", "x", "--out", "d"},
                                             {"crawl", "x", "--out=d"},
                                             {"--out", "d", "crawl", "x"},
                                             {"--out=d", "crawl", "run", "x"}}) {
    EXPECT_EQ(good(words).out, "d");
  }
  const Invocation sets = good(
      {"train", "--set", "run.seed=2", "--run.seed=3", "--run.seed", "4", "--set=run.name=a=b"});
  const std::vector<std::pair<std::string, std::string>> expected{
      {"run.seed", "2"}, {"run.seed", "3"}, {"run.seed", "4"}, {"run.name", "a=b"}};
  EXPECT_EQ(sets.sets, expected);
  const Invocation typed =
      good({"sample", "runs/x", "--max-tokens", "1k", "--temperature=0.5", "--prompt", "-1 is"});
  EXPECT_EQ(typed.integer("max-tokens", 7), 1000);
  EXPECT_DOUBLE_EQ(typed.number("temperature", 1), 0.5);
  EXPECT_EQ(typed.text("prompt"), "-1 is");
  EXPECT_EQ(typed.integer("num", 7), 7);
  EXPECT_EQ(good({"doctor", "--require", "a", "--require=b"}).texts("require"),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(good({"tokenize", "train", "x", "--vocab-size", "8k"}).sets[0],
            (std::pair<std::string, std::string>{"tokenizer.vocab_size", "8k"}));
}

TEST(CommandLine, DoubleDashEndsFlags) {
  const Invocation call = good({"crawl", "run", "--quiet", "--", "--strange", "-x"});
  EXPECT_TRUE(call.quiet);
  EXPECT_EQ(call.inputs, (std::vector<std::string>{"--strange", "-x"}));
}

TEST(CommandLine, EveryGlobalSwitchIsRead) {
  EXPECT_TRUE(good({"-h"}).help);
  EXPECT_TRUE(good({"--version", "--json"}).json);
  EXPECT_TRUE(good({"train", "--help-recipe"}).help_recipe);
  const Invocation all =
      good({"train", "--print-config", "--validate", "--dry-run", "--explain-step", "--quiet",
            "--yes", "--overwrite", "--color", "never", "--preset", "tiny"});
  EXPECT_TRUE(all.print_config && all.validate && all.dry_run && all.explain_step && all.quiet &&
              all.yes && all.overwrite);
  EXPECT_EQ(all.color, ColorMode::kNever);
  EXPECT_EQ(all.preset, "tiny");
}

TEST(CommandLine, FaultsHaveNumbersAndHints) {
  const struct {
    std::vector<std::string> words;
    int number;
    const char* part;
  } cases[] = {
      {{"crwal"}, 1, "did you mean crawl?"},
      {{"crawl", "verfiy", "x"}, 1, "did you mean verify?"},
      {{"data", "nonsense"}, 1, "data has inspect"},
      {{"data"}, 25, "needs a sub-verb"},
      {{"train", "--presett=tiny"}, 1, "did you mean --preset?"},
      {{"train", "-p", "tiny"}, 1, "only short one is -h"},
      {{"train", "--out"}, 25, "--out needs a value"},
      {{"train", "--out", "--quiet"}, 25, "--out needs a value"},
      {{"train", "--run.seed"}, 25, "--run.seed needs a value"},
      {{"train", "--quiet=yes"}, 2, "takes no value"},
      {{"train", "--out", "a", "--out", "b"}, 4, "stands twice"},
      {{"train", "--set", "seed"}, 2, "--set KEY=VALUE"},
      {{"train", "--color", "pink"}, 2, "one of auto, always, never"},
      {{"train", "a.toml", "b.toml"}, 27, "no use for b.toml"},
      {{"sample"}, 25, "sample needs RUN"},
      {{"sample", "x", "--max-tokens", "ten"}, 2, "a whole number"},
      {{"sample", "x", "--temperature", "warm"}, 2, "a number"},
      {{"sample", "x", "--temperature", "nan"}, 2, "a number, 0 or more"},
      {{"sample", "x", "--temperature", "inf"}, 2, "a number, 0 or more"},
      {{"sample", "x", "--temperature", "-1"}, 2, "a number, 0 or more"},
      {{"sample", "x", "--top-p", "0"}, 2, "to 1"},
      {{"tokenize", "pack", "x", "--heldout-share", "1.5"}, 2, "a number, 0 to 1"},
      {{"doctor", "--set", "run.seed=1"}, 4, "takes no recipe"},
      {{"tokenize", "encode", "--special", "maybe"}, 2, "one of text, allow, error"},
  };
  for (const auto& one : cases) {
    const ParsedCommandLine parsed = parse(one.words);
    ASSERT_EQ(parsed.faults.size(), 1u) << one.part << "\n" << faults_of(parsed);
    EXPECT_EQ(parsed.faults[0].number, one.number) << faults_of(parsed);
    EXPECT_NE(faults_of(parsed).find(one.part), std::string::npos) << faults_of(parsed);
    EXPECT_EQ(parsed.faults[0].exit, ExitCode::kUser);
    EXPECT_FALSE(parsed.faults[0].next.empty());
  }
}

TEST(CommandLine, AllFaultsAtOnce) {
  const auto parsed = parse({"train", "--out", "a", "--out=b", "--color=pink", "--set", "x", "y"});
  EXPECT_EQ(parsed.faults.size(), 4u) << faults_of(parsed);
}

/// A slip of one character in a flag or verb of a valid line gives one fault that names what was
/// meant.
TEST(CommandLine, TwoHundredMutatedLines) {
  const std::vector<std::vector<std::string>> lines{
      {"crawl", "run", "x.warc", "--out", "d", "--overwrite", "--quiet"},
      {"tokenize", "encode", "f.txt", "--special", "text", "--pieces"},
      {"train", "--preset", "tiny", "--print-config"},
      {"data", "inspect", "prefix", "--full"},
      {"sample", "runs/x", "--max-tokens", "5", "--temperature", "0.5"},
      {"doctor", "--require", "torch", "--color", "never"}};
  const RandomStream random(20, "mutations");
  std::uint64_t draw = 0;
  int hinted = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> words = lines[static_cast<std::size_t>(round) % lines.size()];
    std::vector<std::size_t> targets;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (i == 0 || words[i].starts_with("--")) targets.push_back(i);
    }
    std::string& word = words[targets[random.u64(draw++) % targets.size()]];
    const std::string before = word;
    const std::size_t first = word.starts_with("--") ? 2 : 0;
    const std::size_t at = first + random.u64(draw++) % (word.size() - first);
    switch (random.u64(draw++) % 4) {
      case 0: word.erase(at, 1); break;
      case 1: word.insert(at, 1, static_cast<char>('a' + random.u64(draw++) % 26)); break;
      case 2: word[at] = static_cast<char>('a' + random.u64(draw++) % 26); break;
      default:
        if (at + 1 < word.size()) std::swap(word[at], word[at + 1]);
    }
    if (word == before || word.starts_with("-") != before.starts_with("-")) continue;
    const ParsedCommandLine parsed = parse(words);
    ASSERT_FALSE(parsed.faults.empty()) << before << " -> " << word;
    int hints = 0;
    for (const Diagnostic& fault : parsed.faults) {
      EXPECT_EQ(fault.exit, ExitCode::kUser);
      hints += fault.what.find("did you mean") != std::string::npos;
    }
    EXPECT_EQ(hints, 1) << before << " -> " << word << "\n" << faults_of(parsed);
    ++hinted;
  }
  EXPECT_GT(hinted, 150);
}

/// Random words: faults or not, but no crash, and every fault is complete.
TEST(CommandLine, RandomWordsNeverCrash) {
  const std::vector<std::string> words{"crawl",    "train",
                                       "run",      "--set",
                                       "--",       "-",
                                       "=",        "--=",
                                       "--a.b",    "--a.=",
                                       "@",        "x.toml",
                                       "--out",    "",
                                       "--help",   "-h",
                                       "--json",   "--set=",
                                       "--color=", "data",
                                       "inspect",  "--vocab-size",
                                       "\xff\xfe", "a\nb",
                                       "--\x01",   "99999999999999999999"};
  const RandomStream random(21, "words");
  std::uint64_t draw = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> line;
    const std::size_t length = random.u64(draw++) % 7;
    for (std::size_t i = 0; i < length; ++i)
      line.push_back(words[random.u64(draw++) % words.size()]);
    for (const Diagnostic& fault : parse(line).faults) {
      ASSERT_FALSE(fault.what.empty());
      ASSERT_FALSE(fault.rule.empty());
      ASSERT_EQ(fault.exit, ExitCode::kUser);
    }
  }
}

TEST(CommandLine, TableIsSound) {
  for (const Verb& verb : verb_table()) {
    EXPECT_EQ(find_verb(verb.name), &verb);
    ASSERT_FALSE(verb.subs.empty());
    for (const SubVerb& sub : verb.subs) {
      EXPECT_EQ(sub.summary.back(), '.') << verb.name;
      EXPECT_FALSE(sub.example.empty()) << verb.name << " " << sub.name;
      EXPECT_LE(sub.min_inputs, sub.max_inputs);
      for (const FlagSpec& flag : sub.flags) {
        EXPECT_EQ(flag.value == FlagSpec::Value::kNone, flag.value_name.empty()) << flag.name;
      }
    }
  }
}

TEST(Completion, ScriptsNameEveryVerbAndFlag) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion_script(shell);
    for (const Verb& verb : verb_table()) {
      EXPECT_NE(script.find(verb.name), std::string::npos) << shell;
      for (const SubVerb& sub : verb.subs) {
        for (const FlagSpec& flag : sub.flags)
          EXPECT_NE(script.find(flag.name), std::string::npos) << shell << flag.name;
      }
    }
  }
  EXPECT_EQ(completion_script("tcsh"), "");
}

}  // namespace
}  // namespace sx
