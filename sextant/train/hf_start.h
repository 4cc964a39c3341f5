#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/ckpt/checkpoint.h"
#include "sextant/hf/hf_folder.h"
#include "sextant/nn/decoder.h"
#include "sextant/shape/model_shape.h"

namespace sx {

/// The folder of a path "hf:DIR". Empty for other paths.
fs::path hf_folder_of(std::string_view path);

/// Errors: ConfigError (SX2-007 absent, SX2-021 names or shapes that do not fit, SX2-041 a part of
/// config.json that is not built here), IoError (corrupt).
HfFolder open_hf_folder(const fs::path& folder, std::int64_t vocab_pad_to = 128);

/// What `open_hf_folder` throws for `error`, met with a foreign model at `path`.
[[noreturn]] void throw_hf_fault(const Error& error, const fs::path& path);

/// Fills parts of a model's parameters, whatever mesh they are cut for, from a folder: each rank
/// reads the bytes of its own parts. Wider dtypes take values exactly, narrower ones round to
/// nearest. Host memory besides: a few MiB.
/// Errors:  ConfigError SX2-021 listing the parameters whose names or shapes differ.
void load_hf_parts(const HfFolder& folder, std::span<const TensorPart> parts);

/// Fields in which a model computes otherwise than the one its weights come from, as "rope_theta
/// 10000, not 500000"; sizes are the business of `load_hf_parts`.
std::vector<std::string> hf_differences(const ModelShape& model, const ModelShape& folder);

/// Files that travel with weights of Hugging Face's through our checkpoints, by name: their
/// config.json, tokenizer and generation files. From `folder`, or when that is empty from the
/// folder hf/ of the checkpoint `resume_from`. Errors: IoError.
std::map<std::string, std::string> carried_hf_files(const fs::path& folder,
                                                    const std::optional<fs::path>& resume_from);

/// For inference: parameters in the folder's dtype, fp16 as fp32.
void load_hf_whole(const HfFolder& folder, Decoder& decoder);

}  // namespace sx
