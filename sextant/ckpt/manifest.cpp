#include "sextant/ckpt/manifest.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sextant/base/hash.h"

namespace sx {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "sextant-checkpoint";
constexpr std::string_view kHashMember = ",\"xxh3\":\"";

/// Thrown inside the parser only; becomes a kCorrupt error at its edge.
struct BadManifest {
  std::string message;
};

[[noreturn]] void bad(std::string message) { throw BadManifest{std::move(message)}; }

const Json& member(const Json& object, const char* key) {
  const auto it = object.is_object() ? object.find(key) : object.end();
  if (it == object.end()) bad(fmt::format("\"{}\" is missing", key));
  return *it;
}

std::int64_t to_count(const Json& value, const char* key) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    bad(fmt::format("\"{}\" is not a count", key));
  }
  return value.get<std::int64_t>();
}

const Json& object_of(const Json& parent, const char* key) {
  const Json& value = member(parent, key);
  if (!value.is_object()) bad(fmt::format("\"{}\" is not an object", key));
  return value;
}

std::int64_t count_of(const Json& object, const char* key) {
  return to_count(member(object, key), key);
}

std::string text_of(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_string()) bad(fmt::format("\"{}\" is not text", key));
  return value.get<std::string>();
}

std::uint64_t hash_of(const Json& object, const char* key) {
  const std::string text = text_of(object, key);
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 16 || code != std::errc() || end != text.data() + 16) {
    bad(fmt::format("\"{}\" is not 16 hex digits", key));
  }
  return value;
}

/// Sizes whose product, times `element_bytes`, fits into 63 bits.
std::vector<std::int64_t> sizes_of(const Json& object, const char* key,
                                   std::int64_t element_bytes) {
  const Json& list = member(object, key);
  if (!list.is_array()) bad(fmt::format("\"{}\" is not a list", key));
  std::vector<std::int64_t> sizes;
  std::int64_t product = element_bytes;
  for (const Json& value : list) {
    sizes.push_back(to_count(value, key));
    if (__builtin_mul_overflow(product, sizes.back(), &product))
      bad(fmt::format("\"{}\" passes 63 bits", key));
  }
  return sizes;
}

std::string file_name_of(const std::string& name) {
  if (!is_inner_file_name(name))
    bad(fmt::format("\"{}\" is not a file name inside the folder", name));
  return name;
}

/// A state becomes the file state/NAME.json where it is written again.
std::string state_name_of(const std::string& name) {
  if (name.find('/') != std::string::npos || !is_inner_file_name(name))
    bad(fmt::format("\"{}\" is not the name of a state", name));
  return name;
}

Json format_chunk(const Chunk& chunk) {
  Json j;
  j["file"] = chunk.file;
  j["kind"] = chunk.kind == Chunk::Kind::kBox ? "box" : "flat";
  j["offset"] = chunk.offset;
  j["size"] = chunk.size;
  j["bytes"] = {chunk.begin, chunk.end};
  j["xxh3"] = hex64(chunk.xxh3);
  return j;
}

Chunk parse_chunk(const Json& j, const StoredTensor& tensor) {
  Chunk chunk;
  chunk.file = file_name_of(text_of(j, "file"));
  const std::string kind = text_of(j, "kind");
  if (kind != "box" && kind != "flat") bad(fmt::format("chunk kind \"{}\"", kind));
  chunk.kind = kind == "box" ? Chunk::Kind::kBox : Chunk::Kind::kFlat;
  const std::int64_t element_bytes = safetensors::size_bytes(tensor.dtype);
  chunk.size = sizes_of(j, "size", element_bytes);
  const Json& offset = member(j, "offset");
  if (!offset.is_array()) bad("\"offset\" is not a list");
  for (const Json& value : offset) chunk.offset.push_back(to_count(value, "offset"));
  const std::size_t rank = chunk.kind == Chunk::Kind::kBox ? tensor.shape.size() : 1;
  if (chunk.size.size() != rank || chunk.offset.size() != rank)
    bad("a chunk's size and offset do not fit its tensor");
  const Json& bytes = member(j, "bytes");
  if (!bytes.is_array() || bytes.size() != 2) bad("\"bytes\" is not a pair");
  const std::int64_t begin = to_count(bytes[0], "bytes");
  const std::int64_t end = to_count(bytes[1], "bytes");
  if (begin > end || end - begin != chunk.num_elements() * element_bytes) {
    bad(fmt::format("bytes [{}, {}) for {} elements of {} bytes", begin, end, chunk.num_elements(),
                    element_bytes));
  }
  chunk.begin = static_cast<std::uint64_t>(begin);
  chunk.end = static_cast<std::uint64_t>(end);
  chunk.xxh3 = hash_of(j, "xxh3");
  return chunk;
}

StoredTensor parse_tensor(const std::string& name, const Json& j) {
  if (name.empty() || name.find('@') != std::string::npos)
    bad(fmt::format("tensor name \"{}\"", name));
  StoredTensor tensor;
  auto dtype = safetensors::parse_dtype(text_of(j, "dtype"));
  if (!dtype.ok()) bad(fmt::format("tensor \"{}\": {}", name, dtype.error().message));
  tensor.dtype = *dtype;
  tensor.shape = sizes_of(j, "shape", safetensors::size_bytes(tensor.dtype));
  tensor.logical = hash_of(j, "logical");
  const Json& chunks = member(j, "chunks");
  if (!chunks.is_array()) bad("\"chunks\" is not a list");
  for (const Json& chunk : chunks) tensor.chunks.push_back(parse_chunk(chunk, tensor));
  return tensor;
}

