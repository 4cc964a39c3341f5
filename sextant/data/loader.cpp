#include "sextant/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"
#include "sextant/base/log.h"
#include "sextant/data/batch_maker.h"
#include "sextant/data/order.h"
#include "sextant/data/read_ahead.h"

namespace sx {

namespace {

using Pass = LoaderOptions::Pass;

void check_options(const LoaderOptions& options) {
  SX_CHECK(options.seq_len > 0 && options.block_tokens >= 0, "seq_len {}, block_tokens {}",
           options.seq_len, options.block_tokens);
  SX_CHECK(options.micro_batch_size > 0 && options.micro_batches > 0, "{} microbatches of {} rows",
           options.micro_batches, options.micro_batch_size);
  SX_CHECK(
      options.data_world > 0 && options.data_rank >= 0 && options.data_rank < options.data_world,
      "data rank {} of {}", options.data_rank, options.data_world);
  SX_CHECK(options.workers >= 0 && options.lookahead_batches > 0, "{} workers, {} batches ahead",
           options.workers, options.lookahead_batches);
}

Result<void> check_seq_len(std::int64_t seq_len, std::int64_t block) {
  if (seq_len % block == 0) return {};
  const std::int64_t below = seq_len / block * block;
  return Error{
      ErrorKind::kInvalid,
      fmt::format("sequence length {} is no multiple of the block of {} tokens; nearest: {}{}",
                  seq_len, block, below > 0 ? fmt::format("{} or ", below) : "", below + block),
      "training.seq_len"};
}

Result<Hash128> parse_hash(const std::string& hex) {
  Hash128 hash;
  if (hex.empty()) return hash;
  if (hex.size() != 32)
    return Error{ErrorKind::kInvalid, "consumed_hash is not 32 hex digits", hex};
  hash.high = std::stoull(hex.substr(0, 16), nullptr, 16);
  hash.low = std::stoull(hex.substr(16), nullptr, 16);
  return hash;
}

}  // namespace

struct Loader::Impl {
  std::shared_ptr<const Dataset> dataset;
  LoaderOptions options;
  std::optional<NativeOrder> order;  ///< training
  std::shared_ptr<const BatchMaker> maker;
  std::unique_ptr<ReadAhead> ahead;  ///< started by the first next()
  std::uint64_t given = 0;           ///< microbatches since `maker` was made
  std::uint64_t steps_hashed = 0;    ///< steps of them that `consumed` holds
  Hash128 consumed;
  Seconds waited{};

  void start_at(std::uint64_t position, const Hash128& hash) {
    ahead.reset();
    if (dataset->megatron()) {
      maker = std::make_shared<BatchMaker>(dataset, MegatronOrder(dataset->megatron()), options,
                                           position);
    } else if (order) {
      maker = std::make_shared<BatchMaker>(dataset, *order, options, position);
    } else {
      const SequentialOrder pass(*dataset, static_cast<std::uint64_t>(options.block_tokens));
      maker = std::make_shared<BatchMaker>(dataset, pass, options, position);
    }
    given = 0;
    steps_hashed = 0;
    consumed = hash;
  }

  /// Takes over the history of weights; weights that differ from its last entry change at the
  /// state's position.
  Result<void> restore_weights(const LoaderState& state) {
    const Error bad{ErrorKind::kInvalid, "weights_history does not fit this run's data",
                    "loader state"};
    std::vector<std::uint64_t> now;
    for (const DatasetMember& member : dataset->members()) now.push_back(member.weight);
    std::optional<NativeBlend> blend;
    for (const auto& [position, weights] : state.weights_history) {
      bool positive = false;
      for (const std::uint64_t weight : weights) {
        if (weight > std::uint64_t{1} << 31) return bad;
        positive = positive || weight > 0;
      }
      if (!positive || weights.size() != now.size() || position > state.position) return bad;
      if (!blend && position != 0) return bad;
      if (blend) {
        blend->change_weights(position, weights);
      } else {
        blend.emplace(weights);
      }
    }
    if (!blend) return bad;
    if (blend->segments().back().weights != now) blend->change_weights(state.position, now);
    order->blend() = *std::move(blend);
    return {};
  }

