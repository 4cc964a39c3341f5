// The only file that sees MPI. Point-to-point and non-blocking calls only: what ranks exchange and
// in which order it is folded is the business of detail/process_operation.cpp.
#include "sextant/dist/mpi.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/base/diagnostic.h"
#include "sextant/dist/detail/mpi_wire.h"

#if SX_WITH_MPI
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#endif

namespace sx {

#if SX_WITH_MPI

namespace detail {
namespace {

constexpr int kHeadTag = 1;
constexpr int kPayloadTag = 2;
/// Payloads up to this size travel with their head.
constexpr std::int64_t kInlineBytes = 8 * 1024;
/// Counts of MPI 3.1 are int.
constexpr std::int64_t kChunkBytes = std::int64_t{1} << 30;
constexpr std::size_t kHeadBytes = sizeof(MessageHead) + kMaxTextBytes + kInlineBytes;
constexpr int kYields = 100;

void must(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw IoError(Diagnostic{.exit = ExitCode::kIo,
                           .number = 9,
                           .what = fmt::format("{} failed", call),
                           .where = "MPI",
                           .rule = text,
                           .next = "does a plain MPI program run on these hosts?"});
}

struct Outgoing {
  std::shared_ptr<OutMessage> message;
  std::vector<std::byte> head;  // with the text, and a small payload
  std::vector<MPI_Request> requests;
};

struct Incoming {
  std::vector<std::byte> head = std::vector<std::byte>(kHeadBytes);
  MessageHead current;
  std::byte* payload = nullptr;
  std::int64_t received = 0;  // of the payload
  std::int64_t wanted = 0;    // of it, in the request under way; 0 = the request is for a head
};

class MpiWire final : public Wire {
 public:
  MpiWire(int rank, int size) : incoming_(static_cast<std::size_t>(size)) {
    requests_.assign(static_cast<std::size_t>(size), MPI_REQUEST_NULL);
    for (int from = 0; from < size; ++from) {
      if (from != rank) await_head(from);
    }
  }

  void send(std::int64_t to, std::shared_ptr<OutMessage> message) override {
    Outgoing out;
    const MessageHead& head = message->head;
    message->head.text_bytes = static_cast<std::uint32_t>(message->text.size());
    const bool is_inline = head.bytes <= kInlineBytes;
    out.head.resize(sizeof head + message->text.size() +
                    (is_inline ? static_cast<std::size_t>(head.bytes) : 0));
    std::memcpy(out.head.data(), &head, sizeof head);
    std::memcpy(out.head.data() + sizeof head, message->text.data(), message->text.size());
    if (is_inline && head.bytes > 0) {
      std::memcpy(out.head.data() + sizeof head + message->text.size(), message->data,
                  static_cast<std::size_t>(head.bytes));
    }
    const int peer = static_cast<int>(to);
    out.requests.emplace_back();
    must(MPI_Isend(out.head.data(), static_cast<int>(out.head.size()), MPI_BYTE, peer, kHeadTag,
                   MPI_COMM_WORLD, &out.requests.back()),
         "MPI_Isend");
    for (std::int64_t at = 0; !is_inline && at < head.bytes; at += kChunkBytes) {
      out.requests.emplace_back();
      must(MPI_Isend(message->data + at, static_cast<int>(std::min(kChunkBytes, head.bytes - at)),
                     MPI_BYTE, peer, kPayloadTag, MPI_COMM_WORLD, &out.requests.back()),
           "MPI_Isend");
    }
    out.message = std::move(message);
    outgoing_.push_back(std::move(out));
  }

  bool progress(WireSink& sink) override {
    bool moved = test_outgoing();
    int count = 0;
    arrived_.resize(requests_.size());
    statuses_.resize(requests_.size());
    must(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, arrived_.data(),
                      statuses_.data()),
         "MPI_Testsome");
    if (count == MPI_UNDEFINED) count = 0;
    for (int i = 0; i < count; ++i) {
      moved = true;
      take(arrived_[static_cast<std::size_t>(i)], statuses_[static_cast<std::size_t>(i)], sink);
    }
    if (moved) num_idle_ = 0;
    return moved;
  }

  void wait(bool busy, std::chrono::microseconds limit) override {
    // MPI cannot be slept in. While a call is under way the peers' messages are near: first the
    // core is offered to others, then the pauses grow; without a call they may be longer.
    ++num_idle_;
    if (busy && num_idle_ <= kYields) {
      sched_yield();
      return;
    }
    const std::chrono::microseconds pause(busy ? std::min(20 + num_idle_ / 4, 200)
                                               : std::min(50 + num_idle_, 1000));
    std::unique_lock lock(mutex_);
    if (awake_.wait_for(lock, std::min(pause, limit), [&] { return woken_; })) num_idle_ = 0;
    woken_ = false;
  }

  void wake() override {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    awake_.notify_one();
  }

  bool flushed() const override { return outgoing_.empty(); }

  void close() override {
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
  }

 private:
  void await_head(int from) {
    Incoming& in = incoming_[static_cast<std::size_t>(from)];
    in.wanted = 0;
    must(MPI_Irecv(in.head.data(), static_cast<int>(in.head.size()), MPI_BYTE, from, kHeadTag,
                   MPI_COMM_WORLD, &requests_[static_cast<std::size_t>(from)]),
         "MPI_Irecv");
  }

