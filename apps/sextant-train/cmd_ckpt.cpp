#include <fmt/format.h>

#include "apps/sextant-train/commands.h"
#include "sextant/base/diagnostic.h"
#include "sextant/base/units.h"
#include "sextant/ckpt/checkpoint.h"
#include "sextant/ckpt/diff.h"
#include "sextant/ckpt/rewrite.h"
#include "sextant/convert/convert.h"
#include "sextant/train/hf_start.h"

namespace sx {

namespace {

template <class T>
T value_of(Result<T> result, const std::string& next = "sextant doctor RUN") {
  if (!result.ok()) throw IoError(to_diagnostic(result.error(), next));
  return std::move(result).value();
}

// Without a checkpoint the path itself: what is missing there is the message wanted.
fs::path checkpoint_of(const fs::path& path, std::vector<std::string>* rejected = nullptr) {
  return value_of(find_checkpoint(path, rejected), "sextant doctor " + path.string())
      .value_or(path);
}

// Besides a checkpoint that is named itself, the newest one counts, whatever was passed over.
fs::path checkpoint_to_read(const fs::path& path) {
  std::vector<std::string> rejected;
  const fs::path found = checkpoint_of(path, &rejected);
  if (!rejected.empty()) {
    throw IoError(Diagnostic{.exit = ExitCode::kIo,
                             .number = 3,
                             .what = "the newest checkpoint is damaged: " + rejected.front(),
                             .where = path.string(),
                             .rule = "the bytes break their format",
                             .next = "name another one: " + found.string()});
  }
  return found;
}

Checkpoint open_checkpoint(const fs::path& path) {
  return value_of(Checkpoint::open(checkpoint_to_read(path)),
                  "sextant ckpt verify " + path.string());
}

int inspect(const Invocation& invocation) {
  const fs::path path = checkpoint_to_read(invocation.inputs.front());
  const std::string tensor = invocation.text("tensor");
  if (invocation.json) {
    fmt::print("{}\n", value_of(inspect_checkpoint_json(path, tensor)).dump());
  } else {
    fmt::print("{}", value_of(inspect_checkpoint(path, tensor)));
  }
  return 0;
}

int verify(const Invocation& invocation) {
  std::vector<std::string> faults;
  const fs::path path = checkpoint_of(invocation.inputs.front(), &faults);
  const bool passed_over = !faults.empty();
  for (std::string& fault : value_of(verify_checkpoint(path))) faults.push_back(std::move(fault));
  if (invocation.json) {
    const nlohmann::ordered_json out{
        {"path", path.string()}, {"whole", faults.empty()}, {"faults", faults}};
    fmt::print("{}\n", out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    for (const std::string& fault : faults) fmt::print("{}\n", fault);
    fmt::print("{}: {}\n", path.string(),
               faults.empty() ? "whole" : fmt::format("{} faults", faults.size()));
    if (passed_over) fmt::print("a resume would pass over what is newer than it\n");
  }
  return static_cast<int>(faults.empty() ? ExitCode::kOk : ExitCode::kVerdict);
}

int diff(const Invocation& invocation) {
  const Checkpoint a = open_checkpoint(invocation.inputs[0]);
  const Checkpoint b = open_checkpoint(invocation.inputs[1]);
  const CheckpointDifference difference = value_of(diff_checkpoints(a, b));
  fmt::print("{}", invocation.json ? difference.to_json().dump() + "\n" : difference.to_text());
  return static_cast<int>(difference.same() ? ExitCode::kOk : ExitCode::kVerdict);
}

void print_plan(const std::vector<PlannedFile>& files, bool json) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const PlannedFile& file : files) {
    if (json) {
      rows.push_back({{"file", file.name}, {"bytes", file.bytes}, {"chunks", file.chunks}});
    } else {
      fmt::print("{}  {}  {} chunks\n", file.name, format_bytes(Bytes(file.bytes)), file.chunks);
    }
  }
  if (json) fmt::print("{}\n", rows.dump());
}

// The same tensors in `num_files` files.
int rewrite(const Invocation& invocation, std::int64_t num_files, bool plan_only) {
  const Checkpoint from = open_checkpoint(invocation.inputs[0]);
  const std::vector<StreamedTensor> tensors = streamed_tensors(from);
  if (plan_only) {
    print_plan(plan_streamed(tensors, num_files), invocation.json);
    return 0;
  }
  CheckpointFacts facts = value_of(facts_of(from), "sextant ckpt verify " + from.path().string());
  facts.mesh = {{"dp_shard", num_files}};
  const SaveReport report =
      value_of(write_streamed(invocation.inputs[1], facts, tensors, num_files), "another DST");
  if (invocation.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"path", report.path.string()},
                                              {"bytes", report.bytes},
                                              {"seconds", report.seconds}}
                           .dump());
  } else {
    fmt::print("{}: {}\n", report.path.string(), format_bytes(Bytes(report.bytes)));
  }
  return 0;
}

