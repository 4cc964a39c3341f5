#include "sextant/data/batch_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "sextant/base/check.h"

namespace sx {

namespace {

template <class T>
std::span<T> row_of(std::span<T> array, std::size_t row, std::size_t width) {
  return array.subspan(row * width, width);
}

/// Places in the row at which a document of the block begins: each once, behind `place` (where the
/// block begins).
void add_document_borders(const TokenSource& source, const OrderBlock& block,
                          std::uint64_t document, std::size_t place,
                          std::vector<std::int32_t>& borders) {
  const std::uint64_t end = block.first + block.length;
  for (std::uint64_t k = document + 1; k < source.num_documents(); ++k) {
    const std::uint64_t start = source.document_start(k);
    if (start >= end) return;
    const auto at = static_cast<std::int32_t>(place + start - block.first);
    if (borders.empty() || borders.back() < at) borders.push_back(at);
  }
}

}  // namespace

BatchMaker::BatchMaker(std::shared_ptr<const Dataset> dataset, AnyOrder order,
                       const LoaderOptions& options, std::uint64_t position)
    : dataset_(std::move(dataset)),
      order_(std::move(order)),
      options_(options),
      position_(position),
      blocks_per_row_(static_cast<std::uint64_t>(options.seq_len / options.block_tokens)) {
  if (const auto* pass = std::get_if<SequentialOrder>(&order_)) end_ = pass->size();
  if (const auto* samples = std::get_if<MegatronOrder>(&order_)) end_ = samples->size();
}

OrderBlock BatchMaker::block_at(std::uint64_t position) const {
  return std::visit([&](const auto& order) { return order.at(position); }, order_);
}

std::uint64_t BatchMaker::rows_per_step() const {
  return static_cast<std::uint64_t>(options_.micro_batch_size * options_.micro_batches *
                                    options_.data_world);
}

std::uint64_t BatchMaker::position_of_step(std::uint64_t step) const {
  return position_ + step * rows_per_step() * blocks_per_row_;
}

std::uint64_t BatchMaker::num_steps() const {
  if (!has_end()) return 0;
  const std::uint64_t left = end_ > position_ ? end_ - position_ : 0;
  if (options_.pass == LoaderOptions::Pass::kTrain) return left / rows_per_step();
  return (left + rows_per_step() - 1) / rows_per_step();
}

Result<Batch> BatchMaker::make(std::uint64_t index) const {
  const auto micro_batches = static_cast<std::uint64_t>(options_.micro_batches);
  const std::uint64_t step = index / micro_batches;
  const std::uint64_t micro = index % micro_batches;
  Batch batch(*options_.pool, options_.micro_batch_size, options_.seq_len);
  batch.cursor = {step, static_cast<std::uint32_t>(micro),
                  static_cast<std::uint32_t>(micro_batches), position_of_step(step)};
  const auto rows = static_cast<std::uint64_t>(options_.micro_batch_size);
  const std::uint64_t first_row = (micro * static_cast<std::uint64_t>(options_.data_world) +
                                   static_cast<std::uint64_t>(options_.data_rank)) *
                                  rows;
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::uint64_t position = batch.cursor.position + (first_row + row) * blocks_per_row_;
    if (position < end_) {
      SX_TRY_VOID(fill_row(batch, row, position));
    } else {
      fill_empty_row(batch, row);
    }
  }
  SX_TRY_VOID(check_ids(batch));
  return batch;
}

Result<void> BatchMaker::read_block(const OrderBlock& block, std::span<std::int32_t> tokens,
                                    std::span<std::int32_t> targets) const {
  const TokenSource& source = *dataset_->members()[block.member].source;
  const auto length = static_cast<std::size_t>(block.length);
  SX_TRY_VOID(source.read(block.first, tokens.first(length)));
  if (length > 1) std::memcpy(targets.data(), tokens.data() + 1, 4 * (length - 1));
  SX_TRY_VOID(source.read(block.first + length, targets.subspan(length - 1, 1)));
  std::fill(tokens.begin() + static_cast<std::ptrdiff_t>(length), tokens.end(), 0);
  std::fill(targets.begin() + static_cast<std::ptrdiff_t>(length), targets.end(), 0);
  return {};
}

