#include "sextant/token/piece_counter.h"

#include <algorithm>
#include <cstring>
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

PieceCounter::PieceCounter(SplitFamily split, const std::vector<std::string>& specials)
    : split_(split), shards_(kShards) {
  std::vector<SpecialToken> wanted;
  for (const std::string& text : specials) wanted.push_back({text, 0});
  specials_ = SpecialScanner(std::move(wanted));
}

void PieceCounter::count_text(std::string_view text, std::uint64_t weight,
                              std::vector<Map>& maps) const {
  while (!text.empty()) {
    const auto special = specials_.find(text, 0);
    const std::string_view segment = text.substr(0, special ? special->begin : text.size());
    for (std::size_t pos = 0; pos < segment.size();) {
      const std::size_t end = split_next(split_, segment, pos);
      const std::string_view piece = segment.substr(pos, end - pos);
      bump(maps[shard_of(piece)], piece, weight);
      pos = end;
    }
    text.remove_prefix(special ? special->end : text.size());
  }
}

void PieceCounter::bump(Map& map, std::string_view piece, std::uint64_t count) {
  const auto at = map.find(piece);
  if (at != map.end()) {
    at->second += count;
  } else {
    map.emplace(std::string(piece), count);
  }
}

void PieceCounter::add_piece(std::string_view piece, std::uint64_t count) {
  bump(shards_[shard_of(piece)], piece, count);
}

void PieceCounter::add(std::span<const std::string> texts, ThreadPool& pool, std::uint64_t weight) {
  const std::size_t num_ranges = std::min(texts.size(), pool.num_threads() + 1);
  if (num_ranges == 0) return;
  std::vector<std::vector<Map>> local(num_ranges, std::vector<Map>(kShards));
  pool.parallel_for(num_ranges, [&](std::size_t range) {
    for (std::size_t i = texts.size() * range / num_ranges;
         i < texts.size() * (range + 1) / num_ranges; ++i) {
      count_text(texts[i], weight, local[range]);
    }
  });
  pool.parallel_for(kShards, [&](std::size_t shard) {
    for (const std::vector<Map>& maps : local) {
      for (const auto& [piece, count] : maps[shard]) bump(shards_[shard], piece, count);
    }
  });
}

std::size_t PieceCounter::unique() const {
  std::size_t total = 0;
  for (const Map& map : shards_) total += map.size();
  return total;
}

std::size_t PieceCounter::memory_bytes() const {
  constexpr std::size_t kNode =
      sizeof(Map::value_type) + 32;  // node link, cached hash, bucket, allocator head
  return unique() * kNode;
}

std::vector<PieceCount> PieceCounter::take_sorted() {
  std::vector<PieceCount> counts;
  counts.reserve(unique());
  for (Map& map : shards_) {
    while (!map.empty()) {
      auto node = map.extract(map.begin());
      counts.push_back({std::move(node.key()), node.mapped()});
    }
  }
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
