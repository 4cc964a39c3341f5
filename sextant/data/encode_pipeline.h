#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/base/thread_pool.h"
#include "sextant/token/tokenizer.h"

namespace sx {

/// Documents that are encoded together.
struct EncodeChunk {
  struct Document {
    std::string text;
    bool heldout = false;
    bool bad = false;
    std::uint64_t input_idx = 0;  ///< place behind the document
    std::uint64_t records = 0;
    std::uint64_t lines_removed = 0;
    std::uint64_t bytes_removed = 0;
    std::vector<TokenId> ids;  ///< filled by the pipeline
  };
  std::vector<Document> documents;
  std::uint64_t text_bytes = 0;
};

/// Encodes chunks in worker threads and gives them back in the order they came. One caller.
class EncodePipeline {
 public:
  EncodePipeline(const Tokenizer& tokenizer, int threads);
  ~EncodePipeline();  ///< waits for the chunks in work

  void submit(EncodeChunk chunk);
  /// Chunks submitted and not taken.
  std::size_t in_flight() const;
  /// Enough are in flight to keep all threads busy: take before the next submit.
  bool full() const;
  /// The oldest chunk, when done. Errors: the tokenizer's.
  Result<EncodeChunk> take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sx
