#include "sextant/token/vocab_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "sextant/base/fs.h"
#include "sextant/base/hash.h"
#include "sextant/base/thread_pool.h"
#include "sextant/token/hf_json.h"
#include "sextant/token/piece_counter.h"
#include "sextant/token/text_source.h"
#include "sextant/token/tiktoken_file.h"
#include "sextant/token/unicode_classes.h"

namespace sx {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kBatchBytes = std::uint64_t{8} << 20;
constexpr std::size_t kRunsPerLevel = 8;

// What the result depends on, besides the bytes of the inputs (their names and sizes stand for
// them).
ordered_json facts_of(const VocabTrainingOptions& options) {
  ordered_json facts;
  facts["format"] = 1;
  facts["split"] = to_string(options.bpe.split.family());
  if (options.bpe.split.compiled() != nullptr) facts["pattern"] = options.bpe.split.pattern();
  facts["unicode"] = unicode_version();
  facts["vocab_size"] = options.bpe.vocab_size;
  facts["min_frequency"] = options.bpe.min_frequency;
  facts["max_token_length"] = options.bpe.max_token_length;
  facts["special_tokens"] = options.bpe.specials;
  facts["ties"] = options.bpe.tie == TieRule::kSmallestIds ? "smallest ids" : "greatest bytes";
  facts["text_key"] = options.text_key;
  facts["inputs"] = ordered_json::array();
  for (const auto& input : options.inputs) {
    std::error_code ignored;
    facts["inputs"].push_back(
        {{"path", input.string()}, {"bytes", std::filesystem::file_size(input, ignored)}});
  }
  return facts;
}

struct Run {
  std::string name;
  std::uint64_t level = 0;
};

// state/progress.json: how far counting has come, and which files of counts belong to it.
struct TrainingState {
  std::string tag;
  bool counted = false;
  TextSource::Place place;
  std::uint64_t documents = 0;
  std::uint64_t documents_bad = 0;
  std::vector<std::string> bad_examples;
  std::uint64_t text_bytes = 0;
  std::uint64_t next_run = 0;
  std::vector<Run> runs;
  std::uint64_t merges_saved = 0;
  std::uint64_t resumes = 0;
  std::uint64_t max_repeated_bytes = 0;
  std::uint64_t max_repeated_merges = 0;

  ordered_json to_json() const {
    ordered_json tree{{"tag", tag},
                      {"counted", counted},
                      {"file_idx", place.file_idx},
                      {"text_idx", place.text_idx},
                      {"documents", documents},
                      {"documents_bad", documents_bad},
                      {"bad_examples", bad_examples},
                      {"text_bytes", text_bytes},
                      {"next_run", next_run},
                      {"runs", ordered_json::array()},
                      {"merges_saved", merges_saved},
                      {"resumes", resumes},
                      {"max_repeated_bytes", max_repeated_bytes},
                      {"max_repeated_merges", max_repeated_merges}};
    for (const Run& run : runs) tree["runs"].push_back({{"name", run.name}, {"level", run.level}});
    return tree;
  }

  static std::optional<TrainingState> from_json(const ordered_json& tree) try {
    TrainingState p;
    p.tag = tree.at("tag").get<std::string>();
    p.counted = tree.at("counted").get<bool>();
    p.place = {tree.at("file_idx").get<std::uint64_t>(), tree.at("text_idx").get<std::uint64_t>()};
    p.documents = tree.at("documents").get<std::uint64_t>();
    p.documents_bad = tree.at("documents_bad").get<std::uint64_t>();
    p.bad_examples = tree.at("bad_examples").get<std::vector<std::string>>();
    p.text_bytes = tree.at("text_bytes").get<std::uint64_t>();
    p.next_run = tree.at("next_run").get<std::uint64_t>();
    for (const auto& run : tree.at("runs")) {
      p.runs.push_back({run.at("name").get<std::string>(), run.at("level").get<std::uint64_t>()});
    }
    p.merges_saved = tree.at("merges_saved").get<std::uint64_t>();
    p.resumes = tree.at("resumes").get<std::uint64_t>();
    p.max_repeated_bytes = tree.at("max_repeated_bytes").get<std::uint64_t>();
    p.max_repeated_merges = tree.at("max_repeated_merges").get<std::uint64_t>();
    return p;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
};

// One call of train_vocab. Order of writes: a file of counts first, then progress.json that names
// it, then the removal of files nothing names; so a kill between any two leaves a state that
// progress.json describes.
class Training {
 public:
  explicit Training(const VocabTrainingOptions& options)
      : options_(options),
        facts_(facts_of(options)),
        state_dir_(options.out / "state"),
        pool_(options.threads) {
    progress_.tag = xxh3_128(facts_.dump()).hex();
  }

