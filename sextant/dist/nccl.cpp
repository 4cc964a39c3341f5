// The only file that sees NCCL. Its calls are queued on side streams and ordered by events; errors
// are found by a watcher, because no call waits on the host.
#include "sextant/dist/nccl.h"

#include "sextant/base/diagnostic.h"

#if SX_WITH_NCCL
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/dist/detail/descriptor.h"
#include "sextant/dist/detail/fold_cuda.h"
#include "sextant/dist/detail/transport.h"
#include "sextant/dist/dist_error.h"
#endif

namespace sx {

#if SX_WITH_NCCL

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1), "ncclCommSplit came with NCCL 2.18");

namespace {

using Clock = std::chrono::steady_clock;

void must(ncclResult_t result, const char* call) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw std::runtime_error(fmt::format("{}: {}", call, ncclGetErrorString(result)));
}

void must(cudaError_t error, const char* call) {
  SX_CHECK(error == cudaSuccess, "{}: {}", call, cudaGetErrorString(error));
}

ncclDataType_t nccl_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble: return ncclFloat64;
    case at::kFloat: return ncclFloat32;
    case at::kBFloat16: return ncclBfloat16;
    case at::kHalf: return ncclFloat16;
    case at::kLong: return ncclInt64;
    case at::kInt: return ncclInt32;
    case at::kChar: return ncclInt8;
    default: return ncclUint8;
  }
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return ncclSum;
    case ReduceOp::kMax: return ncclMax;
    case ReduceOp::kMin: return ncclMin;
  }
  return ncclSum;
}

detail::FoldType fold_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble: return detail::FoldType::kDouble;
    case at::kFloat: return detail::FoldType::kFloat;
    case at::kBFloat16: return detail::FoldType::kBFloat16;
    case at::kHalf: return detail::FoldType::kHalf;
    case at::kLong: return detail::FoldType::kLong;
    case at::kInt: return detail::FoldType::kInt;
    case at::kChar: return detail::FoldType::kChar;
    default: return detail::FoldType::kByte;
  }
}

detail::FoldOp fold_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return detail::FoldOp::kSum;
    case ReduceOp::kMax: return detail::FoldOp::kMax;
    case ReduceOp::kMin: return detail::FoldOp::kMin;
  }
  return detail::FoldOp::kSum;
}

std::int64_t begin_of(const std::vector<std::int64_t>& counts, std::int64_t coord) {
  return std::accumulate(counts.begin(), counts.begin() + coord, std::int64_t{0});
}

bool all_equal(const std::vector<std::int64_t>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
}