int reshard(const Invocation& invocation) {
  return rewrite(invocation, invocation.integer("ranks", 1), invocation.has("plan"));
}

ConvertOptions convert_options(const Invocation& invocation) {
  ConvertOptions options;
  if (invocation.has("shard-bytes")) {
    options.shard_bytes = static_cast<std::uint64_t>(
        parse_bytes(invocation.text("shard-bytes")).value().value);  // checked by the parser
  }
  options.prefix = invocation.text("prefix");
  const std::string dtype = invocation.text("dtype", "auto");
  if (dtype == "fp32") options.dtype = safetensors::Dtype::kF32;
  if (dtype == "fp16") options.dtype = safetensors::Dtype::kF16;
  if (dtype == "bf16") options.dtype = safetensors::Dtype::kBF16;
  return options;
}

// A model of Hugging Face's that cannot be read is told of as where it starts a run.
int report_converted(const Invocation& invocation, Result<Converted> result) {
  if (!result.ok()) throw_hf_fault(result.error(), invocation.inputs[0]);
  if (invocation.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"path", result->path.string()},
                                              {"tensors", result->tensors},
                                              {"bytes", result->bytes}}
                           .dump());
  } else {
    fmt::print("{}: {} tensors, {}\n", result->path.string(), result->tensors,
               format_bytes(Bytes(static_cast<std::int64_t>(result->bytes))));
  }
  return 0;
}

// One row per pair of formats.
struct Conversion {
  const char* from;
  const char* to;
  int (*run)(const Invocation& invocation);
};
constexpr Conversion kConversions[] = {
    {"sextant", "sextant",
     [](const Invocation& invocation) { return rewrite(invocation, 1, false); }},
    {"hf", "sextant",
     [](const Invocation& invocation) {
       return report_converted(invocation, import_hf(invocation.inputs[0], invocation.inputs[1]));
     }},
    {"sextant", "hf",
     [](const Invocation& invocation) {
       return report_converted(
           invocation, export_hf(checkpoint_to_read(invocation.inputs[0]), invocation.inputs[1],
                                 convert_options(invocation)));
     }},
    {"dcp", "hf",
     [](const Invocation& invocation) {
       return report_converted(invocation, export_dcp(invocation.inputs[0], invocation.inputs[1],
                                                      convert_options(invocation)));
     }},
};

int convert(const Invocation& invocation) {
  const std::string from = invocation.text("from", "sextant");
  const std::string to = invocation.text("to", "sextant");
  for (const Conversion& conversion : kConversions) {
    if (from == conversion.from && to == conversion.to) return conversion.run(invocation);
  }
  throw ConfigError(Diagnostic{.exit = ExitCode::kUser,
                               .number = 9,
                               .what = fmt::format("no conversion from {} to {}", from, to),
                               .where = "ckpt convert",
                               .rule = "legal, but not handled here",
                               .next = "sextant ckpt convert --help"});
}

}  // namespace

int run_ckpt(const Invocation& invocation) {
  const std::string& name = invocation.sub->name;
  if (name == "verify") return verify(invocation);
  if (name == "diff") return diff(invocation);
  if (name == "reshard") return reshard(invocation);
  if (name == "convert") return convert(invocation);
  return inspect(invocation);
}

}  // namespace sx