  void await_payload(int from) {
    Incoming& in = incoming_[static_cast<std::size_t>(from)];
    in.wanted = std::min(kChunkBytes, in.current.bytes - in.received);
    must(MPI_Irecv(in.payload + in.received, static_cast<int>(in.wanted), MPI_BYTE, from,
                   kPayloadTag, MPI_COMM_WORLD, &requests_[static_cast<std::size_t>(from)]),
         "MPI_Irecv");
  }

  /// One message of a peer after the other: the next head is taken when the payload is complete.
  void take(int from, const MPI_Status& status, WireSink& sink) {
    Incoming& in = incoming_[static_cast<std::size_t>(from)];
    if (in.wanted > 0) {
      in.received += in.wanted;
      if (in.received < in.current.bytes) return await_payload(from);
      sink.on_message(from, in.current);
      return await_head(from);
    }
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    const auto size = static_cast<std::size_t>(std::max(count, 0));
    SX_CHECK(size >= sizeof(MessageHead), "a message of {} bytes from rank {}", size, from);
    std::memcpy(&in.current, in.head.data(), sizeof(MessageHead));
    SX_CHECK(in.current.text_bytes <= kMaxTextBytes &&
                 sizeof(MessageHead) + in.current.text_bytes <= size,
             "a message of {} bytes with {} bytes of text from rank {}", size,
             in.current.text_bytes, from);
    const auto* text = reinterpret_cast<const char*>(in.head.data()) + sizeof(MessageHead);
    in.payload = sink.on_head(from, in.current, {text, in.current.text_bytes});
    in.received = 0;
    if (in.current.bytes > 0 && in.payload == nullptr) {
      sink.on_lost(from, fmt::format("no memory for a payload of {} bytes", in.current.bytes));
      return;
    }
    if (in.current.bytes > kInlineBytes) return await_payload(from);
    if (in.current.bytes > 0) {
      std::memcpy(in.payload, text + in.current.text_bytes,
                  static_cast<std::size_t>(in.current.bytes));
    }
    sink.on_message(from, in.current);
    await_head(from);
  }

  bool test_outgoing() {
    bool moved = false;
    for (auto it = outgoing_.begin(); it != outgoing_.end();) {
      int done = 0;
      must(MPI_Testall(static_cast<int>(it->requests.size()), it->requests.data(), &done,
                       MPI_STATUSES_IGNORE),
           "MPI_Testall");
      if (done == 0) {
        ++it;
        continue;
      }
      moved = true;
      const std::shared_ptr<OutMessage> message = std::move(it->message);
      it = outgoing_.erase(it);
      finished_.push_back(message);
    }
    // What is told may send more.
    for (const auto& message : std::exchange(finished_, {})) {
      if (message->sent) message->sent();
    }
    return moved;
  }

  std::vector<Incoming> incoming_;     // by rank
  std::vector<MPI_Request> requests_;  // by rank: of a head or a payload
  std::vector<int> arrived_;
  std::vector<MPI_Status> statuses_;
  std::deque<Outgoing> outgoing_;
  std::vector<std::shared_ptr<OutMessage>> finished_;
  int num_idle_ = 0;
  std::mutex mutex_;
  std::condition_variable awake_;
  bool woken_ = false;
};

std::string tell_everybody(std::string text) {
  int length = static_cast<int>(text.size());
  must(MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
  text.resize(static_cast<std::size_t>(length));
  must(MPI_Bcast(text.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
  return text;
}

}  // namespace

std::unique_ptr<Wire> make_mpi_wire(const MpiWireOptions& options, std::string& received) {
  int provided = 0;
  must(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != options.global_rank || size != options.world_size) {
    throw FatalError(Diagnostic{
        .exit = ExitCode::kPeer,
        .number = 1,
        .what = fmt::format("MPI has rank {} of {}, the launcher's variables say rank {} of {}",
                            rank, size, options.global_rank, options.world_size),
        .where = "MPI_COMM_WORLD",
        .rule = "mpirun and the program use the same MPI library",
        .next = "sextant doctor"});
  }
  received = tell_everybody(rank == 0 ? options.root_text : "");
  return std::make_unique<MpiWire>(rank, size);
}

}  // namespace detail

bool mpi_is_built() { return true; }

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text, static_cast<std::size_t>(std::max(length, 0)));
  if (const auto end = version.find_first_of("\n,"); end != std::string::npos) version.resize(end);
  return version;
}

#else

namespace detail {

std::unique_ptr<Wire> make_mpi_wire(const MpiWireOptions&, std::string&) {
  throw ConfigError(Diagnostic{.number = 5,
                               .what = "this build cannot talk over MPI",
                               .where = "comm.transport",
                               .rule = "no MPI library was found when it was configured",
                               .next = "sextant launch --ranks N, or ./sx setup and ./sx build"});
}

}  // namespace detail

bool mpi_is_built() { return false; }
std::string mpi_version() { return ""; }

#endif

}  // namespace sx