/// An event of CUDA, without timing.
class Event {
 public:
  Event() { must(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) { must(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  void let_wait(cudaStream_t stream) {
    must(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
  }
  bool is_done() const { return cudaEventQuery(event_) == cudaSuccess; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// One launch on a side stream, until its event has passed.
struct Launch {
  detail::Descriptor descriptor;
  detail::GroupInfo group;
  std::vector<at::Tensor> tensors;  // alive until the device is done with them
  Event done;
  Clock::time_point started = Clock::now();
  Seconds timeout;
};

struct Group {
  detail::GroupInfo info;
  ncclComm_t comm = nullptr;
};

}  // namespace

struct NcclWorld::State {
  NcclOptions options;
  ncclComm_t root = nullptr;
  std::vector<Group> groups;  // this rank's, in order of the plan
  std::vector<ncclComm_t> all;

  mutable std::mutex mutex;  // guards the below
  std::condition_variable changed;
  std::list<std::shared_ptr<Launch>> launches;  // in flight
  bool watching = true;
  DistFault fault = DistFault::kAborted;
  std::string reason;
  std::atomic<bool> aborted{false};
  std::thread watcher;

  void settle(ncclComm_t comm, Clock::time_point end);
  void init(RankStore& store, const GroupPlan& plan);
  void split(const std::vector<const PlannedGroup*>& row, Clock::time_point end);
  void watch();
  void look();
  void abort(DistFault kind, const std::string& why);
  DistError error_of(const detail::GroupInfo& group, const detail::Descriptor& call) const;
};

/// A communicator is made without blocking, so that a rank that never comes is a time-out.
void NcclWorld::State::settle(ncclComm_t comm, Clock::time_point end) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    must(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
    if (state != ncclInProgress) break;
    if (Clock::now() >= end) {
      ncclCommAbort(comm);
      throw FatalError(Diagnostic{
          .exit = ExitCode::kPeer,
          .number = 1,
          .what = fmt::format("the GPUs of {} ranks did not come together within {:.3g} s",
                              options.world_size, options.init_timeout.value),
          .where = fmt::format("rank {}, host {}, device {}", options.global_rank, host_name(),
                               options.device),
          .rule = "NCCL connects all ranks before the first step",
          .next = "NCCL_DEBUG=INFO shows what NCCL waits for; comm.init_timeout sets the time"});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  must(state, "NCCL");
}

void NcclWorld::State::init(RankStore& store, const GroupPlan& plan) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(options.init_timeout.value));
  must(cudaSetDevice(options.device), "cudaSetDevice");
  const std::string key = fmt::format("nccl/{:016x}", plan.hash());
  ncclUniqueId id{};
  if (options.global_rank == 0) {
    must(ncclGetUniqueId(&id), "ncclGetUniqueId");
    store.set(key, std::string(id.internal, sizeof id.internal));
  } else {
    const auto text = store.get(key, options.init_timeout);
    SX_CHECK(text && text->size() == sizeof id.internal, "rank 0 gave no id of NCCL");
    std::memcpy(id.internal, text->data(), sizeof id.internal);
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  must(ncclCommInitRankConfig(&root, static_cast<int>(options.world_size), id,
                              static_cast<int>(options.global_rank), &config),
       "ncclCommInitRankConfig");
  settle(root, end);
  all.push_back(root);
  // Groups of the same axes and purpose do not overlap: one split makes them all.
  std::vector<const PlannedGroup*> row;
  for (const PlannedGroup& group : plan.groups()) {
    if (!row.empty() &&
        (row.front()->axes != group.axes || row.front()->purpose != group.purpose)) {
      split(row, end);
      row.clear();
    }
    row.push_back(&group);
  }
  if (!row.empty()) split(row, end);
}

void NcclWorld::State::split(const std::vector<const PlannedGroup*>& row, Clock::time_point end) {
  int color = NCCL_SPLIT_NOCOLOR;
  int key = 0;
  Group own;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!row[i]->has(options.global_rank)) continue;
    const auto& ranks = row[i]->ranks;
    key = static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), options.global_rank) -
                           ranks.begin());
    color = static_cast<int>(i);
    own.info = {
        .global_ranks = ranks, .coord = key, .axis = row[i]->axes, .purpose = row[i]->purpose};
  }
  must(ncclCommSplit(root, color, key, &own.comm, nullptr), "ncclCommSplit");
  settle(root, end);
  if (own.comm == nullptr) return;
  settle(own.comm, end);
  all.push_back(own.comm);
  groups.push_back(std::move(own));
}

void NcclWorld::State::watch() {
  cudaSetDevice(options.device);
  std::unique_lock lock(mutex);
  while (watching) {
    changed.wait_for(lock, std::chrono::milliseconds(100), [&] { return !watching; });
    if (watching && !aborted) look();
  }
}

/// Under the mutex.
void NcclWorld::State::look() {
  std::erase_if(launches, [](const auto& launch) { return launch->done.is_done(); });
  for (ncclComm_t comm : all) {
    ncclResult_t state = ncclSuccess;
    if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) state = ncclSystemError;
    if (state == ncclSuccess || state == ncclInProgress) continue;
    return abort(DistFault::kPeerLost, fmt::format("NCCL reports {}: {}", ncclGetErrorString(state),
                                                   ncclGetLastError(comm)));
  }
  for (const auto& launch : launches) {
    const std::chrono::duration<double> waited = Clock::now() - launch->started;
    if (waited.count() < launch->timeout.value) continue;
    return abort(DistFault::kTimeout,
                 fmt::format("{} on {} ({}): no end after {:.3g} s", launch->descriptor.to_string(),
                             launch->group.axis.to_string(), to_string(launch->group.purpose),
                             waited.count()));
  }
}

/// Under the mutex. Kernels that wait for a peer end with the communicator.
void NcclWorld::State::abort(DistFault kind, const std::string& why) {
  if (aborted.exchange(true)) return;
  fault = kind;
  reason = why;
  for (ncclComm_t comm : all) ncclCommAbort(comm);
  all.clear();
}