Result<void> BatchMaker::fill_row(Batch& batch, std::size_t row, std::uint64_t position) const {
  if (std::holds_alternative<MegatronOrder>(order_)) return fill_sample(batch, row, position);
  if (options_.fim && options_.pass == LoaderOptions::Pass::kTrain) {
    return fill_rewritten_row(batch, row, position);
  }
  const auto width = static_cast<std::size_t>(options_.seq_len);
  const auto block_tokens = static_cast<std::size_t>(options_.block_tokens);
  const auto tokens = row_of(batch.tokens(), row, width);
  const auto targets = row_of(batch.targets(), row, width);
  std::vector<std::int32_t> borders;
  std::size_t used =
      0;  // only the last block of a pass is short, and then it is its row's only one
  for (std::uint64_t b = 0; b < blocks_per_row_; ++b) {
    const OrderBlock block = block_at(position + b);
    const TokenSource& source = *dataset_->members()[block.member].source;
    const std::size_t place = b * block_tokens;
    SX_TRY_VOID(read_block(block, tokens.subspan(place, block_tokens),
                           targets.subspan(place, block_tokens)));
    const std::uint64_t document = source.document_at(block.first);
    if (b == 0) batch.keys[row] = {block.member, block.epoch, block.unit, block.first, document};
    if (b > 0) borders.push_back(static_cast<std::int32_t>(place));
    if (options_.masks.inter_document)
      add_document_borders(source, block, document, place, borders);
    used = place + static_cast<std::size_t>(block.length);
  }
  fill_masks(batch, row, tokens, borders);
  const auto loss_mask = row_of(batch.loss_mask(), row, width);
  for (std::size_t i = used; i < width; ++i)
    batch.num_loss_tokens -= std::exchange(loss_mask[i], 0);
  return {};
}

void BatchMaker::fill_masks(Batch& batch, std::size_t row, std::span<const std::int32_t> tokens,
                            const std::vector<std::int32_t>& borders) const {
  const auto width = static_cast<std::size_t>(options_.seq_len);
  const RowMaskCounts counts = fill_row_masks(
      options_.masks, tokens, borders,
      {row_of(batch.positions(), row, width), row_of(batch.document_ids(), row, width),
       row_of(batch.cu_seqlens(), row, width + 1), row_of(batch.loss_mask(), row, width)});
  batch.num_documents[row] = counts.num_documents;
  batch.max_seqlen = std::max(batch.max_seqlen, counts.max_seqlen);
  batch.num_loss_tokens += counts.num_loss_tokens;
}

// As `GPTDataset.__getitem__`: masks see the padding as it is; then no loss where the target is the
// padding's id, and that id becomes 0.
void BatchMaker::finish_row(Batch& batch, std::size_t row, const RawRow& raw) const {
  const auto width = static_cast<std::size_t>(options_.seq_len);
  fill_masks(batch, row, raw.tokens, raw.borders);
  const auto tokens = row_of(batch.tokens(), row, width);
  const auto targets = row_of(batch.targets(), row, width);
  const auto loss_mask = row_of(batch.loss_mask(), row, width);
  const std::int32_t pad = options_.masks.pad_id;
  for (std::size_t i = 0; i < width; ++i) {
    tokens[i] = raw.tokens[i] == pad ? 0 : raw.tokens[i];
    targets[i] = raw.targets[i] == pad ? 0 : raw.targets[i];
    if (raw.targets[i] == pad) batch.num_loss_tokens -= std::exchange(loss_mask[i], 0);
  }
}

void BatchMaker::add_eod_borders(RawRow& raw) const {
  raw.borders.clear();
  if (!options_.masks.inter_document || options_.masks.eod_id < 0) return;
  for (std::size_t i = 1; i < raw.tokens.size(); ++i) {
    if (raw.tokens[i - 1] == options_.masks.eod_id)
      raw.borders.push_back(static_cast<std::int32_t>(i));
  }
}

Result<void> BatchMaker::fill_sample(Batch& batch, std::size_t row, std::uint64_t position) const {
  const MegatronDataset& dataset = std::get<MegatronOrder>(order_).dataset();
  SX_TRY(const MegatronDataset::Place place, dataset.at(position));
  const GptDataset& member = *dataset.members()[place.member];
  SX_TRY(const std::uint64_t unit, member.row_of(place.sample));
  SX_TRY(const std::vector<GptDataset::Piece> pieces, member.pieces(unit));
  std::vector<std::int32_t> sample(member.sample_tokens());
  SX_TRY(const std::uint64_t count, member.read(pieces, sample));
  const std::int32_t pad = options_.masks.pad_id;
  std::fill(sample.begin() + static_cast<std::ptrdiff_t>(count), sample.end(), pad);
  if (options_.fim) options_.fim->apply(dataset_->members()[place.member].path_id, 0, unit, sample);
  const auto width = static_cast<std::size_t>(options_.seq_len);
  if (sample.size() == width) sample.push_back(pad);  // without the extra token

  RawRow raw{std::span<const std::int32_t>(sample).first(width),
             std::span<const std::int32_t>(sample).subspan(1),
             {}};
  std::uint64_t place_in_row = 0;
  for (const GptDataset::Piece& piece : pieces) {
    const auto at = static_cast<std::int32_t>(place_in_row);
    const bool inside = place_in_row > 0 && place_in_row < width;
    if (options_.masks.inter_document && inside &&
        (raw.borders.empty() || raw.borders.back() < at)) {
      raw.borders.push_back(at);
    }
    place_in_row += piece.length;
  }
  if (options_.fim) add_eod_borders(raw);
  finish_row(batch, row, raw);
  batch.keys[row] = {place.member, 0, unit, pieces.front().first, pieces.front().sequence};
  return {};
}