/// The text without its last member, once that has proved right; empty when it does not.
std::string_view hashed_part(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const std::size_t at = text.rfind(kHashMember);
  if (at == std::string_view::npos) return {};
  const std::string_view body = text.substr(0, at);
  return text.substr(at) == fmt::format("{}{}\"}}", kHashMember, hex64(xxh3_64(body)))
             ? body
             : std::string_view();
}

Manifest parse_members(const Json& j) {
  Manifest m;
  m.step = count_of(j, "step");
  m.tokens = count_of(j, "tokens");
  m.samples = count_of(j, "samples");
  m.created = text_of(j, "created");
  m.sextant = text_of(j, "sextant");
  m.git = text_of(j, "git");
  m.fingerprint = text_of(j, "fingerprint");
  for (const auto& [axis, degree] : object_of(j, "mesh").items())
    m.mesh[axis] = to_count(degree, "mesh");
  for (const auto& [name, tensor] : object_of(j, "tensors").items())
    m.tensors[name] = parse_tensor(name, tensor);
  for (const auto& [name, file] : object_of(j, "files").items()) {
    m.files[file_name_of(name)] = {static_cast<std::uint64_t>(count_of(file, "bytes")),
                                   hash_of(file, "xxh3")};
  }
  for (const auto& [name, file] : object_of(j, "states").items()) {
    if (!file.is_string()) bad("\"states\" is not names of files");
    const std::string path = file_name_of(file.get<std::string>());
    if (m.files.count(path) == 0) bad(fmt::format("state file {} is not listed", path));
    m.states[state_name_of(name)] = path;
  }
  for (const auto& [name, tensor] : m.tensors) {
    for (const Chunk& chunk : tensor.chunks) {
      const auto file = m.files.find(chunk.file);
      if (file == m.files.end())
        bad(fmt::format("tensor \"{}\" lies in {}, which is not listed", name, chunk.file));
      if (chunk.end > file->second.bytes) {
        bad(fmt::format("tensor \"{}\" ends at byte {} of {} in {}", name, chunk.end,
                        file->second.bytes, chunk.file));
      }
    }
  }
  return m;
}

}  // namespace

bool is_inner_file_name(std::string_view name) {
  return !name.empty() && name.front() != '/' && name != ".." && !name.starts_with("../") &&
         name.find("/../") == std::string_view::npos && !name.ends_with("/..") &&
         name.find('\0') == std::string_view::npos;
}

std::string format_manifest(const Manifest& m) {
  Json j;
  j["format"] = kFormat;
  j["version"] = Manifest::kVersion;
  j["step"] = m.step;
  j["tokens"] = m.tokens;
  j["samples"] = m.samples;
  j["created"] = m.created;
  j["sextant"] = m.sextant;
  j["git"] = m.git;
  j["fingerprint"] = m.fingerprint;
  j["mesh"] = Json::object();
  for (const auto& [axis, degree] : m.mesh) j["mesh"][axis] = degree;
  j["tensors"] = Json::object();
  for (const auto& [name, tensor] : m.tensors) {
    Json t;
    t["dtype"] = safetensors::to_string(tensor.dtype);
    t["shape"] = tensor.shape;
    t["logical"] = hex64(tensor.logical);
    t["chunks"] = Json::array();
    for (const Chunk& chunk : tensor.chunks) t["chunks"].push_back(format_chunk(chunk));
    j["tensors"][name] = std::move(t);
  }
  j["files"] = Json::object();
  for (const auto& [name, file] : m.files) {
    j["files"][name]["bytes"] = file.bytes;
    j["files"][name]["xxh3"] = hex64(file.xxh3);
  }
  j["states"] = Json::object();
  for (const auto& [name, file] : m.states) j["states"][name] = file;
  std::string text = j.dump();
  text.pop_back();
  return fmt::format("{}{}{}\"}}\n", text, kHashMember, hex64(xxh3_64(text)));
}

namespace {

Result<Manifest> parse(std::string_view text, bool whole) {
  const auto corrupt = [](std::string message) {
    return Error{ErrorKind::kCorrupt, "manifest: " + std::move(message), kManifestName};
  };
  const Json j = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!j.is_object()) return corrupt("not a JSON object");
  try {
    if (text_of(j, "format") != kFormat) return corrupt("not of a Sextant checkpoint");
    const std::int64_t version = count_of(j, "version");
    if (version > Manifest::kVersion) {
      return Error{
          ErrorKind::kUnsupported,
          fmt::format(
              "checkpoint format version {} is newer than version {}, which this program reads",
              version, Manifest::kVersion),
          kManifestName};
    }
    if (version < 1) return corrupt(fmt::format("version {}", version));
    if (hashed_part(text).empty()) return corrupt("its own hash does not fit its text");
    Manifest manifest = parse_members(j);
    if (!whole) return manifest;
    for (const auto& [name, tensor] : manifest.tensors) SX_TRY_VOID(check_tiling(name, tensor));
    return manifest;
  } catch (const BadManifest& e) {
    return corrupt(e.message);
  }
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view text) { return parse(text, true); }

Result<Manifest> parse_manifest_part(std::string_view text) { return parse(text, false); }

}  // namespace sx
