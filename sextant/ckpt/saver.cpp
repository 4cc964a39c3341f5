// Saving beside training. What the ranks' writers agree on goes through files, because the
// communicators belong to the ranks' threads.
#include "sextant/ckpt/saver.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/clock.h"
#include "sextant/ckpt/agree.h"
#include "sextant/ckpt/checkpoint_list.h"
#include "sextant/ckpt/commit.h"
#include "sextant/ckpt/save_plan.h"

namespace sx {
namespace {

std::string part_name(std::int64_t coord) { return fmt::format("part-{:05}.json", coord); }

double seconds_since(std::int64_t begin) {
  return static_cast<double>(monotonic_microseconds() - begin) * 1e-6;
}

std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

/// Memory for copies, kept from save to save. Anonymous pages of its own, so that it neither
/// splits the heap nor is given back in between.
struct CheckpointSaver::Staging {
  char* memory = nullptr;
  std::size_t bytes = 0;

  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging() { release(); }

  void release() {
    if (memory != nullptr) munmap(memory, bytes);
    memory = nullptr;
    bytes = 0;
  }

  Result<void> reserve(std::size_t wanted) {
    if (wanted <= bytes) return {};
    release();
    void* got = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) {
      return Error{ErrorKind::kIo, fmt::format("no memory for {} bytes to copy into", wanted), ""};
    }
    madvise(got, wanted, MADV_HUGEPAGE);
    memory = static_cast<char*>(got);
    bytes = wanted;
    return {};
  }
};

struct CheckpointSaver::Job {
  CheckpointFacts facts;
  SaveOptions options;
  fs::path root, temp, path;
  std::int64_t coord = 0, degree = 1;
  std::int64_t begin = 0;
  FolderLock lock;   ///< coord 0
  OwnPieces pieces;  ///< in staging memory once copied

  std::mutex mutex;
  std::condition_variable changed;
  bool copied = false, written = false, done = false;
  Result<Manifest> own = Manifest{};
  Result<SaveReport> outcome = SaveReport{};
  bool reported = false;
  std::atomic<bool> cancel{false};
  std::thread thread;

  ~Job() {
    cancel = true;
    if (thread.joinable()) thread.join();
    // Here and not as soon as it fails: another rank would lose the folder it is writing into, and
    // be the first to complain, of the wrong thing.
    std::error_code code;
    if (coord == 0 && done && !outcome.ok()) fs::remove_all(temp, code);
  }

  std::size_t bytes_to_copy() const;
  void copy(char* to);
  void run(char* staging, bool copy_first);
  template <class T>
  Result<T> guarded(const std::function<Result<T>()>& work) const;
  void publish();
  Result<SaveReport> collect_and_commit();
  void set(bool Job::*flag) {
    const std::lock_guard guard(mutex);
    this->*flag = true;
    changed.notify_all();
  }
  void wait_for(bool Job::*flag) {
    std::unique_lock guard(mutex);
    changed.wait(guard, [&] { return this->*flag; });
  }
};

std::size_t CheckpointSaver::Job::bytes_to_copy() const {
  std::size_t bytes = 0;
  for (const auto* list : {&pieces.model, &pieces.optim}) {
    for (const OwnPiece& piece : *list) bytes += padded(piece.bytes);
  }
  return bytes;
}

void CheckpointSaver::Job::copy(char* to) {
  for (auto* list : {&pieces.model, &pieces.optim}) {
    for (OwnPiece& piece : *list) {
      if (piece.bytes > 0) std::memcpy(to, piece.from, piece.bytes);
      piece.from = to;
      piece.owner = at::Tensor();
      to += padded(piece.bytes);
    }
  }
}

void CheckpointSaver::Job::publish() {
  const auto written = write_file_atomic(temp / part_name(coord), encode_part(own));
  if (!written.ok() && own.ok()) own = written.error();
}

Result<SaveReport> CheckpointSaver::Job::collect_and_commit() {
  std::vector<Manifest> all;
  SX_TRY(Manifest first, own);
  all.push_back(std::move(first));
  Commit commit{temp, path, facts, options};
  auto pause = std::chrono::milliseconds(1);
  for (std::int64_t c = 1; c < degree; ++c) {
    const fs::path file = temp / part_name(c);
    std::error_code code;
    while (!fs::exists(file, code)) {
      if (cancel) return Error{ErrorKind::kIo, "the save was given up", path.string()};
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(20));
    }
    SX_TRY(const std::string text, read_file(file));
    SX_TRY(Manifest part, decode_part(text));
    all.push_back(std::move(part));
    commit.part_files.push_back(part_name(c));
  }
  if (cancel) return Error{ErrorKind::kIo, "the save was given up", path.string()};
  SX_TRY(SaveReport report, commit_step(root, commit, std::move(all)));
  report.seconds = seconds_since(begin);
  return report;
}

/// What `work` returns; an exception of it (no memory) as an error: it must not leave the thread.
template <class T>
Result<T> CheckpointSaver::Job::guarded(const std::function<Result<T>()>& work) const {
  try {
    return work();
  } catch (const std::exception& e) {
    return Error{ErrorKind::kInternal, fmt::format("saving failed: {}", e.what()), path.string()};
  }
}