  Result<VocabTrainingReport> run() {
    SX_TRY_VOID(check_options());
    SX_TRY(const bool complete, take_up());
    if (complete) return report_;
    if (!progress_.counted) SX_TRY_VOID(count());
    if (!report_.stopped) SX_TRY_VOID(merge());
    return report_;
  }

 private:
  bool stop_wanted() const { return options_.stop && options_.stop(); }
  void tell(const char* phase, std::uint64_t done, std::uint64_t total) const {
    if (options_.progress) options_.progress(phase, done, total);
  }

  Result<void> check_options() const {
    const std::size_t smallest = 256 + options_.bpe.specials.size();
    if (options_.bpe.vocab_size < smallest) {
      return Error{
          ErrorKind::kInvalid,
          fmt::format(
              "vocabulary size {} is below the {} bytes and special tokens every vocabulary has",
              options_.bpe.vocab_size, smallest),
          ""};
    }
    for (const auto& input : options_.inputs) {
      std::error_code error;
      if (!std::filesystem::is_regular_file(input, error)) {
        return Error{ErrorKind::kNotFound, "no such file", input.string()};
      }
    }
    return {};
  }

  // Finds out what lies in the folder; true when the same training is complete there.
  Result<bool> take_up() {
    if (options_.overwrite) SX_TRY_VOID(discard());
    auto manifest = read_file(options_.out / "train.json");
    if (manifest) {
      const auto tree = ordered_json::parse(*manifest, nullptr, false);
      if (tree.is_object() && tree.value("tag", "") == progress_.tag) {
        std::error_code ignored;
        std::filesystem::remove_all(state_dir_, ignored);
        return report_from(tree);
      }
      return other_training();
    }
    auto text = read_file(state_dir_ / "progress.json");
    if (text) {
      auto saved = TrainingState::from_json(ordered_json::parse(*text, nullptr, false));
      if (!saved) {
        return Error{ErrorKind::kCorrupt, "the saved state cannot be read",
                     (state_dir_ / "progress.json").string()};
      }
      if (saved->tag != progress_.tag) return other_training();
      progress_ = std::move(*saved);
      note_resume();
      SX_TRY_VOID(save_progress());
      return false;
    }
    SX_TRY_VOID(make_dirs(state_dir_));
    SX_TRY_VOID(save_progress());
    return false;
  }

  Result<void> discard() {
    std::error_code ignored;
    for (const char* name :
         {"vocab.tiktoken", "vocab.json", "tokenizer.json", "train.json", "resumes.json"}) {
      std::filesystem::remove(options_.out / name, ignored);
    }
    std::filesystem::remove_all(state_dir_, ignored);
    return {};
  }

  Error other_training() const {
    return Error{ErrorKind::kInvalid, "a training with other inputs or options lies in this folder",
                 options_.out.string()};
  }

  Result<bool> report_from(const ordered_json& tree) {
    const auto number = [&](const char* key) { return tree.value(key, std::uint64_t{0}); };
    report_.documents = number("documents");
    report_.documents_bad = number("documents_bad");
    report_.text_bytes = number("text_bytes");
    report_.unique_pieces = number("unique_pieces");
    report_.tokens = number("tokens");
    report_.merges = number("merges");
    report_.vocab_size = number("vocab_size_reached");
    report_.fingerprint = tree.value("fingerprint", "");
    report_.already_complete = true;
    return true;
  }

  // How far the interrupted call had come beyond its saved state is told by the mark that it kept.
  void note_resume() {
    ++progress_.resumes;
    const auto text = read_file(state_dir_ / "mark");
    std::uint64_t bytes = 0;
    if (text && std::sscanf(text->c_str(), "%20lu %20lu", &bytes, &marked_merges_) == 2 &&
        bytes > progress_.text_bytes) {
      progress_.max_repeated_bytes =
          std::max(progress_.max_repeated_bytes, bytes - progress_.text_bytes);
    }
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(state_dir_, ignored)) {
      const std::string name = entry.path().filename().string();
      const bool known = name == "progress.json" || name == "merge.state" ||
                         std::any_of(progress_.runs.begin(), progress_.runs.end(),
                                     [&](const Run& run) { return run.name == name; });
      if (!known) std::filesystem::remove(entry.path(), ignored);
    }
  }

