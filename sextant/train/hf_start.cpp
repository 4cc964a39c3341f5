// Weights from a folder of Hugging Face into parameters, by range.
#include "sextant/train/hf_start.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "sextant/base/diagnostic.h"
#include "sextant/ckpt/safetensors.h"

namespace sx {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // elements converted at a time

std::byte* bytes_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

void load_part(const HfFolder& folder, const HfParam& param, const TensorPart& part) {
  const at::ScalarType stored = to_scalar_type(folder.dtype(param));
  const bool direct = stored == part.values.scalar_type() && part.values.is_contiguous();
  const at::Tensor chunk = at::empty({direct ? 0 : std::min(part.values.numel(), kChunk)}, stored);
  at::Tensor values = part.values.detach();
  for_each_run(part.shape, part.region,
               [&](std::int64_t first, std::int64_t local, std::int64_t count) {
                 if (direct) {
                   folder.read(param, first, count, bytes_of(values.narrow(0, local, count)));
                   return;
                 }
                 for (std::int64_t done = 0; done < count; done += kChunk) {
                   const std::int64_t n = std::min(kChunk, count - done);
                   folder.read(param, first + done, n, bytes_of(chunk));
                   values.narrow(0, local + done, n).copy_(chunk.narrow(0, 0, n));
                 }
               });
  folder.release(param);
}

}  // namespace

fs::path hf_folder_of(std::string_view path) {
  return path.starts_with(kHfPathPrefix) ? fs::path(path.substr(kHfPathPrefix.size())) : fs::path();
}

void throw_hf_fault(const Error& error, const fs::path& path) {
  const auto fault = [&](int number, const char* rule) {
    return ConfigError(Diagnostic{.exit = ExitCode::kUser,
                                  .number = number,
                                  .what = error.message,
                                  .where = error.where.empty() ? path.string() : error.where,
                                  .rule = rule,
                                  .next = "ls " + path.string()});
  };
  if (error.kind == ErrorKind::kUnsupported) {
    throw fault(41, "what changes a model is built or refused, never passed over");
  }
  if (error.kind == ErrorKind::kInvalid) {
    throw fault(21, "config.json and the weights beside it describe one model");
  }
  const Diagnostic diagnostic = to_diagnostic(error, "ls " + path.string());
  if (diagnostic.exit == ExitCode::kUser) throw ConfigError(diagnostic);
  throw IoError(diagnostic);
}

HfFolder open_hf_folder(const fs::path& folder, std::int64_t vocab_pad_to) {
  auto opened = HfFolder::open(folder, vocab_pad_to);
  if (!opened.ok()) throw_hf_fault(opened.error(), folder);
  return std::move(opened).value();
}

void load_hf_parts(const HfFolder& folder, std::span<const TensorPart> parts) {
  std::vector<std::string> faults;
  std::set<std::string> wanted;
  for (const TensorPart& part : parts) {
    wanted.insert(part.name);
    const HfParam* param = folder.find(part.name);
    if (param == nullptr) {
      faults.push_back(part.name + " is not in the folder");
    } else if (param->shape != part.shape) {
      faults.push_back(fmt::format("{} is [{}] there, [{}] here", part.name,
                                   fmt::join(param->shape, ", "), fmt::join(part.shape, ", ")));
    }
  }
  for (const HfParam& param : folder.params()) {
    if (!wanted.contains(param.name)) faults.push_back(param.name + " is not in this model");
  }
  if (!faults.empty()) {
    throw ConfigError(Diagnostic{
        .exit = ExitCode::kUser,
        .number = 21,
        .what = fmt::format("{}", fmt::join(faults, "; ")),
        .where = folder.path().string(),
        .rule = "the keys model.* describe the model of config.json",
        .next =
            fmt::format("--set model.preset=hf:{}, no other model keys", folder.path().string())});
  }
  const c10::AutoGradMode no_grad(false);
  for (const TensorPart& part : parts) load_part(folder, *folder.find(part.name), part);
}

std::vector<std::string> hf_differences(const ModelShape& model, const ModelShape& folder) {
  std::vector<std::string> list;
  const auto compare = [&list](const char* name, const auto& here, const auto& there) {
    if (here != there) list.push_back(fmt::format("{} {}, not {}", name, here, there));
  };
  compare("rope_theta", model.rope_theta, folder.rope_theta);
  compare("rope_scaling.type", std::string(to_string(model.rope_scaling.kind)),
          std::string(to_string(folder.rope_scaling.kind)));
  if (model.rope_scaling.kind == folder.rope_scaling.kind &&
      !(model.rope_scaling == folder.rope_scaling)) {
    list.emplace_back("rope_scaling has other numbers");
  }
  compare("norm_eps", model.norm_eps, folder.norm_eps);
  compare("activation", std::string(to_string(model.activation)),
          std::string(to_string(folder.activation)));
  compare("num_heads", model.num_heads, folder.num_heads);
  compare("num_heads_kv", model.num_heads_kv, folder.num_heads_kv);
  compare("vocab_size", model.vocab_size, folder.vocab_size);
  return list;
}

std::map<std::string, std::string> carried_hf_files(const fs::path& folder,
                                                    const std::optional<fs::path>& resume_from) {
  const fs::path from = !folder.empty() ? folder : resume_from ? *resume_from / "hf" : fs::path();
  std::map<std::string, std::string> files;
  if (from.empty() || !fs::exists(from)) return files;
  std::vector<std::string> names = hf_companion_names();
  names.emplace_back("config.json");
  for (const std::string& name : names) {
    if (!fs::exists(from / name)) continue;
    auto text = read_file(from / name);
    if (!text.ok()) throw IoError(to_diagnostic(text.error(), "ls " + from.string()));
    files.emplace(name, *std::move(text));
  }
  return files;
}

void load_hf_whole(const HfFolder& folder, Decoder& decoder) {
  const at::ScalarType stored = to_scalar_type(folder.dtype(folder.params().front()));
  decoder.allocate(stored == at::kHalf ? at::kFloat : stored);
  std::vector<TensorPart> parts;
  for (Parameter* parameter : decoder.parameters()) {
    parts.push_back({parameter->fqn, parameter->shape, Region::whole(parameter->shape),
                     parameter->tensor.detach().view({-1})});
    parameter->initialized = true;
  }
  load_hf_parts(folder, parts);
}

}  // namespace sx