DistError NcclWorld::State::error_of(const detail::GroupInfo& group,
                                     const detail::Descriptor& call) const {
  const std::lock_guard lock(mutex);
  return DistError(fault, group.axis, call.op, call.sequence, call.bytes(), Seconds{},
                   options.global_rank, reason);
}

namespace {

class NcclOperation final : public detail::PendingOperation {
 public:
  NcclOperation(std::shared_ptr<NcclWorld::State> world, std::shared_ptr<Launch> launch, bool host)
      : world_(std::move(world)), launch_(std::move(launch)), host_(host) {}

  void wait() override {
    if (host_) return wait_host();
    if (world_->aborted) throw world_->error_of(launch_->group, launch_->descriptor);
    launch_->done.let_wait(c10::cuda::getCurrentCUDAStream());
  }
  void wait_host() override {
    while (!launch_->done.is_done() && !world_->aborted) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    if (world_->aborted) throw world_->error_of(launch_->group, launch_->descriptor);
  }
  bool poll() noexcept override { return launch_->done.is_done() || world_->aborted; }
  void drop() noexcept override {}  // the world keeps the launch and its tensors until it is done

 private:
  std::shared_ptr<NcclWorld::State> world_;
  std::shared_ptr<Launch> launch_;
  bool host_;
};

class NcclTransport final : public detail::Transport {
 public:
  NcclTransport(std::shared_ptr<NcclWorld::State> world, Group group)
      : world_(std::move(world)),
        group_(std::move(group)),
        stream_(
            c10::cuda::getStreamFromPool(group_.info.purpose == Purpose::kReduce,
                                         static_cast<c10::DeviceIndex>(world_->options.device))) {
    capabilities_.transport = "nccl";
    capabilities_.cpu = false;
    capabilities_.cuda = true;
    capabilities_.native_bf16_sum = !world_->options.ordered;
    capabilities_.deterministic = world_->options.ordered;
    capabilities_.overlap = true;
  }

  const detail::GroupInfo& group() const override { return group_.info; }
  const Capabilities& capabilities() const override { return capabilities_; }

  std::shared_ptr<detail::PendingOperation> start(Operation operation,
                                                  detail::Descriptor descriptor,
                                                  Seconds timeout) override {
    if (world_->aborted) throw world_->error_of(group_.info, descriptor);
    auto launch = std::make_shared<Launch>();
    launch->group = group_.info;
    launch->timeout = timeout;
    launch->tensors = {operation.in, operation.out};
    const bool is_barrier = operation.op == Collective::kBarrier;
    launch->descriptor = std::move(descriptor);
    // The side stream begins where the caller's stream stands.
    Event ready;
    ready.record(c10::cuda::getCurrentCUDAStream());
    ready.let_wait(stream_);
    queue(operation, *launch);
    launch->done.record(stream_);
    {
      const std::lock_guard lock(world_->mutex);
      world_->launches.push_back(launch);
    }
    return std::make_shared<NcclOperation>(world_, std::move(launch), is_barrier);
  }

  std::unique_ptr<detail::Transport> make_group(detail::GroupInfo info) override {
    if (info.degree() == 1) return detail::make_solo_transport(std::move(info));
    for (const Group& group : world_->groups) {
      if (group.info.global_ranks == info.global_ranks && group.info.purpose == info.purpose)
        return std::make_unique<NcclTransport>(world_, Group{std::move(info), group.comm});
    }
    SX_CHECK(false, "a group of {} ranks on {} ({}) is not in the plan of groups", info.degree(),
             info.axis.to_string(), to_string(info.purpose));
  }

  void abort(const std::string& reason) override {
    const std::lock_guard lock(world_->mutex);
    world_->abort(DistFault::kAborted,
                  fmt::format("rank {}: {}", world_->options.global_rank, reason));
  }

 private:
  std::int64_t degree() const { return group_.info.degree(); }
  std::int64_t own() const { return group_.info.coord; }

  static std::byte* at_element(const at::Tensor& tensor, std::int64_t element) {
    return static_cast<std::byte*>(tensor.data_ptr()) + element * tensor.element_size();
  }

