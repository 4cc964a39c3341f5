#include "sextant/token/piece_counter.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <queue>

#include "sextant/base/fs.h"
#include "sextant/base/hash.h"
#include "sextant/base/mmap.h"
#include "sextant/token/little_endian.h"

namespace sx {
namespace {

constexpr std::string_view kRunMagic = "SXPC0001";
constexpr std::size_t kHead = 16;  // magic and number of pieces
constexpr std::size_t kTail = 8;   // checksum
constexpr std::size_t kEntryHead = 12;

// One run, read front to back. `open` proves that every entry lies inside the file and that pieces
// ascend.
class RunCursor {
 public:
  static Result<RunCursor> open(const std::filesystem::path& path) {
    RunCursor cursor;
    SX_TRY(cursor.file_, MappedFile::open(path));
    const std::string_view bytes = cursor.file_.text();
    const auto fail = [&](const char* what) {
      return Error{ErrorKind::kCorrupt, what, path.string()};
    };
    if (bytes.size() < kHead + kTail || !bytes.starts_with(kRunMagic))
      return fail("not a file of piece counts");
    if (xxh3_64(bytes.substr(0, bytes.size() - kTail)) !=
        read_int<std::uint64_t>(bytes, bytes.size() - kTail)) {
      return fail("the checksum of the piece counts is wrong");
    }
    cursor.left_ = read_int<std::uint64_t>(bytes, 8);
    cursor.next();
    return cursor;
  }

  bool at_end() const { return at_end_; }
  std::string_view piece() const { return piece_; }
  std::uint64_t count() const { return count_; }

  void next() {
    const std::string_view bytes = file_.text();
    const std::size_t end = bytes.size() - kTail;
    if (left_ == 0 || end - pos_ < kEntryHead ||
        end - pos_ - kEntryHead < read_int<std::uint32_t>(bytes, pos_)) {
      at_end_ = true;
      return;
    }
    const auto length = read_int<std::uint32_t>(bytes, pos_);
    count_ = read_int<std::uint64_t>(bytes, pos_ + 4);
    piece_ = bytes.substr(pos_ + kEntryHead, length);
    pos_ += kEntryHead + length;
    --left_;
  }

 private:
  MappedFile file_;
  std::size_t pos_ = kHead;
  std::uint64_t left_ = 0;
  bool at_end_ = false;
  std::string_view piece_;
  std::uint64_t count_ = 0;
};

}  // namespace

void PieceTable::add(std::string_view piece, std::uint64_t count) {
  if (piece.size() <= PieceKey::kMaxBytes) {
    if (!piece.empty()) add_key(piece_key(piece), count);
    return;
  }
  const auto at = long_.find(piece);
  if (at != long_.end()) {
    at->second += count;
    return;
  }
  long_.emplace(piece, count);
  long_bytes_ += piece.size();
}

void PieceTable::add_key(const PieceKey& key, std::uint64_t count) {
  if ((used_ + 1) * 8 > slots_.size() * 5) grow();
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = key.hash() & mask;; slot = (slot + 1) & mask) {
    if (slots_[slot].key == key) {
      slots_[slot].count += count;
      return;
    }
    if (slots_[slot].key == PieceKey{}) {
      slots_[slot] = {key, count};
      ++used_;
      return;
    }
  }
}

void PieceTable::grow() {
  std::vector<Slot> old = std::move(slots_);
  slots_ = std::vector<Slot>(std::max<std::size_t>(old.size() * 2, 4096));
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& entry : old) {
    if (entry.key == PieceKey{}) continue;
    std::size_t slot = entry.key.hash() & mask;
    while (!(slots_[slot].key == PieceKey{})) slot = (slot + 1) & mask;
    slots_[slot] = entry;
  }
}

void PieceTable::take(PieceTable& other) {
  for (const Slot& slot : other.slots_) {
    if (!(slot.key == PieceKey{})) add_key(slot.key, slot.count);
  }
  for (const auto& [piece, count] : other.long_) add(piece, count);
  other = PieceTable();
}

std::size_t PieceTable::memory_bytes() const {
  constexpr std::size_t kNode =
      88;  // string, count, node link, cached hash, bucket, allocator head
  return slots_.size() * sizeof(Slot) + long_.size() * kNode + long_bytes_;
}

void PieceTable::drain(std::vector<PieceCount>& out) {
  for (const Slot& slot : slots_) {
    if (slot.key == PieceKey{}) continue;
    char bytes[16];
    std::memcpy(bytes, &slot.key, 16);
    out.push_back({std::string(bytes, static_cast<std::size_t>(slot.key.high >> 56)), slot.count});
  }
  while (!long_.empty()) {
    auto node = long_.extract(long_.begin());
    out.push_back({std::move(node.key()), node.mapped()});
  }
  *this = PieceTable();
}

