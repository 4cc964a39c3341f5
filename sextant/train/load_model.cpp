#include "sextant/train/load_model.h"

#include "sextant/base/diagnostic.h"
#include "sextant/base/log.h"
#include "sextant/ckpt/checkpoint.h"
#include "sextant/hf/hf_folder.h"
#include "sextant/tensor/dtype.h"
#include "sextant/train/hf_start.h"
#include "sextant/train/model_setup.h"

namespace sx {

namespace {

template <class T>
T loaded(Result<T> result, const fs::path& path) {
  if (result.ok()) return std::move(result).value();
  throw IoError(to_diagnostic(result.error(), "sextant ckpt verify " + path.string()));
}

fs::path require_checkpoint(const fs::path& path) {
  std::vector<std::string> rejected;
  const auto found = loaded(find_checkpoint(path, &rejected), path);
  for (const std::string& line : rejected) SX_LOG(kWarn, "ckpt.invalid", "folder", line);
  if (found) return *found;
  throw ConfigError(
      Diagnostic{.exit = ExitCode::kUser,
                 .number = 7,
                 .what = "no checkpoint in " + path.string(),
                 .where = path.string(),
                 .rule = "a run folder with ckpt/, or a checkpoint folder with manifest.json",
                 .next = "sextant doctor " + path.string()});
}

ModelShape read_shape(const Checkpoint& checkpoint) {
  const fs::path& folder = checkpoint.path();
  const std::string text = loaded(checkpoint.text("model.json"), folder);
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (json.is_discarded())
    loaded(Result<int>(Error{ErrorKind::kCorrupt, "not JSON", "model.json"}), folder);
  return loaded(model_shape_from_json(json), folder);
}

Tokenizer open_vocabulary(const fs::path& folder) {
  for (const char* name : {"vocab.tiktoken", "tokenizer.json", "tokenizer.model"}) {
    if (fs::exists(folder / name)) return loaded(Tokenizer::load(folder / name), folder / name);
  }
  return Tokenizer::bytes();
}

LoadedModel load_hf_model(const fs::path& path) {
  const HfFolder folder = open_hf_folder(path);
  LoadedModel model{std::make_unique<Decoder>(folder.shape()), open_vocabulary(path), 0};
  load_hf_whole(folder, *model.decoder);
  return model;
}

}  // namespace

LoadedModel load_model(const fs::path& path) {
  if (const fs::path named = hf_folder_of(path.string()); !named.empty()) {
    return load_hf_model(named);
  }
  if (is_hf_folder(path)) return load_hf_model(path);
  const fs::path folder = require_checkpoint(path);
  const Checkpoint checkpoint = loaded(Checkpoint::open(folder), folder);
  // What is used is compared with its hash: the model's shape, the tokenizer's files, every tensor.
  for (const auto& [name, file] : checkpoint.manifest().files) {
    if (name.starts_with("tokenizer/")) loaded(checkpoint.text(name), folder);
  }
  LoadedModel model{std::make_unique<Decoder>(read_shape(checkpoint)),
                    open_vocabulary(folder / "tokenizer"), checkpoint.step()};
  const auto parameters = model.decoder->parameters();
  model.decoder->allocate(loaded(checkpoint.load(parameters.front()->fqn), folder).scalar_type());
  std::vector<NamedTensor> named;
  for (Parameter* parameter : parameters)
    named.push_back({parameter->fqn, parameter->tensor.detach()});
  loaded(checkpoint.load_into(named), folder);
  return model;
}

}  // namespace sx
