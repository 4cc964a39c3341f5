#include "sextant/data/index_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/fs.h"
#include "sextant/base/hash.h"
#include "sextant/base/log.h"
#include "sextant/data/md5.h"
#include "sextant/data/python_json.h"

namespace sx {

namespace {

using CacheJson = nlohmann::ordered_json;

constexpr std::uint64_t kMaxDescriptionBytes = std::uint64_t{64} << 20;
constexpr int kOriginVersion = 1;

/// `json` without any member "tokenizer".
CacheJson without_tokenizer(const CacheJson& json) {
  if (json.is_array()) {
    CacheJson out = CacheJson::array();
    for (const CacheJson& item : json) out.push_back(without_tokenizer(item));
    return out;
  }
  if (!json.is_object()) return json;
  CacheJson out = CacheJson::object();
  for (const auto& [name, item] : json.items()) {
    if (name != "tokenizer") out[name] = without_tokenizer(item);
  }
  return out;
}

/// The right to make one entry, shared out by a lock on a file; waits for its turn. Where the file
/// cannot be made (a folder that is read only) there is nothing to share.
class CacheLock {
 public:
  explicit CacheLock(std::filesystem::path path) : path_(std::move(path)) {
    for (;;) {
      fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
      if (fd_ < 0) return;
      while (flock(fd_, LOCK_EX) != 0 && errno == EINTR) continue;
      struct stat opened {};
      struct stat named {};
      // The holder before us takes its file away at the end; a lock on that one is nobody's.
      const bool same = fstat(fd_, &opened) == 0 && stat(path_.c_str(), &named) == 0 &&
                        opened.st_ino == named.st_ino;
      if (same) return;
      close(fd_);
    }
  }
  ~CacheLock() {
    if (fd_ < 0) return;
    unlink(path_.c_str());
    close(fd_);
  }
  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

CacheJson hashes_of(const std::vector<std::string>& names, const std::vector<NpyArray>& arrays) {
  CacheJson json = CacheJson::object();
  for (std::size_t i = 0; i < names.size(); ++i) {
    json[names[i]] = {{"elements", arrays[i].size()}, {"xxh3", hex64(xxh3_64(arrays[i].bytes()))}};
  }
  return json;
}

}  // namespace

IndexCache::IndexCache(Key key)
    : key_(std::move(key)),
      description_(python_json(key_.identity)),
      base_(fmt::format("{}-{}-{}", md5_hex(description_), key_.class_name, key_.split)) {}

std::filesystem::path IndexCache::file(const std::string& base, const std::string& ending) const {
  return key_.folder / (base + "-" + ending);
}

std::optional<std::string> IndexCache::find_base() const {
  std::error_code code;
  if (fs::exists(file(base_, "description.txt"), code)) return base_;
  const std::string ending = fmt::format("-{}-{}-description.txt", key_.class_name, key_.split);
  std::vector<std::string> candidates;
  for (fs::directory_iterator at(key_.folder, code), end; !code && at != end; at.increment(code)) {
    std::string name = at->path().filename().string();
    if (name.ends_with(ending)) {
      name.resize(name.size() - std::string_view("-description.txt").size());
      candidates.push_back(std::move(name));
    }
  }
  std::sort(candidates.begin(), candidates.end());
  const CacheJson wanted = without_tokenizer(key_.identity);
  for (const std::string& candidate : candidates) {
    const auto text = read_file(file(candidate, "description.txt"), kMaxDescriptionBytes);
    if (!text.ok()) continue;
    const CacheJson json = CacheJson::parse(*text, nullptr, false);
    if (!json.is_discarded() && without_tokenizer(json) == wanted) return candidate;
  }
  return std::nullopt;
}

Result<std::optional<IndexCache::Entry>> IndexCache::load() const {
  const std::optional<std::string> base = find_base();
  if (!base) return std::optional<Entry>();
  return load_entry(*base);
}

Result<std::optional<IndexCache::Entry>> IndexCache::load_entry(const std::string& base) const {
  Entry entry{base, {}, std::nullopt};
  for (const std::string& name : key_.names) {
    Result<NpyArray> array = NpyArray::open(file(base, name + ".npy"));
    if (!array.ok() && array.error().kind == ErrorKind::kNotFound) return std::optional<Entry>();
    if (!array.ok()) return std::move(array).error();
    entry.arrays.push_back(*std::move(array));
  }
  const fs::path origin_file = file(base, "sextant.json");
  const auto text = read_file(origin_file, kMaxDescriptionBytes);
  if (!text.ok() && text.error().kind != ErrorKind::kNotFound) return text.error();
  if (!text.ok()) return std::optional<Entry>(std::move(entry));
  CacheJson origin = CacheJson::parse(*text, nullptr, false);
  const auto bad = [&](const char* message) {
    return Error{ErrorKind::kCorrupt, message, origin_file.string()};
  };
  if (!origin.is_object() || !origin.contains("version") || !origin.contains("arrays")) {
    return bad("is no description of a cache's origin");
  }
  if (origin["version"] != kOriginVersion) return bad("is of another version");
  if (origin["arrays"] != hashes_of(key_.names, entry.arrays)) {
    return bad("the arrays are not those that were written");
  }
  entry.origin = std::move(origin);
  return std::optional<Entry>(std::move(entry));
}

Result<void> IndexCache::store(const std::vector<NpyArray>& arrays, CacheJson origin) const {
  SX_CHECK(arrays.size() == key_.names.size(), "{} arrays, {} names", arrays.size(),
           key_.names.size());
  SX_TRY_VOID(make_dirs(key_.folder));
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    SX_TRY_VOID(write_npy(file(base_, key_.names[i] + ".npy"), arrays[i]));
  }
  CacheJson whole{{"version", kOriginVersion}};
  whole.update(origin);
  whole["arrays"] = hashes_of(key_.names, arrays);
  SX_TRY_VOID(write_file_atomic(file(base_, "sextant.json"), whole.dump(1) + "\n"));
  return write_file_atomic(file(base_, "description.txt"), description_);
}

Result<std::vector<NpyArray>> IndexCache::load_or_build(
    const std::function<Result<void>(const Entry&)>& accept,
    const std::function<Result<std::vector<NpyArray>>()>& build, const CacheJson& origin) const {
  const auto try_load = [&]() -> std::optional<std::vector<NpyArray>> {
    Result<std::optional<Entry>> found = load();
    if (found.ok() && !*found) return std::nullopt;
    const Result<void> accepted = found.ok() ? accept(**found) : Result<void>(found.error());
    if (accepted.ok()) return std::move((*found)->arrays);
    SX_LOG(kWarn, "data.cache_refused", "path",
           file(found.ok() ? (*found)->base : base_, "*").string(), "reason",
           accepted.error().message);
    return std::nullopt;
  };
  if (auto arrays = try_load()) return *std::move(arrays);
  std::error_code ignored;
  fs::create_directories(key_.folder, ignored);  // `store` says what is wrong, if anything is
  const CacheLock lock(file(base_, "lock"));
  if (fs::exists(file(base_, "description.txt"), ignored)) {
    if (auto arrays = try_load()) return *std::move(arrays);  // made while this one waited
  }
  SX_TRY(std::vector<NpyArray> arrays, build());
  // A refused entry must not be taken for whole while its parts are replaced.
  fs::remove(file(base_, "description.txt"), ignored);
  if (const Result<void> stored = store(arrays, origin); !stored.ok()) {
    SX_LOG(kWarn, "data.cache_unwritten", "path", file(base_, "*").string(), "reason",
           stored.error().message);
  }
  return arrays;
}

}  // namespace sx
