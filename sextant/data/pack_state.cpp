#include "sextant/data/pack_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace sx {

namespace {

using Json = nlohmann::ordered_json;

Json part_json(const PackReport::Part& part) {
  return {{"documents", part.documents}, {"tokens", part.tokens}, {"text_bytes", part.text_bytes}};
}

Json position_json(const IndexedWriter::Position& position) {
  return {{"bin_bytes", position.bin_bytes},
          {"num_sequences", position.num_sequences},
          {"num_marks", position.num_marks}};
}

/// The number at `name`, or an exception of nlohmann for the callers here to turn into an Error.
std::uint64_t number(const Json& json, const char* name) {
  const Json& value = json.at(name);
  if (!value.is_number_integer() ||
      (!value.is_number_unsigned() && value.get<std::int64_t>() < 0)) {
    throw Json::type_error::create(302, std::string(name) + " is no whole number >= 0", &value);
  }
  return value.get<std::uint64_t>();
}

PackReport::Part read_part(const Json& json) {
  return {number(json, "documents"), number(json, "tokens"), number(json, "text_bytes")};
}

IndexedWriter::Position read_position(const Json& json) {
  return {number(json, "bin_bytes"), number(json, "num_sequences"), number(json, "num_marks")};
}

PackReport read_report(const Json& json) {
  PackReport report;
  report.train = read_part(json.at("train"));
  report.heldout = read_part(json.at("heldout"));
  report.documents_in = number(json, "documents_in");
  report.documents_emptied = number(json, "documents_emptied");
  report.documents_bad = number(json, "documents_bad");
  report.lines_removed = number(json, "lines_removed");
  report.bytes_removed = number(json, "bytes_removed");
  report.shared_lines = number(json, "shared_lines");
  report.heldout_checked = json.at("heldout_checked").get<bool>();
  report.resumes = number(json, "resumes");
  report.repeated_tokens = number(json, "repeated_tokens");
  report.max_repeated_tokens = number(json, "max_repeated_tokens");
  return report;
}

Error corrupt(const std::exception& thrown) {
  return {ErrorKind::kCorrupt, thrown.what(), "pack state"};
}

}  // namespace

Json PackReport::to_json() const {
  Json json;
  json["train"] = part_json(train);
  json["heldout"] = part_json(heldout);
  json["documents_in"] = documents_in;
  json["documents_emptied"] = documents_emptied;
  json["documents_bad"] = documents_bad;
  json["lines_removed"] = lines_removed;
  json["bytes_removed"] = bytes_removed;
  json["shared_lines"] = shared_lines;
  json["heldout_checked"] = heldout_checked;
  json["resumes"] = resumes;
  json["repeated_tokens"] = repeated_tokens;
  json["max_repeated_tokens"] = max_repeated_tokens;
  return json;
}

Result<PackReport> parse_pack_report(const Json& json) {
  try {
    return read_report(json);
  } catch (const Json::exception& thrown) {
    return corrupt(thrown);
  }
}

Json PackState::to_json() const {
  Json json;
  json["version"] = 1;
  json["fingerprint"] = fingerprint;
  json["input_idx"] = input_idx;
  json["records"] = records;
  json["all_read"] = all_read;
  json["train"] = position_json(train);
  json["heldout"] = position_json(heldout);
  json["report"] = report.to_json();
  return json;
}

Result<PackState> PackState::parse(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (number(json, "version") != 1)
      return Error{ErrorKind::kCorrupt, "version is not 1", "pack state"};
    PackState state;
    state.fingerprint = json.at("fingerprint").get<std::string>();
    state.input_idx = number(json, "input_idx");
    state.records = number(json, "records");
    state.all_read = json.at("all_read").get<bool>();
    state.train = read_position(json.at("train"));
    state.heldout = read_position(json.at("heldout"));
    state.report = read_report(json.at("report"));
    return state;
  } catch (const Json::exception& thrown) {
    return corrupt(thrown);
  }
}

Result<std::optional<PackState>> PackState::load(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::optional<PackState>();
  SX_TRY(const std::string text, read_file(path, 1 << 20));
  SX_TRY(PackState state, parse(text));
  return std::optional<PackState>(std::move(state));
}

Result<PackLock> PackLock::take(const std::string& prefix) {
  const std::string path = prefix + ".pack.lock";
  for (;;) {
    const int fd = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (fd < 0)
      return Error{ErrorKind::kIo, fmt::format("cannot open: {}", std::strerror(errno)), path};
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int code = errno;
      close(fd);
      if (code != EWOULDBLOCK)
        return Error{ErrorKind::kIo, fmt::format("cannot lock: {}", std::strerror(code)), path};
      return Error{ErrorKind::kInvalid, "another process is packing here", path};
    }
    // The holder removes the name before it lets go: a lock on a removed file protects nothing.
    struct stat mine {
    }, named{};
    if (fstat(fd, &mine) == 0 && stat(path.c_str(), &named) == 0 && mine.st_ino == named.st_ino) {
      return PackLock(path, fd);
    }
    close(fd);
  }
}

PackLock::PackLock(PackLock&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

PackLock::~PackLock() {
  if (fd_ < 0) return;
  unlink(path_.c_str());
  close(fd_);
}

}  // namespace sx
