// Does every byte of a checkpoint hold?
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sextant/base/hash.h"
#include "sextant/base/mmap.h"
#include "sextant/ckpt/checkpoint.h"
#include "sextant/ckpt/data_file.h"
#include "sextant/ckpt/logical_checksum.h"
#include "sextant/safetensors/safetensors.h"

namespace sx {
namespace {

class Verifier {
 public:
  Verifier(fs::path folder, const Manifest& manifest)
      : folder_(std::move(folder)), manifest_(manifest) {}

  std::vector<std::string> run() {
    for (const auto& [name, file] : manifest_.files) check_file(name, file);
    for (const auto& [name, tensor] : manifest_.tensors) check_tensor(name, tensor);
    return std::move(faults_);
  }

 private:
  void check_file(const std::string& name, const StoredFile& stored) {
    auto file = MappedFile::open(folder_ / name);
    if (!file.ok()) {
      faults_.push_back(file.error().message);
      return;
    }
    if (file->size() != stored.bytes) {
      faults_.push_back(
          fmt::format("{} has {} bytes, {} were saved", name, file->size(), stored.bytes));
      return;
    }
    // Read, not mapped: a disk that fails is an error here and a signal there.
    const auto hash = xxh3_64_file((folder_ / name).string());
    if (!hash.ok()) {
      faults_.push_back(hash.error().message);
      return;
    }
    if (*hash != stored.xxh3) {
      faults_.push_back(
          fmt::format("{}: hash {}, {} was saved", name, hex64(*hash), hex64(stored.xxh3)));
    }
    files_.emplace(name, *std::move(file));
    if (!name.ends_with(".safetensors")) return;
    auto opened = safetensors::File::open(folder_ / name);
    if (opened.ok()) {
      headers_.emplace(name, opened->header());
    } else {
      faults_.push_back(fmt::format("{}: {}", name, opened.error().message));
    }
  }

  void check_tensor(const std::string& name, const StoredTensor& tensor) {
    const std::int64_t element = safetensors::size_bytes(tensor.dtype);
    std::uint64_t logical = 0;
    bool all_there = true;
    for (const Chunk& chunk : tensor.chunks) {
      const auto file = files_.find(chunk.file);
      if (file == files_.end()) {
        all_there = false;  // told by its file
        continue;
      }
      const auto bytes = file->second.bytes().subspan(chunk.begin, chunk.end - chunk.begin);
      const std::uint64_t hash =
          xxh3_64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      if (hash != chunk.xxh3) {
        faults_.push_back(fmt::format("{}: chunk in {} has hash {}, {} was saved", name, chunk.file,
                                      hex64(hash), hex64(chunk.xxh3)));
      }
      check_entry(name, tensor, chunk);
      for_each_run(
          tensor.shape, chunk, [&](std::int64_t first, std::int64_t local, std::int64_t count) {
            logical += logical_checksum(bytes.subspan(static_cast<std::size_t>(local * element),
                                                      static_cast<std::size_t>(count * element)),
                                        element, static_cast<std::uint64_t>(first));
          });
    }
    if (all_there && logical != tensor.logical) {
      faults_.push_back(fmt::format("{}: logical checksum {}, {} was saved", name, hex64(logical),
                                    hex64(tensor.logical)));
    }
  }

  /// The data file alone must say the same as the manifest.
  void check_entry(const std::string& name, const StoredTensor& tensor, const Chunk& chunk) {
    const auto header = headers_.find(chunk.file);
    if (header == headers_.end()) return;
    const std::string wanted = entry_name(name, tensor.shape, chunk);
    const auto& entries = header->second.entries;
    const auto entry = std::find_if(entries.begin(), entries.end(), [&](const auto& candidate) {
      return candidate.name == wanted;
    });
    if (entry == entries.end()) {
      faults_.push_back(fmt::format("{}: no entry \"{}\"", chunk.file, wanted));
    } else if (entry->dtype != tensor.dtype || entry->shape != chunk.size ||
               header->second.data_begin + entry->begin != chunk.begin) {
      faults_.push_back(
          fmt::format("{}: entry \"{}\" differs from the manifest", chunk.file, wanted));
    }
  }

  fs::path folder_;
  const Manifest& manifest_;
  std::map<std::string, MappedFile> files_;
  std::map<std::string, safetensors::Header> headers_;
  std::vector<std::string> faults_;
};

}  // namespace

Result<std::vector<std::string>> verify_checkpoint(const fs::path& folder) {
  SX_TRY(const std::string text, read_file(folder / kManifestName));
  auto manifest = parse_manifest(text);
  if (!manifest.ok()) {
    if (manifest.error().kind == ErrorKind::kUnsupported) return std::move(manifest).error();
    return std::vector<std::string>{manifest.error().message};
  }
  return Verifier(folder, *manifest).run();
}

}  // namespace sx