  /// With another number of samples, Megatron-LM's order may differ in what was already consumed:
  /// says in how many places.
  Result<void> compare_orders(const LoaderState& state) const {
    const auto& here = dataset->megatron();
    if (state.samples == here->requested()) return {};
    SX_TRY(const std::shared_ptr<const MegatronDataset> before, here->with_samples(state.samples));
    const MegatronOrder then(before), now(here);
    std::uint64_t differing = 0;
    const std::uint64_t both = std::min({state.position, then.size(), now.size()});
    for (std::uint64_t k = 0; k < both; ++k) differing += then.at(k) == now.at(k) ? 0 : 1;
    differing += state.position - both;
    if (differing > 0) {
      SX_LOG(kWarn, "data.reordered", "consumed", state.position, "differ", differing,
             "samples_before", state.samples ? fmt::format("{}", *state.samples) : "all",
             "samples_now", here->requested() ? fmt::format("{}", *here->requested()) : "all");
    }
    return {};
  }

  const char* mode() const { return dataset->megatron() ? "megatron" : "native"; }

  Result<Batch> take() {
    if (options.workers == 0) return maker->make(given);
    if (!ahead) {
      ahead = std::make_unique<ReadAhead>(
          [maker = maker](std::uint64_t index) { return maker->make(index); }, options.workers,
          options.lookahead_batches);
    }
    return ahead->next(options.stall_timeout);
  }
};

Loader::Loader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;
Loader::~Loader() = default;

Result<Loader> Loader::open(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options) {
  check_options(options);
  auto impl = std::make_unique<Impl>();
  impl->dataset = std::move(dataset);
  impl->options = options;
  LoaderOptions& own = impl->options;
  // An evaluation pass has no use for smaller blocks: it is never resumed at another length.
  if (own.block_tokens == 0 || own.pass == Pass::kEval) own.block_tokens = own.seq_len;
  if (!own.pool) own.pool = HostPool::make();
  SX_TRY_VOID(check_seq_len(own.seq_len, own.block_tokens));
  if (const auto& megatron = impl->dataset->megatron()) {
    const MegatronConfig& config = megatron->config();
    SX_CHECK(config.seq_len == static_cast<std::uint64_t>(own.seq_len) &&
                 own.block_tokens == own.seq_len,
             "samples of {} tokens as rows of {}", config.seq_len, own.seq_len);
    own.seed = config.seed;
  } else if (own.pass == Pass::kTrain) {
    SX_TRY(NativeOrder order,
           NativeOrder::make(impl->dataset, {own.seed, static_cast<std::uint64_t>(own.block_tokens),
                                             own.shuffle}));
    impl->order.emplace(std::move(order));
  }
  impl->start_at(0, {});
  return Loader(std::move(impl));
}

Result<Batch> Loader::next() {
  Impl& impl = *impl_;
  const std::uint64_t steps = impl.maker->num_steps();
  if (impl.maker->has_end() &&
      impl.given >= steps * static_cast<std::uint64_t>(impl.options.micro_batches)) {
    return Error{ErrorKind::kNotFound, "end of pass", fmt::format("step {}", steps)};
  }
  const auto begin = std::chrono::steady_clock::now();
  Result<Batch> batch = impl.take();
  impl.waited.value +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (batch.ok()) {
    ++impl.given;
    if (batch->cursor.last_of_step())
      impl.consumed = impl.maker->hash_step(impl.consumed, impl.steps_hashed++);
  }
  return batch;
}

LoaderState Loader::state() const {
  const Impl& impl = *impl_;
  LoaderState state;
  state.mode = impl.mode();
  if (impl.dataset->megatron()) state.samples = impl.dataset->megatron()->requested();
  state.plan_hash = impl.dataset->plan_hash();
  state.position = impl.maker->position_of_step(impl.steps_hashed);
  state.seed = impl.options.seed;
  state.block_tokens = static_cast<std::uint64_t>(impl.options.block_tokens);
  state.seq_len = static_cast<std::uint64_t>(impl.options.seq_len);
  if (impl.order) {
    for (const NativeBlend::Segment& segment : impl.order->blend().segments()) {
      state.weights_history.push_back({segment.position, segment.weights});
    }
  }
  state.consumed_hash = impl.consumed.hex();
  return state;
}

Result<void> Loader::restore(const LoaderState& state, bool allow_change) {
  Impl& impl = *impl_;
  const auto refuse = [](std::string message) {
    return Error{ErrorKind::kInvalid, std::move(message), "loader state"};
  };
  if (state.unit != "block" || !state.skips.empty() || state.pack != LoaderState::Pack{}) {
    return Error{ErrorKind::kUnsupported, "only states of unit block, without skips are read here",
                 "loader state"};
  }
  if (impl.options.pass == Pass::kEval) return refuse("an evaluation pass is not resumed");
  if (state.mode != impl.mode()) {
    return refuse(fmt::format("the state's order is {}, this run's {}", state.mode, impl.mode()));
  }
  if (state.seed != impl.options.seed) {
    return refuse(
        fmt::format("the state's seed is {}, this run's {}", state.seed, impl.options.seed));
  }
  if (state.block_tokens != static_cast<std::uint64_t>(impl.options.block_tokens)) {
    return refuse(fmt::format("the state's blocks have {} tokens, this run's {}",
                              state.block_tokens, impl.options.block_tokens));
  }
  if (!allow_change && !impl.options.allow_change && state.plan_hash != impl.dataset->plan_hash()) {
    return refuse(fmt::format("the data plan changed: hash {} in the state, {} here",
                              state.plan_hash, impl.dataset->plan_hash()));
  }
  SX_TRY(const Hash128 hash, parse_hash(state.consumed_hash));
  if (state.position >= std::uint64_t{1} << 62) return refuse("position out of range");
  if (impl.dataset->megatron()) {
    SX_TRY_VOID(impl.compare_orders(state));
  } else {
    SX_TRY_VOID(impl.restore_weights(state));
  }
  impl.start_at(state.position, hash);
  return {};
}

void Loader::rewind() { impl_->start_at(0, {}); }

std::uint64_t Loader::global_batch_size() const { return impl_->maker->rows_per_step(); }

std::uint64_t Loader::tokens_per_step() const {
  return global_batch_size() * static_cast<std::uint64_t>(impl_->options.seq_len);
}

std::uint64_t Loader::num_steps() const { return impl_->maker->num_steps(); }

std::uint64_t Loader::num_eval_tokens() const {
  if (impl_->options.pass == Pass::kTrain) return 0;
  if (const auto& megatron = impl_->dataset->megatron()) {
    return megatron->size() * megatron->config().seq_len;
  }
  return SequentialOrder(*impl_->dataset, static_cast<std::uint64_t>(impl_->options.block_tokens))
      .num_targets();
}

double Loader::epoch() const {
  const std::uint64_t position = impl_->maker->position_of_step(impl_->steps_hashed);
  if (const auto& megatron = impl_->dataset->megatron()) {
    const GptIndexCounts& counts = megatron->members()[0]->counts();
    return static_cast<double>(position) /
           static_cast<double>(std::max<std::uint64_t>(megatron->size(), 1)) *
           static_cast<double>(counts.epochs);
  }
  if (!impl_->order) return 0;
  return static_cast<double>(impl_->order->blend().counts(position)[0]) /
         static_cast<double>(impl_->order->blocks_per_epoch(0));
}

Seconds Loader::take_wait() { return std::exchange(impl_->waited, Seconds{}); }

}  // namespace sx
