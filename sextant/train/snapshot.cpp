#include "sextant/train/snapshot.h"

#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>

#include "sextant/base/diagnostic.h"

namespace sx {

namespace {

[[noreturn]] void fail_restore(const Error& error, const Checkpoint& checkpoint, int number,
                               const char* rule) {
  if (error.kind != ErrorKind::kInvalid) {
    throw IoError(to_diagnostic(error, "sextant ckpt verify " + checkpoint.path().string()));
  }
  throw ConfigError(Diagnostic{.exit = ExitCode::kUser,
                               .number = number,
                               .what = error.message,
                               .where = checkpoint.path().string(),
                               .rule = rule,
                               .next = "sextant ckpt inspect " + checkpoint.path().string()});
}

/// A checkpoint of a run in another dtype has no loss scale: it begins anew.
void restore_scaler(const Checkpoint& checkpoint, GradScaler& scaler, const char* rule) {
  const auto state = checkpoint.state("scaler");
  if (!state.ok() && state.error().kind == ErrorKind::kNotFound) return;
  if (!state.ok()) fail_restore(state.error(), checkpoint, 21, rule);
  try {
    scaler.restore({state->at("scale").get<double>(), state->at("good_steps").get<std::int64_t>(),
                    state->at("bad_steps_left").get<std::int64_t>()});
  } catch (const nlohmann::json::exception& e) {
    fail_restore({ErrorKind::kCorrupt, e.what(), "state/scaler.json"}, checkpoint, 21, rule);
  }
}

}  // namespace

void TrainProgress::add_step(std::int64_t step_tokens, bool skipped, bool overflow) {
  ++step;
  tokens += step_tokens;
  skipped_steps += skipped || overflow ? 1 : 0;
  if (overflow) return;
  skipped_in_row = skipped ? skipped_in_row + 1 : 0;
}

CheckpointContent make_snapshot(ParallelModel& model, const Loader& loader,
                                const TrainProgress& progress, const std::string& fingerprint,
                                const std::map<std::string, std::string>& files) {
  CheckpointContent content;
  content.step = progress.step;
  content.tokens = progress.tokens;
  content.samples = static_cast<std::int64_t>(loader.state().position);
  content.fingerprint = fingerprint;
  content.mesh = {{"dp_replicate", model.comms->num_replicas()},
                  {"dp_shard", model.comms->num_shards()}};
  content.model_parts = model.parameters();
  content.optim_parts = model.optimizer_state();
  content.states["loader"] = loader.state().to_json();
  content.states["trainer"] = {{"step", progress.step},
                               {"tokens", progress.tokens},
                               {"skipped_steps", progress.skipped_steps},
                               {"skipped_in_row", progress.skipped_in_row},
                               {"optimizer_steps", model.optimizer->num_steps()}};
  if (model.scaler) {
    const GradScaler::State state = model.scaler->state();
    content.states["scaler"] = {{"scale", state.scale},
                                {"good_steps", state.good_steps},
                                {"bad_steps_left", state.bad_steps_left}};
  }
  content.files = files;
  return content;
}

namespace {

/// A checkpoint of weights alone, as an import makes it: into the run's dtype, every tensor
/// compared with its checksum; step, moments and data begin anew.
void load_weights(const Checkpoint& checkpoint, ParallelModel& model, const char* names_rule) {
  const c10::AutoGradMode no_grad(false);
  for (const TensorPart& part : model.parameters()) {
    const auto stored = checkpoint.load(part.name);
    if (!stored.ok()) fail_restore(stored.error(), checkpoint, 21, names_rule);
    if (stored->sizes() != at::IntArrayRef(part.shape)) {
      fail_restore({ErrorKind::kInvalid, part.name + " has another shape there", ""}, checkpoint,
                   21, names_rule);
    }
    const at::Tensor flat = stored->view({-1});
    at::Tensor values = part.values.detach();
    for_each_run(part.shape, part.region,
                 [&](std::int64_t first, std::int64_t local, std::int64_t count) {
                   values.narrow(0, local, count).copy_(flat.narrow(0, first, count));
                 });
  }
  model.engine->publish();
}

}  // namespace

Restored restore_snapshot(const Checkpoint& checkpoint, ParallelModel& model, Loader* loader,
                          Communicator& world, const CheckpointKeys& keys) {
  const char* names_rule = "a checkpoint holds exactly the tensors of the model it is loaded into";
  Restored out;
  if (!checkpoint.manifest().states.contains("trainer")) {
    load_weights(checkpoint, model, names_rule);
    return out;
  }
  LoadOptions options{.exclude = keys.load_exclude, .strict = keys.load_strict};
  const auto load = [&](const std::vector<TensorPart>& parts) {
    auto found = checkpoint.load_parts(parts, options, &world);
    if (!found.ok()) fail_restore(found.error(), checkpoint, 21, names_rule);
    const auto append = [](std::vector<std::string>& to, const std::vector<std::string>& names) {
      to.insert(to.end(), names.begin(), names.end());
    };
    append(out.report.missing, found->missing);
    append(out.report.unexpected, found->unexpected);
  };
  load(model.parameters());
  model.engine->publish();
  options.prefix = "optim.";
  load(model.optimizer_state());

  if (model.scaler) restore_scaler(checkpoint, *model.scaler, names_rule);
  const auto loader_json = checkpoint.state("loader");
  if (!loader_json.ok()) fail_restore(loader_json.error(), checkpoint, 21, names_rule);
  const auto loader_state = LoaderState::from_json(*loader_json);
  if (!loader_state.ok()) fail_restore(loader_state.error(), checkpoint, 33, "");
  if (loader != nullptr) {
    const auto restored = loader->restore(*loader_state);
    if (!restored.ok()) {
      fail_restore(restored.error(), checkpoint, 33,
                   "a run goes on with the data, order and block size it began with");
    }
  }

  const auto trainer = checkpoint.state("trainer");
  if (!trainer.ok()) fail_restore(trainer.error(), checkpoint, 21, names_rule);
  try {
    model.optimizer->set_num_steps(trainer->at("optimizer_steps").get<std::int64_t>());
    out.progress = {trainer->at("step").get<std::int64_t>(),
                    trainer->at("tokens").get<std::int64_t>(),
                    trainer->at("skipped_steps").get<std::int64_t>(),
                    trainer->value("skipped_in_row", std::int64_t{0})};
    return out;
  } catch (const nlohmann::json::exception& e) {
    fail_restore({ErrorKind::kCorrupt, e.what(), "state/trainer.json"}, checkpoint, 21, names_rule);
  }
}

}  // namespace sx