void CheckpointSaver::Job::run(char* staging, bool copy_first) {
  if (copy_first) copy(staging);
  set(&Job::copied);
  own = guarded<Manifest>([&]() -> Result<Manifest> {
    if (!own.ok()) return own;
    return write_pieces(temp, pieces, coord, &cancel);
  });
  pieces = OwnPieces();
  if (coord != 0) {
    const auto told = guarded<bool>([&]() -> Result<bool> {
      publish();
      return true;
    });
    if (!told.ok() && own.ok()) own = told.error();
  }
  set(&Job::written);
  if (coord == 0) {
    outcome = guarded<SaveReport>([&] { return collect_and_commit(); });
    lock = FolderLock();
  } else if (!own.ok()) {
    outcome = own.error();
  }
  set(&Job::done);
}

CheckpointSaver::CheckpointSaver(fs::path root, Communicator& world, SaveOptions options)
    : root_(std::move(root)),
      world_(world),
      options_(std::move(options)),
      staging_(std::make_unique<Staging>()) {}

CheckpointSaver::~CheckpointSaver() = default;

Result<std::optional<SaveReport>> CheckpointSaver::wait() {
  waited_ = 0;
  if (job_ == nullptr) return std::optional<SaveReport>();
  const std::int64_t begin = monotonic_microseconds();
  Job& job = *job_;
  // Coord 0 waits for files of the others; one that has failed may not have been able to leave one.
  job.wait_for(&Job::written);
  const std::vector<std::string> texts =
      gather_texts(job.own.ok() ? std::string() : encode_part(job.own), world_);
  Result<SaveReport> outcome = SaveReport{};
  for (const std::string& text : texts) {
    if (text.empty()) continue;
    job.cancel = true;
    outcome = decode_part(text).error();
    break;
  }
  if (job.coord == 0) {
    job.wait_for(&Job::done);
    if (outcome.ok()) outcome = job.outcome;
  }
  outcome = share_outcome(std::move(outcome), job.path, world_);
  job.wait_for(&Job::done);
  const bool reported = job.reported;
  job_.reset();
  waited_ = seconds_since(begin);
  if (!outcome.ok()) return std::move(outcome).error();
  if (reported) return std::optional<SaveReport>();
  return std::optional(*std::move(outcome));
}

Result<void> CheckpointSaver::start(CheckpointContent content, Copy copy) {
  const std::int64_t begin = monotonic_microseconds();
  SX_CHECK(job_ == nullptr, "a save of step {} was not waited for", job_->facts.step);
  auto job = std::make_unique<Job>();
  const AllParts parts = all_parts(content, world_);
  auto pieces = own_pieces(parts.model, parts.optim);
  job->facts = std::move(static_cast<CheckpointFacts&>(content));
  job->options = options_;
  job->root = root_;
  job->temp = temp_folder(root_, job->facts.step, options_);
  job->path = root_ / checkpoint_name(job->facts.step);
  job->coord = world_.coord();
  job->degree = world_.degree();
  job->begin = begin;
  if (pieces.ok()) {
    job->pieces = *std::move(pieces);
    const auto reserved = staging_->reserve(job->bytes_to_copy());
    if (!reserved.ok()) job->own = reserved.error();
  } else {
    job->own = std::move(pieces).error();
  }
  Result<SaveReport> opened = SaveReport{};
  if (job->coord == 0) {
    auto lock = open_temp(root_, job->temp, options_);
    if (lock.ok()) {
      job->lock = *std::move(lock);
    } else {
      opened = lock.error();
    }
  }
  opened = share_outcome(std::move(opened), job->path, world_);
  if (!opened.ok()) return std::move(opened).error();

  if (!job->own.ok()) job->pieces = OwnPieces();
  const bool now = copy == Copy::kBeforeReturn;
  if (now) job->copy(staging_->memory);
  job_ = std::move(job);
  job_->thread =
      std::thread([job = job_.get(), memory = staging_->memory, now] { job->run(memory, !now); });
  blocked_ = seconds_since(begin);
  return {};
}

void CheckpointSaver::wait_copied() {
  if (job_ == nullptr) return;
  const std::int64_t begin = monotonic_microseconds();
  job_->wait_for(&Job::copied);
  blocked_ += seconds_since(begin);
}

Result<SaveReport> CheckpointSaver::save(const CheckpointContent& content) {
  SX_CHECK(job_ == nullptr, "a save of step {} was not waited for", job_->facts.step);
  return save_checkpoint(root_, content, world_, options_);
}

std::optional<Result<SaveReport>> CheckpointSaver::finished() {
  if (job_ == nullptr) return std::nullopt;
  const std::lock_guard guard(job_->mutex);
  if (!job_->done || job_->reported) return std::nullopt;
  if (job_->coord != 0 && job_->outcome.ok()) return std::nullopt;
  job_->reported = true;
  return job_->outcome;
}

bool CheckpointSaver::busy() const {
  if (job_ == nullptr) return false;
  const std::lock_guard guard(job_->mutex);
  return !job_->done;
}

std::int64_t CheckpointSaver::staging_bytes() const {
  return static_cast<std::int64_t>(staging_->bytes);
}

}  // namespace sx
