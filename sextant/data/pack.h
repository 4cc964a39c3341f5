#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"

namespace sx {

class Tokenizer;

struct PackOptions {
  std::vector<fs::path> inputs;  ///< JSONL files, plain, .gz or .zst, read in this order
  std::string text_key = "text";
  std::string prefix;           ///< output: <prefix>.bin, <prefix>.idx
  std::string heldout_prefix;   ///< empty = no held-out part
  double heldout_share = 0.05;  ///< of the documents
  std::uint64_t heldout_seed = 1;
  std::int64_t vocab_size = 0;  ///< 0 = the tokenizer's; decides uint16 or int32
  std::int32_t eod_id = -1;     ///< appended to each document that has a token; < 0 = none
  int threads = 1;              ///< encoders; the number never changes the output
  std::uint64_t interval_bytes = std::uint64_t{64}
                                 << 20;  ///< text between two saved states, at most
  bool overwrite = false;                ///< discard unfinished parts and outputs of another run
  /// Called from the caller's thread: input bytes (as on disk) read and their total.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
  /// Asked after each chunk; true = save the state and return with `stopped`.
  std::function<bool()> stop;
};

struct PackReport {
  struct Part {
    std::uint64_t documents = 0;
    std::uint64_t tokens = 0;
    std::uint64_t text_bytes = 0;
  };
  Part train;
  Part heldout;
  std::uint64_t documents_in = 0;       ///< = train.documents + heldout.documents + emptied + bad
  std::uint64_t documents_emptied = 0;  ///< training pages of which no line was left
  std::uint64_t documents_bad = 0;      ///< records that are no JSON object with a text
  std::uint64_t lines_removed = 0;  ///< lines of training pages that also stand in held-out pages
  std::uint64_t bytes_removed = 0;
  std::uint64_t shared_lines =
      0;  ///< long lines that training and held-out files still share: 0 (checked on the files)
  bool heldout_checked = false;
  std::uint64_t resumes = 0;  ///< times an unfinished run was taken up
  std::uint64_t repeated_tokens =
      0;  ///< tokens on disk behind the saved state that were written again, all resumes
  std::uint64_t max_repeated_tokens =
      0;                 ///< most of one resume: they stand for at most `interval_bytes` of text
  bool stopped = false;  ///< `stop` said so; the same call goes on
  bool already_complete = false;  ///< the outputs stood there from an earlier equal call

  nlohmann::ordered_json to_json() const;
};

/// Documents to `.bin/.idx`: reads `inputs`, encodes in `threads` threads, writes in input order,
/// appends `eod_id`.
///
/// Output is a function of inputs, tokenizer and options, not of threads or interruptions. Every
/// `interval_bytes` of text the state (place in the input, sizes of the outputs) is saved
/// atomically in <prefix>.pack-state.json; after a kill the same call goes on from there.
/// <prefix>.pack.json holds the report of a finished call.
///
/// Held-out part: whole pages, chosen by a hash of their field "id" (without one: file name and
/// line number); at least one page. No line of a held-out page that is longer than 40 characters
/// (code points, without surrounding white space) stays in training: such lines are taken out of
/// the training pages and counted. At the end both pairs are decoded again and compared. Errors:
/// kNotFound, kIo, kCorrupt (an input that breaks off), kInvalid (another call is packing here;
/// parts of a different call lie there and `overwrite` is off).
Result<PackReport> pack_documents(const Tokenizer& tokenizer, const PackOptions& options);

}  // namespace sx
