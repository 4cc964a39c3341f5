// Opening: what is there is compared with what is needed before a byte of a tensor is read.
#include "sextant/hf/hf_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr std::uint64_t kMaxIndexBytes = 256 << 20;
constexpr std::uint64_t kMaxCompanionBytes = 256 << 20;
constexpr const char* kOneFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

Error hf_error(ErrorKind kind, std::string message, const fs::path& where) {
  return {kind, std::move(message), where.string()};
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name.front() != '.';
}

/// `weight_map` of the index: tensor name -> file name.
Result<std::map<std::string, std::string>> read_index(const fs::path& path) {
  SX_TRY(const std::string text, read_file(path, kMaxIndexBytes));
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    return hf_error(ErrorKind::kCorrupt, e.what(), path);
  }
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object()) {
    return hf_error(ErrorKind::kCorrupt, "no object \"weight_map\"", path);
  }
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string() || !is_plain_name(file.get_ref<const std::string&>())) {
      return hf_error(ErrorKind::kCorrupt,
                      fmt::format("weight_map[\"{}\"] is not the name of a file here", name), path);
    }
    files.emplace(name, file.get<std::string>());
  }
  if (files.empty()) return hf_error(ErrorKind::kCorrupt, "weight_map is empty", path);
  return files;
}

/// Copies rows [row, row + rows) of a matrix whose columns are the rows of `from` [columns, width],
/// in tiles, so that both sides stay in the cache.
template <std::size_t kBytes>
void turn(const std::byte* from, std::int64_t width, std::int64_t first, std::int64_t columns,
          std::int64_t rows, std::byte* to) {
  constexpr std::int64_t kTile = 32;
  for (std::int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (std::int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const std::int64_t r1 = std::min(r0 + kTile, rows), c1 = std::min(c0 + kTile, columns);
      for (std::int64_t r = r0; r < r1; ++r) {
        for (std::int64_t c = c0; c < c1; ++c) {
          std::memcpy(to + static_cast<std::size_t>(r * columns + c) * kBytes,
                      from + static_cast<std::size_t>(c * width + first + r) * kBytes, kBytes);
        }
      }
    }
  }
}

/// One run of elements inside a row of ours, gathered from a column of theirs.
void gather(const std::byte* from, std::int64_t width, std::int64_t column, std::int64_t begin,
            std::int64_t count, std::size_t element, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + static_cast<std::size_t>(i) * element,
                from + static_cast<std::size_t>((begin + i) * width + column) * element, element);
  }
}

void read_turned(const HfParam& param, const std::byte* from, std::size_t element,
                 std::int64_t begin, std::int64_t count, std::byte* to) {
  const std::int64_t width = param.tensor_shape[1], columns = param.columns();
  while (count > 0) {
    const std::int64_t row = begin / columns, column = begin % columns;
    std::int64_t done = 0;
    if (column == 0 && count >= columns) {
      const std::int64_t rows = count / columns;
      const std::int64_t first = param.first + row;
      if (element == 4) turn<4>(from, width, first, columns, rows, to);
      if (element == 2) turn<2>(from, width, first, columns, rows, to);
      if (element == 8) turn<8>(from, width, first, columns, rows, to);
      done = rows * columns;
    } else {
      done = std::min(count, columns - column);
      gather(from, width, param.first + row, column, done, element, to);
    }
    begin += done;
    count -= done;
    to += static_cast<std::size_t>(done) * element;
  }
}

bool is_weight_dtype(safetensors::Dtype dtype) {
  using safetensors::Dtype;
  return dtype == Dtype::kF64 || dtype == Dtype::kF32 || dtype == Dtype::kF16 ||
         dtype == Dtype::kBF16;
}

}  // namespace

Result<HfFolder> HfFolder::open(const fs::path& folder, std::int64_t vocab_pad_to) {
  HfFolder opened;
  opened.path_ = folder;
  SX_TRY(opened.config_, read_hf_config(folder));
  opened.config_.shape.vocab_pad_to = vocab_pad_to;
  opened.params_ = hf_params(opened.config_.shape);
  SX_TRY_VOID(opened.open_files());
  SX_TRY_VOID(opened.check_names());
  return opened;
}

Result<void> HfFolder::open_files() {
  std::map<std::string, std::string> listed;
  std::set<std::string> names;
  if (fs::exists(path_ / kIndexFile)) {
    SX_TRY(listed, read_index(path_ / kIndexFile));
    for (const auto& [tensor, file] : listed) names.insert(file);
  } else if (fs::exists(path_ / kOneFile)) {
    names.insert(kOneFile);
  } else if (fs::exists(path_ / "pytorch_model.bin") ||
             fs::exists(path_ / "pytorch_model.bin.index.json")) {
    return hf_error(ErrorKind::kUnsupported,
                    "pickled weights (pytorch_model.bin) are not read; save the model as "
                    "safetensors",
                    path_);
  } else {
    return hf_error(ErrorKind::kNotFound, fmt::format("neither {} nor {}", kOneFile, kIndexFile),
                    path_);
  }
  for (const std::string& name : names) {
    SX_TRY(safetensors::File file, safetensors::File::open(path_ / name));
    files_.push_back(std::make_unique<const safetensors::File>(std::move(file)));
    names_of_files_.push_back(name);
    for (const safetensors::Entry& entry : files_.back()->header().entries) {
      if (!listed.empty()) {
        const auto at = listed.find(entry.name);
        if (at == listed.end() || at->second != name) {
          return hf_error(ErrorKind::kCorrupt,
                          fmt::format("tensor \"{}\" is not listed for this file in {}", entry.name,
                                      kIndexFile),
                          path_ / name);
        }
      }
      tensors_[entry.name] = {files_.size() - 1, &entry};
    }
  }
  for (const auto& [tensor, file] : listed) {
    if (tensors_.contains(tensor)) continue;
    return hf_error(ErrorKind::kCorrupt,
                    fmt::format("tensor \"{}\" is listed in {} and not there", tensor, kIndexFile),
                    path_ / file);
  }
  return {};
}

