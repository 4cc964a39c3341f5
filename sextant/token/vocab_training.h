#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/token/bpe_trainer.h"

namespace sx {

struct VocabTrainingOptions {
  BpeTrainerOptions bpe;
  /// `.jsonl` files (plain, .gz, .zst): their documents; any other file: plain text.
  std::vector<std::filesystem::path> inputs;
  std::string text_key = "text";
  std::filesystem::path out;                            ///< folder of the vocabulary
  std::size_t threads = 1;                              ///< never changes the result
  std::uint64_t memory_bytes = std::uint64_t{4} << 30;  ///< of the counts; more go to sorted files
  std::uint64_t interval_bytes = std::uint64_t{64}
                                 << 20;  ///< text between two saved states of counting
  std::uint64_t interval_merges = 2000;  ///< merges between two saved states of merging
  bool overwrite = false;                ///< discard what another training left in `out`
  /// Called from the caller's thread. Phases: "count" (stored bytes of the inputs), "merge"
  /// (merges).
  std::function<void(const char* phase, std::uint64_t done, std::uint64_t total)> progress;
  /// Asked after each batch and merge; true = save the state and return with `stopped`.
  std::function<bool()> stop;
};

struct VocabTrainingReport {
  std::uint64_t documents = 0;
  std::uint64_t documents_bad = 0;  ///< lines that are no JSON object with a text
  std::vector<std::string> bad_examples;
  std::uint64_t text_bytes = 0;
  std::uint64_t unique_pieces = 0;
  std::uint64_t tokens = 0;  ///< of the counted text with the finished vocabulary
  std::uint64_t merges = 0;
  std::uint64_t vocab_size = 0;
  std::string fingerprint;
  std::uint64_t resumes = 0;  ///< times an unfinished training was taken up
  std::uint64_t max_repeated_bytes =
      0;  ///< most text one resume counted again: at most one interval and a document
  std::uint64_t max_repeated_merges =
      0;                          ///< most merges one resume made again: at most one interval
  bool stopped = false;           ///< `stop` said so; the same call goes on
  bool already_complete = false;  ///< the vocabulary lay there from an earlier equal call

  nlohmann::ordered_json to_json() const;
};

/// Trains a vocabulary from files into a folder: vocab.tiktoken, vocab.json (pattern, special
/// tokens), tokenizer.json (the same for Hugging Face tokenizers) and train.json (options, inputs,
/// counts).
///
/// The files are a function of inputs and options, not of threads, memory budget or
/// interruptions. While it runs, <out>/state holds sorted counts and merges, each written
/// atomically; after a kill the same call goes on from there. Errors:  kNotFound, kIo, kCorrupt (a
/// damaged input or state), kInvalid (another training lies in `out` and `overwrite`
///          is off; the vocabulary size is too small).
Result<VocabTrainingReport> train_vocab(const VocabTrainingOptions& options);

}  // namespace sx