// Rewritten text has other document borders than the file: those behind its ends of documents.
Result<void> BatchMaker::fill_rewritten_row(Batch& batch, std::size_t row,
                                            std::uint64_t position) const {
  const auto width = static_cast<std::size_t>(options_.seq_len);
  const auto block_tokens = static_cast<std::size_t>(options_.block_tokens);
  std::vector<std::int32_t> tokens(width), targets(width), sample;
  for (std::uint64_t b = 0; b < blocks_per_row_; ++b) {
    const OrderBlock block = block_at(position + b);
    const DatasetMember& member = dataset_->members()[block.member];
    sample.resize(block.length + 1);
    SX_TRY_VOID(member.source->read(block.first, sample));
    options_.fim->apply(member.path_id, block.epoch, block.unit, sample);
    const std::size_t place = b * block_tokens;
    std::copy(sample.begin(), sample.end() - 1,
              tokens.begin() + static_cast<std::ptrdiff_t>(place));
    std::copy(sample.begin() + 1, sample.end(),
              targets.begin() + static_cast<std::ptrdiff_t>(place));
    if (b == 0) {
      const std::uint64_t document = member.source->document_at(block.first);
      batch.keys[row] = {block.member, block.epoch, block.unit, block.first, document};
    }
  }
  RawRow raw{tokens, targets, {}};
  add_eod_borders(raw);
  for (std::uint64_t b = 1; b < blocks_per_row_; ++b) {
    raw.borders.push_back(static_cast<std::int32_t>(b * block_tokens));
  }
  std::ranges::sort(raw.borders);
  raw.borders.erase(std::unique(raw.borders.begin(), raw.borders.end()), raw.borders.end());
  finish_row(batch, row, raw);
  return {};
}

void BatchMaker::fill_empty_row(Batch& batch, std::size_t row) const {
  const auto width = static_cast<std::size_t>(options_.seq_len);
  const auto tokens = row_of(batch.tokens(), row, width);
  std::ranges::fill(tokens, 0);
  std::ranges::fill(row_of(batch.targets(), row, width), 0);
  const auto loss_mask = row_of(batch.loss_mask(), row, width);
  const RowMaskCounts counts = fill_row_masks(
      MaskOptions{}, tokens, {},
      {row_of(batch.positions(), row, width), row_of(batch.document_ids(), row, width),
       row_of(batch.cu_seqlens(), row, width + 1), loss_mask});
  std::ranges::fill(loss_mask, std::uint8_t{0});
  batch.num_documents[row] = counts.num_documents;
  batch.max_seqlen = std::max(batch.max_seqlen, counts.max_seqlen);
  batch.keys[row] = {.member = Batch::kFiller};
}

Result<void> BatchMaker::check_ids(const Batch& batch) const {
  if (options_.vocab_size <= 0) return {};
  // As unsigned, negative ids are large ones.
  const auto outside = [&](std::int32_t id) {
    return static_cast<std::uint32_t>(id) >= static_cast<std::uint64_t>(options_.vocab_size);
  };
  for (const auto array : {batch.tokens(), batch.targets()}) {
    const auto found = std::ranges::find_if(array, outside);
    if (found == array.end()) continue;
    const SampleKey& key =
        batch.keys[static_cast<std::size_t>((found - array.begin()) / options_.seq_len)];
    return Error{
        ErrorKind::kCorrupt,
        fmt::format("token id {} outside the vocabulary of {}", *found, options_.vocab_size),
        fmt::format("{}, document {}", dataset_->members()[key.member].path_id, key.document)};
  }
  return {};
}

Hash128 BatchMaker::hash_step(const Hash128& before, std::uint64_t step) const {
  std::string bytes;
  const auto put = [&](std::uint64_t value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(before.low);
  put(before.high);
  const std::uint64_t begin = position_of_step(step);
  const std::uint64_t end = std::min(position_of_step(step + 1), end_);
  for (std::uint64_t position = begin; position < end; ++position) {
    const OrderBlock block = block_at(position);
    put(position);
    put(block.member);
    put(block.epoch);
    put(block.unit);
  }
  return xxh3_128(bytes);
}

}  // namespace sx