  void queue(const Operation& o, Launch& launch) {
    const bool reduces = o.op == Collective::kAllReduce || o.op == Collective::kReduceScatter;
    if (reduces && world_->options.ordered) return queue_ordered(o, launch);
    // Movement of any type is movement of bytes.
    switch (o.op) {
      case Collective::kBroadcast:
        must(ncclBroadcast(o.out.data_ptr(), o.out.data_ptr(), o.out.nbytes(), ncclUint8,
                           static_cast<int>(o.peer), group_.comm, stream_),
             "ncclBroadcast");
        break;
      case Collective::kAllReduce:
        must(ncclAllReduce(o.out.data_ptr(), o.out.data_ptr(), count(o.out.numel()),
                           nccl_type(o.out.scalar_type()), nccl_op(o.reduce), group_.comm, stream_),
             "ncclAllReduce");
        break;
      case Collective::kReduceScatter: queue_reduce_scatter(o); break;
      case Collective::kAllGather: queue_all_gather(o.out, o.in, o.recv_counts); break;
      case Collective::kAllToAll:
        queue_all_to_all(o.out, o.in, o.send_counts, o.recv_counts);
        break;
      case Collective::kSend:
        must(ncclSend(o.in.data_ptr(), o.in.nbytes(), ncclUint8, static_cast<int>(o.peer),
                      group_.comm, stream_),
             "ncclSend");
        break;
      case Collective::kRecv:
        must(ncclRecv(o.out.data_ptr(), o.out.nbytes(), ncclUint8, static_cast<int>(o.peer),
                      group_.comm, stream_),
             "ncclRecv");
        break;
      case Collective::kBarrier: {
        const at::Tensor one = at::zeros({1}, device_options(at::kByte));
        launch.tensors.push_back(one);
        Event ready;
        ready.record(c10::cuda::getCurrentCUDAStream());
        ready.let_wait(stream_);
        must(ncclAllReduce(one.data_ptr(), one.data_ptr(), 1, ncclUint8, ncclMax, group_.comm,
                           stream_),
             "ncclAllReduce");
        break;
      }
    }
  }

  void queue_reduce_scatter(const Operation& o) {
    const auto type = nccl_type(o.in.scalar_type());
    if (all_equal(o.send_counts)) {
      must(ncclReduceScatter(o.in.data_ptr(), o.out.data_ptr(), count(o.out.numel()), type,
                             nccl_op(o.reduce), group_.comm, stream_),
           "ncclReduceScatter");
      return;
    }
    must(ncclGroupStart(), "ncclGroupStart");
    for (std::int64_t c = 0; c < degree(); ++c) {
      const std::int64_t n = o.send_counts[static_cast<std::size_t>(c)];
      must(ncclReduce(at_element(o.in, begin_of(o.send_counts, c)), o.out.data_ptr(), count(n),
                      type, nccl_op(o.reduce), static_cast<int>(c), group_.comm, stream_),
           "ncclReduce");
    }
    must(ncclGroupEnd(), "ncclGroupEnd");
  }

  void queue_all_gather(const at::Tensor& out, const at::Tensor& in,
                        const std::vector<std::int64_t>& counts) {
    if (all_equal(counts)) {
      must(ncclAllGather(in.data_ptr(), out.data_ptr(), in.nbytes(), ncclUint8, group_.comm,
                         stream_),
           "ncclAllGather");
      return;
    }
    must(ncclGroupStart(), "ncclGroupStart");
    for (std::int64_t c = 0; c < degree(); ++c) {
      const auto bytes = static_cast<std::size_t>(counts[static_cast<std::size_t>(c)]) *
                         static_cast<std::size_t>(in.element_size());
      must(ncclBroadcast(in.data_ptr(), at_element(out, begin_of(counts, c)), bytes, ncclUint8,
                         static_cast<int>(c), group_.comm, stream_),
           "ncclBroadcast");
    }
    must(ncclGroupEnd(), "ncclGroupEnd");
  }

  void queue_all_to_all(const at::Tensor& out, const at::Tensor& in,
                        const std::vector<std::int64_t>& sends,
                        const std::vector<std::int64_t>& recvs) {
    const auto size = static_cast<std::size_t>(in.element_size());
    must(ncclGroupStart(), "ncclGroupStart");
    for (std::int64_t c = 0; c < degree(); ++c) {
      const auto coord = static_cast<std::size_t>(c);
      must(ncclSend(at_element(in, begin_of(sends, c)), count(sends[coord]) * size, ncclUint8,
                    static_cast<int>(c), group_.comm, stream_),
           "ncclSend");
      must(ncclRecv(at_element(out, begin_of(recvs, c)), count(recvs[coord]) * size, ncclUint8,
                    static_cast<int>(c), group_.comm, stream_),
           "ncclRecv");
    }
    must(ncclGroupEnd(), "ncclGroupEnd");
  }