  // A mark needs to survive the process, not the machine: it is not synced.
  void mark(std::uint64_t bytes, std::uint64_t merges) const {
    const std::string path = (state_dir_ / "mark").string();
    if (std::FILE* file = std::fopen(path.c_str(), "r+e");
        file != nullptr || (file = std::fopen(path.c_str(), "we"))) {
      std::fputs(fmt::format("{:020} {:020}\n", bytes, merges).c_str(), file);
      std::fclose(file);
    }
  }

  Result<void> save_progress() {
    return write_file_atomic(state_dir_ / "progress.json", progress_.to_json().dump(1));
  }

  // -----------------------------------------------------------------------------------------------------------
  // counting

  Result<void> count() {
    TextSource source(options_.inputs, options_.text_key);
    SX_TRY_VOID(source.seek(progress_.place));
    PieceCounter counter(options_.bpe.split, options_.bpe.specials);
    TrainingState at = progress_;  // as it will be when the counter is saved
    std::uint64_t unsaved = 0;
    bool more = true;
    while (more) {
      std::vector<std::string> texts;
      std::uint64_t batch_bytes = 0;
      const std::uint64_t limit =
          std::min(kBatchBytes, std::max<std::uint64_t>(options_.interval_bytes - unsaved, 1));
      const std::uint64_t bad_before = source.bad_documents();
      while (batch_bytes < limit) {
        SX_TRY(std::optional<std::string> text, source.next());
        more = text.has_value();
        if (!more) break;
        batch_bytes += text->size();
        texts.push_back(std::move(*text));
      }
      SX_TRY_VOID(counter.add(texts, pool_));
      unsaved += batch_bytes;
      at.place = source.place();
      at.documents += texts.size();
      at.text_bytes += batch_bytes;
      at.documents_bad += source.bad_documents() - bad_before;
      for (const std::string& example : source.bad_examples()) {
        if (at.bad_examples.size() < 3 && std::find(at.bad_examples.begin(), at.bad_examples.end(),
                                                    example) == at.bad_examples.end()) {
          at.bad_examples.push_back(example);
        }
      }
      mark(at.text_bytes, 0);
      tell("count", source.stored_bytes_read(), source.stored_bytes_total());
      report_.stopped = more && stop_wanted();
      const bool full =
          unsaved >= options_.interval_bytes || counter.memory_bytes() >= options_.memory_bytes;
      if (!full && more && !report_.stopped) continue;
      at.counted = !more;
      SX_TRY_VOID(save_counts(counter, at));
      unsaved = 0;
      if (report_.stopped) return {};
    }
    return {};
  }

  std::vector<std::filesystem::path> paths_of(const std::vector<Run>& runs) const {
    std::vector<std::filesystem::path> paths;
    for (const Run& run : runs) paths.push_back(state_dir_ / run.name);
    return paths;
  }

  Result<void> save_counts(PieceCounter& counter, TrainingState& at) {
    const auto new_run = [&](std::uint64_t level) {
      return Run{fmt::format("counts-{:06}.run", at.next_run++), level};
    };
    const std::vector<PieceCount> counts = counter.take_sorted();
    if (!counts.empty()) {
      at.runs.push_back(new_run(0));
      SX_TRY_VOID(write_count_run(state_dir_ / at.runs.back().name, counts));
    }
    std::vector<Run> replaced;
    while (at.runs.size() >= kRunsPerLevel) {
      const std::uint64_t level = at.runs.back().level;
      const auto first = at.runs.end() - kRunsPerLevel;
      if (first->level != level) break;
      const std::vector<Run> group(first, at.runs.end());
      std::vector<PieceCount> merged;
      SX_TRY_VOID(
          merge_count_runs(paths_of(group), [&](std::string_view piece, std::uint64_t count) {
            merged.push_back({std::string(piece), count});
          }));
      at.runs.erase(first, at.runs.end());
      at.runs.push_back(new_run(level + 1));
      SX_TRY_VOID(write_count_run(state_dir_ / at.runs.back().name, merged));
      replaced.insert(replaced.end(), group.begin(), group.end());
    }
    progress_ = at;
    SX_TRY_VOID(save_progress());
    std::error_code ignored;
    for (const Run& run : replaced) std::filesystem::remove(state_dir_ / run.name, ignored);
    return {};
  }

  // ------------------------------------------------------------------------------------------------------------
  // merging

  Result<BpeTrainer> start_merging() {
    std::error_code ignored;
    if (std::filesystem::exists(state_dir_ / "merge.state", ignored))
      return BpeTrainer::load_state(state_dir_ / "merge.state", options_.bpe, progress_.tag);
    std::vector<PieceCount> counts;
    SX_TRY_VOID(merge_count_runs(paths_of(progress_.runs),
                                 [&](std::string_view piece, std::uint64_t count) {
                                   counts.push_back({std::string(piece), count});
                                 }));
    return BpeTrainer(options_.bpe, counts);
  }