PieceCounter::PieceCounter(const SplitRule& split, const std::vector<std::string>& specials)
    : split_(split), tables_(1) {
  std::vector<SpecialToken> wanted;
  for (const std::string& text : specials) wanted.push_back({text, 0});
  specials_ = SpecialScanner(std::move(wanted));
}

Result<void> PieceCounter::count_text(std::string_view text, std::uint64_t weight,
                                      PieceSplitter& splitter, PieceTable& table) const {
  while (!text.empty()) {
    const auto special = specials_.find(text, 0);
    const std::string_view segment = text.substr(0, special ? special->begin : text.size());
    SX_TRY_VOID(for_each_piece(splitter, segment,
                               [&](std::string_view piece) { table.add(piece, weight); }));
    text.remove_prefix(special ? special->end : text.size());
  }
  return {};
}

void PieceCounter::add_piece(std::string_view piece, std::uint64_t count) {
  tables_[0].add(piece, count);
}

Result<void> PieceCounter::add(std::span<const std::string> texts, ThreadPool& pool,
                               std::uint64_t weight) {
  const std::size_t num_ranges = std::min(texts.size(), pool.num_threads() + 1);
  if (tables_.size() < num_ranges) tables_.resize(num_ranges);
  std::vector<std::optional<Error>> errors(num_ranges);
  std::atomic<std::size_t> next{0};
  pool.parallel_for(num_ranges, [&](std::size_t range) {
    PieceSplitter splitter(split_);
    for (std::size_t i = next.fetch_add(1); i < texts.size(); i = next.fetch_add(1)) {
      auto counted = count_text(texts[i], weight, splitter, tables_[range]);
      if (!counted) errors[range] = counted.error();
    }
  });
  for (std::optional<Error>& error : errors) {
    if (error) return std::move(*error);
  }
  return {};
}

void PieceCounter::merge_tables() {
  for (std::size_t i = 1; i < tables_.size(); ++i) tables_[0].take(tables_[i]);
}

std::size_t PieceCounter::unique() {
  merge_tables();
  return tables_[0].size();
}

std::size_t PieceCounter::memory_bytes() const {
  std::size_t bytes = 0;
  for (const PieceTable& table : tables_) bytes += table.memory_bytes();
  return bytes;
}

std::vector<PieceCount> PieceCounter::take_sorted() {
  merge_tables();
  std::vector<PieceCount> counts;
  counts.reserve(tables_[0].size());
  tables_[0].drain(counts);
  std::sort(counts.begin(), counts.end(),
            [](const auto& a, const auto& b) { return a.piece < b.piece; });
  return counts;
}

Result<void> write_count_run(const std::filesystem::path& path,
                             const std::vector<PieceCount>& counts) {
  SX_TRY(FileWriter writer, FileWriter::create(path));
  Xxh3Stream hash;
  std::string block(kRunMagic);
  append_int<std::uint64_t>(block, counts.size());
  const auto flush = [&]() -> Result<void> {
    hash.update(block);
    SX_TRY_VOID(writer.write(block));
    block.clear();
    return {};
  };
  for (const PieceCount& entry : counts) {
    append_int<std::uint32_t>(block, static_cast<std::uint32_t>(entry.piece.size()));
    append_int<std::uint64_t>(block, entry.count);
    block += entry.piece;
    if (block.size() > (std::size_t{1} << 20)) SX_TRY_VOID(flush());
  }
  SX_TRY_VOID(flush());
  append_int<std::uint64_t>(block, hash.digest());
  SX_TRY_VOID(writer.write(block));
  return writer.commit();
}

Result<void> merge_count_runs(
    const std::vector<std::filesystem::path>& paths,
    const std::function<void(std::string_view, std::uint64_t)>& on_piece) {
  std::vector<RunCursor> cursors;
  for (const std::filesystem::path& path : paths) {
    SX_TRY(RunCursor cursor, RunCursor::open(path));
    cursors.push_back(std::move(cursor));
  }
  const auto later = [&](std::size_t a, std::size_t b) {
    return cursors[a].piece() > cursors[b].piece();
  };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> queue(later);
  for (std::size_t i = 0; i < cursors.size(); ++i) {
    if (!cursors[i].at_end()) queue.push(i);
  }
  while (!queue.empty()) {
    const std::string_view piece = cursors[queue.top()].piece();
    std::uint64_t count = 0;
    while (!queue.empty() && cursors[queue.top()].piece() == piece) {
      const std::size_t i = queue.top();
      queue.pop();
      count += cursors[i].count();
      cursors[i].next();
      if (!cursors[i].at_end()) queue.push(i);
    }
    on_piece(piece, count);
  }
  return {};
}

}  // namespace sx