Result<void> HfFolder::check_names() {
  // Files of a model without its head, and the oldest ones, have no prefix.
  const std::string_view prefix = hf_prefix(shape());
  const bool bare = !tensors_.contains(params_.front().tensor) &&
                    tensors_.contains(params_.front().tensor.substr(prefix.size()));
  if (bare) {
    for (HfParam& param : params_) {
      if (param.has_prefix) param.tensor.erase(0, prefix.size());
    }
  }
  std::vector<std::string> missing, unexpected, different;
  std::set<std::string> needed;
  for (const HfParam& param : params_) {
    if (!needed.insert(param.tensor).second) continue;
    const auto at = tensors_.find(param.tensor);
    if (at == tensors_.end()) {
      missing.push_back(param.tensor);
    } else if (at->second.entry->shape != param.tensor_shape) {
      different.push_back(fmt::format("{} [{}], not [{}]", param.tensor,
                                      fmt::join(at->second.entry->shape, ", "),
                                      fmt::join(param.tensor_shape, ", ")));
    } else if (!is_weight_dtype(at->second.entry->dtype)) {
      return hf_error(ErrorKind::kUnsupported,
                      fmt::format("tensor \"{}\" has dtype {}", param.tensor,
                                  safetensors::to_string(at->second.entry->dtype)),
                      path_ / names_of_files_[at->second.file]);
    }
  }
  std::string head;
  for (const auto& [tensor, where] : tensors_) {
    if (needed.contains(tensor) || is_hf_buffer(tensor)) continue;
    if (shape().tie_embeddings && tensor == kHfHead) {
      head = tensor;
    } else {
      unexpected.push_back(tensor);
    }
  }
  if (!missing.empty() || !unexpected.empty() || !different.empty()) {
    const auto list = [](const char* title, const std::vector<std::string>& names) {
      return names.empty() ? "" : fmt::format("; {}: {}", title, fmt::join(names, ", "));
    };
    return hf_error(
        ErrorKind::kInvalid,
        fmt::format("tensors and config.json differ{}{}{}", list("missing", missing),
                    list("unexpected", unexpected), list("of another shape", different)),
        path_);
  }
  return head.empty() ? Result<void>{} : check_tied_head(head);
}

Result<void> HfFolder::check_tied_head(const std::string& head) const {
  const auto bytes = [this](const std::string& name) {
    const Place& at = tensors_.at(name);
    return files_[at.file]->data(*at.entry);
  };
  const auto one = bytes(params_.front().tensor), two = bytes(head);
  if (one.size() == two.size() && std::memcmp(one.data(), two.data(), one.size()) == 0) return {};
  return hf_error(ErrorKind::kInvalid,
                  fmt::format("config.json: tie_word_embeddings is true, but \"{}\" differs from "
                              "\"{}\"",
                              head, params_.front().tensor),
                  path_ / names_of_files_[tensors_.at(head).file]);
}

const HfParam* HfFolder::find(const std::string& name) const {
  for (const HfParam& param : params_) {
    if (param.name == name) return &param;
  }
  return nullptr;
}

const HfFolder::Place& HfFolder::place(const HfParam& param) const {
  const auto at = tensors_.find(param.tensor);
  SX_CHECK(at != tensors_.end(), "tensor {} is not of this folder", param.tensor);
  return at->second;
}

safetensors::Dtype HfFolder::dtype(const HfParam& param) const { return place(param).entry->dtype; }

void HfFolder::read(const HfParam& param, std::int64_t begin, std::int64_t count,
                    std::byte* to) const {
  SX_CHECK(begin >= 0 && count >= 0 && count <= param.num_elements() - begin,
           "elements [{}, +{}) of {} in {}", begin, count, param.num_elements(), param.name);
  const Place& at = place(param);
  const std::byte* from = files_[at.file]->data(*at.entry).data();
  const auto element = static_cast<std::size_t>(safetensors::size_bytes(at.entry->dtype));
  const std::int64_t stored =
      std::clamp<std::int64_t>(param.rows * param.columns() - begin, 0, count);
  if (param.transposed) {
    read_turned(param, from, element, begin, stored, to);
  } else if (stored > 0) {
    const std::int64_t first = param.first * param.columns() + begin;
    std::memcpy(to, from + static_cast<std::size_t>(first) * element,
                static_cast<std::size_t>(stored) * element);
  }
  if (count > stored) {
    std::memset(to + static_cast<std::size_t>(stored) * element, 0,
                static_cast<std::size_t>(count - stored) * element);
  }
}

void HfFolder::release(const HfParam& param) const {
  const Place& at = place(param);
  files_[at.file]->release(*at.entry);
}

Result<std::map<std::string, std::string>> HfFolder::companions() const {
  std::map<std::string, std::string> files;
  for (const std::string& name : hf_companion_names()) {
    if (!fs::exists(path_ / name)) continue;
    SX_TRY(std::string text, read_file(path_ / name, kMaxCompanionBytes));
    files.emplace(name, std::move(text));
  }
  return files;
}

bool is_hf_folder(const fs::path& path) {
  return fs::exists(path / "config.json") && !fs::exists(path / "manifest.json");
}

std::vector<std::string> hf_companion_names() {
  return {"generation_config.json",  "tokenizer.json",    "tokenizer_config.json",
          "tokenizer.model",         "vocab.json",        "merges.txt",
          "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
          "chat_template.json"};
}

}  // namespace sx
