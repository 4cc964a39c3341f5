// Documents to token files. One thread reads, cuts chunks and writes in input order; workers
// encode. The state is saved before a chunk would carry the text written since the last save beyond
// the interval, so a kill costs one interval at most.
#include "sextant/data/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"
#include "sextant/data/document_stream.h"
#include "sextant/data/encode_pipeline.h"
#include "sextant/data/held_out.h"
#include "sextant/data/indexed_writer.h"
#include "sextant/data/pack_state.h"

namespace sx {

namespace {

constexpr std::uint64_t kChunkBytes = 256 << 10;
constexpr std::size_t kChunkDocuments = 512;

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

void remove(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

class Packer {
 public:
  Packer(const Tokenizer& tokenizer, const PackOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  Result<PackReport> run();

 private:
  bool with_heldout() const { return !options_.heldout_prefix.empty(); }
  bool outputs_exist() const {
    return exists(options_.prefix + ".idx") &&
           (!with_heldout() || exists(options_.heldout_prefix + ".idx"));
  }
  std::string state_path() const { return options_.prefix + ".pack-state.json"; }
  std::string report_path() const { return options_.prefix + ".pack.json"; }
  TokenType type() const {
    const std::int64_t vocab = options_.vocab_size > 0
                                   ? options_.vocab_size
                                   : static_cast<std::int64_t>(tokenizer_.vocab_size());
    return token_type_for_vocab(std::max<std::int64_t>(vocab, options_.eod_id + std::int64_t{1}));
  }

  Result<void> fingerprint();
  Result<std::optional<PackReport>> finished_before();
  Result<void> open_outputs();
  Result<void> resume_outputs();
  Result<void> choose_heldout();
  Result<void> collect_heldout_lines(std::uint64_t& smallest);
  bool is_heldout(const std::string& id) const {
    return with_heldout() && xxh64(id, options_.heldout_seed) <= heldout_limit_;
  }

  Result<std::optional<EncodeChunk>> read_chunk(DocumentStream& stream);
  Result<void> write_all();
  Result<void> write_chunk(EncodeChunk& chunk);
  Result<void> write_document(EncodeChunk::Document& document);
  Result<void> save_state();
  Result<void> finish();
  Result<void> finish_part(std::optional<IndexedWriter>& writer);
  void report_progress(std::uint64_t bytes) const {
    if (options_.progress) options_.progress(std::min(bytes, total_bytes_), total_bytes_);
  }

  const Tokenizer& tokenizer_;
  const PackOptions& options_;
  std::uint64_t input_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;   ///< of all passes over the inputs
  std::uint64_t passed_bytes_ = 0;  ///< of passes before the present one
  std::uint64_t heldout_limit_ = 0;
  LineSet heldout_lines_;
  PackState state_;
  std::optional<IndexedWriter> train_;
  std::optional<IndexedWriter> heldout_;
  std::uint64_t since_save_ = 0;  ///< text bytes written since the last save
};

Result<void> Packer::fingerprint() {
  nlohmann::ordered_json facts;
  for (const fs::path& input : options_.inputs) {
    std::error_code code;
    const auto size = fs::file_size(input, code);
    if (code) return Error{ErrorKind::kNotFound, code.message(), input.string()};
    input_bytes_ += size;
    facts["inputs"].push_back({input.string(), size});
  }
  facts["text_key"] = options_.text_key;
  facts["prefix"] = options_.prefix;
  facts["heldout"] = {options_.heldout_prefix, options_.heldout_share, options_.heldout_seed};
  facts["type"] = to_string(type());
  facts["eod_id"] = options_.eod_id;
  facts["tokenizer"] = tokenizer_.fingerprint().hex();
  state_.fingerprint = xxh3_128(facts.dump()).hex();
  total_bytes_ = input_bytes_ * (with_heldout() ? 2 : 1);
  return {};
}

/// The report of an equal call that is complete; else clears the way or says what is in it.
Result<std::optional<PackReport>> Packer::finished_before() {
  if (!exists(report_path()) && !outputs_exist()) return std::optional<PackReport>();
  if (exists(report_path()) && outputs_exist()) {
    SX_TRY(const std::string text, read_file(report_path(), 1 << 20));
    const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
    if (json.is_object() && json.value("fingerprint", "") == state_.fingerprint) {
      SX_TRY(PackReport report, parse_pack_report(json));
      report.already_complete = true;
      remove(state_path());
      return std::optional<PackReport>(std::move(report));
    }
  }
  // An index without a report: written by others, or by this call, killed between its last two
  // steps.
  if (!options_.overwrite && !exists(state_path())) {
    return Error{ErrorKind::kInvalid, "token files of another call stand here", options_.prefix};
  }
  if (options_.overwrite) remove(report_path());
  return std::optional<PackReport>();
}

Result<void> Packer::open_outputs() {
  auto loaded = PackState::load(state_path());
  if (!loaded.ok() && !options_.overwrite) return std::move(loaded).error();
  if (loaded.ok() && loaded->has_value()) {
    if ((*loaded)->fingerprint == state_.fingerprint) {
      state_ = std::move(**loaded);
      return resume_outputs();
    }
    if (!options_.overwrite) {
      return Error{ErrorKind::kInvalid,
                   "an unfinished packing of other inputs or options lies here", state_path()};
    }
  }
  remove(report_path());
  SX_TRY(IndexedWriter train, IndexedWriter::create(options_.prefix, type()));
  train_.emplace(std::move(train));
  if (with_heldout()) {
    SX_TRY(IndexedWriter heldout, IndexedWriter::create(options_.heldout_prefix, type()));
    heldout_.emplace(std::move(heldout));
  }
  return save_state();
}

Result<void> Packer::resume_outputs() {
  std::uint64_t repeated = 0;
  const auto reopen = [&](const std::string& prefix, const IndexedWriter::Position& at,
                          std::optional<IndexedWriter>& writer) -> Result<void> {
    // With everything read, a part without spill files was finished before the kill.
    if (state_.all_read && exists(prefix + ".idx") && !exists(prefix + ".len.part")) {
      IndexedWriter::remove_parts(prefix);
      return {};
    }
    SX_TRY(const IndexedWriter::Position found, IndexedWriter::parts_on_disk(prefix, type()));
    if (found.bin_bytes > at.bin_bytes)
      repeated += (found.bin_bytes - at.bin_bytes) / token_bytes(type());
    SX_TRY(IndexedWriter resumed, IndexedWriter::resume(prefix, type(), at));
    writer.emplace(std::move(resumed));
    return {};
  };
  SX_TRY_VOID(reopen(options_.prefix, state_.train, train_));
  if (with_heldout()) SX_TRY_VOID(reopen(options_.heldout_prefix, state_.heldout, heldout_));
  PackReport& report = state_.report;
  ++report.resumes;
  report.repeated_tokens += repeated;
  report.max_repeated_tokens = std::max(report.max_repeated_tokens, repeated);
  // Saved at once: a second kill must not lose the counts.
  return write_file_atomic(state_path(), state_.to_json().dump(2) + "\n");
}

Result<void> Packer::collect_heldout_lines(std::uint64_t& smallest) {
  DocumentStream stream(options_.inputs, options_.text_key);
  heldout_lines_ = LineSet();
  for (std::uint64_t count = 0;; ++count) {
    SX_TRY(const auto document, stream.next());
    if (!document) break;
    if (count % 256 == 0) {
      report_progress(stream.bytes_read());
      if (options_.stop && options_.stop()) {
        state_.report.stopped = true;
        return {};
      }
    }
    if (document->bad) continue;
    smallest = std::min(smallest, xxh64(document->id, options_.heldout_seed));
    if (is_heldout(document->id)) heldout_lines_.add_lines(document->text);
  }
  heldout_lines_.seal();
  return {};
}

Result<void> Packer::choose_heldout() {
  const double share = options_.heldout_share * 18446744073709551616.0;  // of 2^64
  heldout_limit_ =
      share >= 18446744073709549568.0 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(share);
  std::uint64_t smallest = ~std::uint64_t{0};
  SX_TRY_VOID(collect_heldout_lines(smallest));
  if (smallest > heldout_limit_ &&
      !state_.report.stopped) {  // few pages: the one with the smallest hash
    heldout_limit_ = smallest;
    SX_TRY_VOID(collect_heldout_lines(smallest));
  }
  passed_bytes_ = input_bytes_;
  return {};
}

Result<std::optional<EncodeChunk>> Packer::read_chunk(DocumentStream& stream) {
  EncodeChunk chunk;
  const std::uint64_t limit =
      std::min(kChunkBytes, std::max<std::uint64_t>(options_.interval_bytes, 1));
  while (chunk.text_bytes < limit && chunk.documents.size() < kChunkDocuments) {
    SX_TRY(auto document, stream.next());
    if (!document) break;
    EncodeChunk::Document next;
    next.bad = document->bad;
    next.heldout = !next.bad && is_heldout(document->id);
    next.input_idx = stream.input_idx();
    next.records = stream.records();
    next.text = std::move(document->text);
    chunk.text_bytes += next.text.size();
    chunk.documents.push_back(std::move(next));
  }
  if (chunk.documents.empty()) return std::optional<EncodeChunk>();
  return std::optional<EncodeChunk>(std::move(chunk));
}

Result<void> Packer::write_all() {
  DocumentStream stream(options_.inputs, options_.text_key);
  SX_TRY_VOID(stream.seek(state_.input_idx, state_.records));
  EncodePipeline pipeline(tokenizer_, options_.threads);
  for (bool more = true; more || pipeline.in_flight() > 0;) {
    while (more && !pipeline.full()) {
      SX_TRY(auto chunk, read_chunk(stream));
      more = chunk.has_value();
      if (!more) break;
      if (with_heldout()) {
        for (EncodeChunk::Document& document : chunk->documents) {
          if (document.heldout || document.bad) continue;
          const std::uint64_t before = document.lines_removed;
          std::string kept = remove_lines(document.text, heldout_lines_, document.lines_removed,
                                          document.bytes_removed);
          if (document.lines_removed > before) document.text = std::move(kept);
        }
      }
      pipeline.submit(std::move(*chunk));
    }
    if (pipeline.in_flight() == 0) break;
    SX_TRY(EncodeChunk chunk, pipeline.take());
    SX_TRY_VOID(write_chunk(chunk));
    report_progress(passed_bytes_ + stream.bytes_read());
    if (options_.stop && options_.stop()) {
      state_.report.stopped = true;
      return save_state();
    }
  }
  state_.all_read = true;
  return save_state();
}

Result<void> Packer::write_chunk(EncodeChunk& chunk) {
  if (since_save_ > 0 && since_save_ + chunk.text_bytes > options_.interval_bytes)
    SX_TRY_VOID(save_state());
  for (EncodeChunk::Document& document : chunk.documents) SX_TRY_VOID(write_document(document));
  since_save_ += chunk.text_bytes;
  state_.input_idx = chunk.documents.back().input_idx;
  state_.records = chunk.documents.back().records;
  return {};
}

Result<void> Packer::write_document(EncodeChunk::Document& document) {
  PackReport& report = state_.report;
  ++report.documents_in;
  if (document.bad) {
    ++report.documents_bad;
    return {};
  }
  report.lines_removed += document.lines_removed;
  report.bytes_removed += document.bytes_removed;
  if (document.lines_removed > 0 &&
      document.text.find_first_not_of(" \t\r\n\v\f") == std::string::npos) {
    ++report.documents_emptied;
    return {};
  }
  PackReport::Part& part = document.heldout ? report.heldout : report.train;
  IndexedWriter& writer = document.heldout ? *heldout_ : *train_;
  ++part.documents;
  part.text_bytes += document.text.size();
  // A document without text has no sequence, as with Megatron-LM's preprocess_data.py.
  if (document.ids.empty()) return writer.end_document();
  std::vector<std::int32_t> tokens(document.ids.begin(), document.ids.end());
  if (options_.eod_id >= 0) tokens.push_back(options_.eod_id);
  part.tokens += tokens.size();
  return writer.add_document(tokens);
}

Result<void> Packer::save_state() {
  if (train_) {
    SX_TRY_VOID(train_->sync());
    state_.train = train_->position();
  }
  if (heldout_) {
    SX_TRY_VOID(heldout_->sync());
    state_.heldout = heldout_->position();
  }
  since_save_ = 0;
  return write_file_atomic(state_path(), state_.to_json().dump(2) + "\n");
}

Result<void> Packer::finish_part(std::optional<IndexedWriter>& writer) {
  if (writer) SX_TRY_VOID(writer->finish());
  writer.reset();
  return {};
}

Result<void> Packer::finish() {
  SX_TRY_VOID(finish_part(train_));
  SX_TRY_VOID(finish_part(heldout_));
  PackReport& report = state_.report;
  if (with_heldout()) {
    SX_TRY(report.shared_lines, count_shared_lines(options_.prefix, options_.heldout_prefix,
                                                   tokenizer_, options_.eod_id));
    report.heldout_checked = true;
  }
  nlohmann::ordered_json json;
  json["version"] = 1;
  json["fingerprint"] = state_.fingerprint;
  json.update(report.to_json());
  SX_TRY_VOID(write_file_atomic(report_path(), json.dump(2) + "\n"));
  remove(state_path());
  return {};
}

Result<PackReport> Packer::run() {
  const fs::path folder = fs::path(options_.prefix).parent_path();
  if (!folder.empty()) SX_TRY_VOID(make_dirs(folder));
  SX_TRY(const PackLock lock, PackLock::take(options_.prefix));
  SX_TRY_VOID(fingerprint());
  SX_TRY(auto before, finished_before());
  if (before) return *std::move(before);
  SX_TRY_VOID(open_outputs());
  if (!state_.all_read) {
    if (with_heldout()) SX_TRY_VOID(choose_heldout());
    if (!state_.report.stopped) SX_TRY_VOID(write_all());
    if (state_.report.stopped) return state_.report;
  }
  SX_TRY_VOID(finish());
  return state_.report;
}

}  // namespace

Result<PackReport> pack_documents(const Tokenizer& tokenizer, const PackOptions& options) {
  SX_CHECK(!options.prefix.empty() && options.prefix != options.heldout_prefix,
           "output prefixes \"{}\", \"{}\"", options.prefix, options.heldout_prefix);
  SX_CHECK(options.threads > 0, "{} threads", options.threads);
  SX_CHECK(options.heldout_share >= 0 && options.heldout_share <= 1, "held-out share {}",
           options.heldout_share);
  return Packer(tokenizer, options).run();
}

}  // namespace sx
