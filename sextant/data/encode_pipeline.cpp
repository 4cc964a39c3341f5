#include "sextant/data/encode_pipeline.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

namespace sx {

namespace {

struct Job {
  EncodeChunk chunk;
  std::optional<Error> error;
  bool done = false;
};

Result<void> encode(Encoder& encoder, EncodeChunk& chunk) {
  for (EncodeChunk::Document& document : chunk.documents) {
    if (document.bad) continue;
    SX_TRY(const EncodeStats stats, encoder.encode(document.text, document.ids));
    (void)stats;
  }
  return {};
}

}  // namespace

struct EncodePipeline::State {
  State(const Tokenizer& t, int threads)
      : tokenizer(t), workers(static_cast<std::size_t>(threads)), pool(workers) {}

  Tokenizer tokenizer;
  std::size_t workers;
  std::mutex mutex;
  std::condition_variable done;
  std::deque<std::shared_ptr<Job>> jobs;
  std::vector<std::unique_ptr<Encoder>> idle;  ///< each holds one thread's cache
  ThreadPool pool;                             ///< last: its threads use what stands above

  std::unique_ptr<Encoder> take_encoder() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<Encoder>(tokenizer);
    auto encoder = std::move(idle.back());
    idle.pop_back();
    return encoder;
  }

  void run(Job& job) {
    std::optional<Error> error;
    std::unique_ptr<Encoder> encoder;
    try {
      encoder = take_encoder();
      const Result<void> status = encode(*encoder, job.chunk);
      if (!status.ok()) error = status.error();
    } catch (const std::exception& thrown) {
      error = Error{ErrorKind::kInternal, thrown.what(), "encoder"};
    }
    const std::lock_guard lock(mutex);
    if (encoder) idle.push_back(std::move(encoder));
    job.error = std::move(error);
    job.done = true;
    done.notify_all();
  }
};

EncodePipeline::EncodePipeline(const Tokenizer& tokenizer, int threads)
    : state_(std::make_unique<State>(tokenizer, threads)) {}

EncodePipeline::~EncodePipeline() = default;

void EncodePipeline::submit(EncodeChunk chunk) {
  auto job = std::make_shared<Job>();
  job->chunk = std::move(chunk);
  state_->jobs.push_back(job);
  state_->pool.submit([state = state_.get(), job] { state->run(*job); });
}

std::size_t EncodePipeline::in_flight() const { return state_->jobs.size(); }

bool EncodePipeline::full() const { return state_->jobs.size() >= 2 * state_->workers + 1; }

Result<EncodeChunk> EncodePipeline::take() {
  const std::shared_ptr<Job> job = std::move(state_->jobs.front());
  state_->jobs.pop_front();
  std::unique_lock lock(state_->mutex);
  state_->done.wait(lock, [&] { return job->done; });
  if (job->error) return *job->error;
  return std::move(job->chunk);
}

}  // namespace sx