  /// Every rank gets its slice of all ranks' inputs and folds it; an all_reduce gathers the slices.
  void queue_ordered(const Operation& o, Launch& launch) {
    const bool scatters = o.op == Collective::kReduceScatter;
    std::vector<std::int64_t> counts = o.send_counts;
    if (!scatters) {
      const std::int64_t each = (o.in.numel() + degree() - 1) / degree();
      for (std::int64_t c = 0; c < degree(); ++c) {
        counts.push_back(std::clamp<std::int64_t>(o.in.numel() - c * each, 0, each));
      }
    }
    const std::int64_t n = counts[static_cast<std::size_t>(own())];
    const at::Tensor slices = at::empty({degree() * n}, device_options(o.in.scalar_type()));
    launch.tensors.push_back(slices);
    Event ready;
    ready.record(c10::cuda::getCurrentCUDAStream());
    ready.let_wait(stream_);
    const std::vector<std::int64_t> same(static_cast<std::size_t>(degree()), n);
    queue_all_to_all(slices, o.in, counts, same);
    std::byte* to = scatters ? static_cast<std::byte*>(o.out.data_ptr())
                             : at_element(o.out, begin_of(counts, own()));
    must(detail::fold_cuda(fold_type(o.in.scalar_type()), fold_op(o.reduce),
                           static_cast<const std::byte*>(slices.data_ptr()),
                           static_cast<int>(degree()), to, n, stream_),
         "fold_cuda");
    if (!scatters) {
      queue_all_gather(o.out, o.out.view({-1}).narrow(0, begin_of(counts, own()), n), counts);
    }
  }

  at::TensorOptions device_options(at::ScalarType dtype) const {
    return at::TensorOptions().dtype(dtype).device(
        at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(world_->options.device)));
  }
  static std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

  std::shared_ptr<NcclWorld::State> world_;
  Group group_;
  c10::cuda::CUDAStream stream_;
  Capabilities capabilities_;
};

}  // namespace

NcclWorld::NcclWorld(RankStore& store, const GroupPlan& plan, const NcclOptions& options)
    : state_(std::make_shared<State>()) {
  state_->options = options;
  state_->init(store, plan);
  state_->watcher = std::thread([state = state_.get()] { state->watch(); });
}

NcclWorld::~NcclWorld() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->watching = false;
  }
  state_->changed.notify_all();
  state_->watcher.join();
  if (state_->aborted) return;
  for (auto it = state_->all.rbegin(); it != state_->all.rend(); ++it) {
    ncclCommFinalize(*it);
    ncclCommDestroy(*it);
  }
}

Communicator NcclWorld::world(AxisSet axis, Purpose purpose, std::shared_ptr<CommSession> session) {
  detail::GroupInfo info{.coord = state_->options.global_rank, .axis = axis, .purpose = purpose};
  for (std::int64_t rank = 0; rank < state_->options.world_size; ++rank)
    info.global_ranks.push_back(rank);
  ncclComm_t comm = state_->root;
  for (const Group& group : state_->groups) {
    if (group.info.degree() == state_->options.world_size && group.info.purpose == purpose)
      comm = group.comm;
  }
  return Communicator(std::make_unique<NcclTransport>(state_, Group{std::move(info), comm}),
                      std::move(session));
}

bool nccl_is_built() { return true; }

std::string nccl_version() {
  int code = 0;
  if (ncclGetVersion(&code) != ncclSuccess) return "";
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

#else

struct NcclWorld::State {};

NcclWorld::NcclWorld(RankStore&, const GroupPlan&, const NcclOptions&) {
  throw ConfigError(Diagnostic{.number = 5,
                               .what = "this build cannot talk over NCCL",
                               .where = "comm.transport",
                               .rule = "it was configured without CUDA",
                               .next = "tools/setup/cuda.sh, then ./sx build cuda"});
}
NcclWorld::~NcclWorld() = default;
Communicator NcclWorld::world(AxisSet axis, Purpose purpose, std::shared_ptr<CommSession>) {
  return Communicator::solo(axis, purpose);
}
bool nccl_is_built() { return false; }
std::string nccl_version() { return ""; }

#endif

}  // namespace sx