  Result<void> save_merges(const BpeTrainer& trainer) {
    SX_TRY_VOID(trainer.save_state(state_dir_ / "merge.state", progress_.tag));
    progress_.merges_saved = trainer.merges().size();
    return save_progress();
  }

  Result<void> merge() {
    SX_TRY(BpeTrainer trainer, start_merging());
    progress_.merges_saved = trainer.merges().size();
    if (marked_merges_ > progress_.merges_saved) {
      progress_.max_repeated_merges =
          std::max(progress_.max_repeated_merges, marked_merges_ - progress_.merges_saved);
      SX_TRY_VOID(save_progress());
    }
    while (trainer.step()) {
      const std::uint64_t made = trainer.merges().size();
      if (made % 64 == 0 || made - progress_.merges_saved == options_.interval_merges) {
        mark(progress_.text_bytes, made);
        tell("merge", made, trainer.target_merges());
      }
      report_.stopped = stop_wanted();
      if (made - progress_.merges_saved >= options_.interval_merges || report_.stopped) {
        SX_TRY_VOID(save_merges(trainer));
        if (report_.stopped) return {};
      }
    }
    return finish(trainer);
  }

  Result<void> finish(const BpeTrainer& trainer) {
    SX_TRY(const Vocab vocab, trainer.vocab());
    report_.documents = progress_.documents;
    report_.documents_bad = progress_.documents_bad;
    report_.bad_examples = progress_.bad_examples;
    report_.text_bytes = progress_.text_bytes;
    report_.unique_pieces = trainer.unique_pieces();
    report_.tokens = trainer.total_tokens();
    report_.merges = trainer.merges().size();
    report_.vocab_size = vocab.vocab_size();
    report_.fingerprint = vocab.fingerprint().hex();
    report_.resumes = progress_.resumes;
    report_.max_repeated_bytes = progress_.max_repeated_bytes;
    report_.max_repeated_merges = progress_.max_repeated_merges;
    SX_TRY_VOID(write_tiktoken(vocab, options_.out / "vocab.tiktoken"));
    SX_TRY_VOID(write_file_atomic(options_.out / "tokenizer.json", format_hf_json(vocab)));
    ordered_json resumes{{"resumes", report_.resumes},
                         {"max_repeated_bytes", report_.max_repeated_bytes},
                         {"max_repeated_merges", report_.max_repeated_merges}};
    SX_TRY_VOID(write_file_atomic(options_.out / "resumes.json", resumes.dump(1) + "\n"));
    ordered_json manifest = facts_;
    manifest["tag"] = progress_.tag;
    manifest["documents"] = report_.documents;
    manifest["documents_bad"] = report_.documents_bad;
    manifest["text_bytes"] = report_.text_bytes;
    manifest["unique_pieces"] = report_.unique_pieces;
    manifest["tokens"] = report_.tokens;
    manifest["merges"] = report_.merges;
    manifest["vocab_size_reached"] = report_.vocab_size;
    manifest["fingerprint"] = report_.fingerprint;
    SX_TRY_VOID(write_file_atomic(options_.out / "train.json", manifest.dump(1) + "\n"));
    std::error_code ignored;
    std::filesystem::remove_all(state_dir_, ignored);
    return {};
  }

  const VocabTrainingOptions& options_;
  ordered_json facts_;
  std::filesystem::path state_dir_;
  ThreadPool pool_;
  TrainingState progress_;
  std::uint64_t marked_merges_ = 0;  // made by the interrupted call, saved or not
  VocabTrainingReport report_;
};

}  // namespace

nlohmann::ordered_json VocabTrainingReport::to_json() const {
  return {{"documents", documents},
          {"documents_bad", documents_bad},
          {"bad_examples", bad_examples},
          {"text_bytes", text_bytes},
          {"unique_pieces", unique_pieces},
          {"tokens", tokens},
          {"merges", merges},
          {"vocab_size", vocab_size},
          {"fingerprint", fingerprint},
          {"resumes", resumes},
          {"max_repeated_bytes", max_repeated_bytes},
          {"max_repeated_merges", max_repeated_merges},
          {"stopped", stopped},
          {"already_complete", already_complete}};
}

Result<VocabTrainingReport> train_vocab(const VocabTrainingOptions& options) {
  return Training(options).run();
}

}  // namespace sx
