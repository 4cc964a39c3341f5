// The engine of process ranks with its sockets, several ranks in one process so that faults can be
// placed; whole processes are tested by tests/e2e/ranks_test.py, every collective by dist_tcp_* and
// dist_mpi_*.
#include "sextant/dist/detail/process_world.h"

#include <gtest/gtest.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/base/rng.h"
#include "sextant/dist/communicator.h"
#include "sextant/dist/detail/socket_wire.h"
#include "sextant/dist/dist_error.h"
#include "sextant/dist/message_reader.h"
#include "sextant/dist/rendezvous.h"

namespace sx {
namespace {

using detail::ProcessWorld;

struct RankEnd {
  std::string message;  // of the DistError that ended the rank; empty = it ended well
  DistFault fault = DistFault::kAborted;
  double seconds = 0;
};

/// Runs `body` on ranks that talk over sockets. A body that returns false goes without a word, as a
/// killed process does.
std::vector<RankEnd> run_worlds(std::int64_t num_ranks,
                                const std::function<bool(Communicator&, ProcessWorld&)>& body,
                                Seconds timeout = Seconds{20.0}) {
  const RankStore shared = RankStore::in_process();
  std::vector<RankEnd> ends(static_cast<std::size_t>(num_ranks));
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      RankEnd& end = ends[static_cast<std::size_t>(rank)];
      RankStore store = shared;
      ProcessWorld world({.global_rank = rank, .world_size = num_ranks, .timeout = timeout}, [&] {
        return detail::make_socket_wire(
            store, {.global_rank = rank, .world_size = num_ranks, .timeout = Seconds{20.0}});
      });
      std::vector<std::int64_t> all;
      for (std::int64_t r = 0; r < num_ranks; ++r) all.push_back(r);
      Communicator communicator(
          world.make_transport({.global_ranks = all, .coord = rank, .axis = AxisSet::world()}),
          std::make_shared<CommSession>(rank, CommOptions{.timeout = timeout}));
      const auto begin = std::chrono::steady_clock::now();
      try {
        if (body(communicator, world)) world.finish();
      } catch (const DistError& e) {
        end.message = e.what();
        end.fault = e.fault();
        world.linger(Seconds{1.0});
      } catch (const std::exception& e) {
        world.abort({.origin_rank = rank, .message = e.what()});
        end.message = e.what();
        world.linger(Seconds{1.0});
      }
      end.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

void expect_all_end_well(const std::vector<RankEnd>& ends) {
  for (std::size_t r = 0; r < ends.size(); ++r) EXPECT_EQ(ends[r].message, "") << "rank " << r;
}

TEST(ProcessWorld, EndsWell) {
  expect_all_end_well(run_worlds(4, [](Communicator& world, ProcessWorld&) {
    at::Tensor t = at::full({100'000}, world.coord() + 1.0);
    world.start_all_reduce(t, ReduceOp::kSum).wait();
    EXPECT_TRUE(at::equal(t, at::full({100'000}, 10.0)));
    return true;
  }));
}

// A handle that nobody waited for is waited for at the end.
TEST(ProcessWorld, GroupsAndRandomOrdersOfWaits) {
  const auto seed = static_cast<std::uint64_t>(std::random_device{}());
  SCOPED_TRACE(seed);
  expect_all_end_well(run_worlds(4, [seed](Communicator& world, ProcessWorld&) {
    const std::int64_t pair = world.coord() / 2 * 2;
    Communicator near = world.make_group({pair, pair + 1}, Axis::kTp, Purpose::kGather);
    Communicator across = world.make_group({world.coord() % 2, world.coord() % 2 + 2},
                                           Axis::kDpShard, Purpose::kReduce);
    Communicator* all[] = {&world, &near, &across};
    const RandomStream random(seed, "waits " + std::to_string(world.coord()));
    std::uint64_t draw = 0;
    for (int round = 0; round < 30; ++round) {
      std::vector<at::Tensor> tensors;
      std::vector<Handle> handles;
      for (int call = 0; call < 9; ++call) {
        const std::int64_t n = (round * 9 + call) * 257;
        tensors.push_back(at::full({n}, world.coord() + 1.0));
        handles.push_back(all[call % 3]->start_all_reduce(tensors.back(), ReduceOp::kSum));
      }
      std::vector<std::size_t> order{0, 1, 2, 3, 4, 5, 6, 7, 8};
      for (std::size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[random.u64(draw++) % i]);
      for (const std::size_t i : order) handles[i].wait();
      for (std::size_t call = 0; call < 9; ++call) {
        const double want = call % 3 == 0   ? 10.0
                            : call % 3 == 1 ? 2.0 * static_cast<double>(pair) + 3.0
                                            : 2.0 * static_cast<double>(world.coord() % 2) + 4.0;
        EXPECT_TRUE(at::equal(tensors[call], at::full_like(tensors[call], want)));
      }
    }
    return true;
  }));
}

TEST(ProcessWorld, SendsRunAheadAndMatchByTag) {
  expect_all_end_well(run_worlds(2, [](Communicator& world, ProcessWorld&) {
    if (world.coord() == 0) {
      for (std::int64_t i = 0; i < 50; ++i) {
        world.start_send(at::full({i * 1000}, static_cast<double>(i)), 1, i % 3).wait();
      }
      world.start_send(at::full({3}, 7.0), 0, 9).wait();  // to itself
      at::Tensor own = at::zeros({3}, at::kDouble);
      at::Tensor sent = at::full({3}, 7.0, at::kDouble);
      world.start_send(sent, 0, 10).wait();
      world.start_recv(own, 0, 10).wait();
      EXPECT_TRUE(at::equal(own, sent));
    } else {
      for (std::int64_t tag : {2, 0, 1}) {
        for (std::int64_t i = tag; i < 50; i += 3) {
          at::Tensor t = at::zeros({i * 1000});
          world.start_recv(t, 0, tag).wait();
          EXPECT_TRUE(at::equal(t, at::full({i * 1000}, static_cast<double>(i))));
        }
      }
    }
    return true;
  }));
}

// The units of two equal calls are swapped on rank 1: found at the call, both named, on all ranks.
TEST(ProcessWorldFaults, SwappedUnits) {
  for (int round = 0; round < 20; ++round) {
    const auto ends = run_worlds(4, [](Communicator& world, ProcessWorld&) {
      at::Tensor a = at::zeros({1000});
      at::Tensor b = at::zeros({1000});
      const bool swapped = world.coord() == 1;
      world.start_all_reduce(a, ReduceOp::kSum, {.unit = swapped ? "layers.1" : "layers.0"}).wait();
      world.start_all_reduce(b, ReduceOp::kSum, {.unit = swapped ? "layers.0" : "layers.1"}).wait();
      return true;
    });
    for (const RankEnd& end : ends) {
      EXPECT_EQ(end.fault, DistFault::kMismatch);
      EXPECT_NE(end.message.find("layers.0"), std::string::npos) << end.message;
      EXPECT_NE(end.message.find("layers.1"), std::string::npos) << end.message;
      EXPECT_LT(end.seconds, 5.0);
    }
  }
}

TEST(ProcessWorldFaults, OneCallMoreOnARank) {
  const auto ends = run_worlds(3, [](Communicator& world, ProcessWorld&) {
    at::Tensor t = at::zeros({10});
    world.start_all_reduce(t, ReduceOp::kSum).wait();
    if (world.coord() == 2) world.start_all_reduce(t, ReduceOp::kSum).wait();
    return true;
  });
  EXPECT_EQ(ends[2].fault, DistFault::kPeerLeft);
  EXPECT_NE(ends[2].message.find("ended its work without joining rank 2"), std::string::npos);
  for (const RankEnd& end : ends) EXPECT_LT(end.seconds, 5.0);
}

TEST(ProcessWorldFaults, OtherCallsDiffer) {
  struct Case {
    const char* what;
    std::function<Handle(Communicator&, at::Tensor&)> call;
  };
  const std::vector<Case> cases{
      {"length", [](Communicator& w,
                    at::Tensor&) { return w.start_all_reduce(at::zeros({11}), ReduceOp::kSum); }},
      {"dtype",
       [](Communicator& w, at::Tensor&) {
         return w.start_all_reduce(at::zeros({10}, at::kDouble), ReduceOp::kSum);
       }},
      {"reduction",
       [](Communicator& w, at::Tensor& t) { return w.start_all_reduce(t, ReduceOp::kMax); }},
      {"call", [](Communicator& w, at::Tensor& t) { return w.start_broadcast(t, 0); }},
  };
  for (const Case& one : cases) {
    const auto ends = run_worlds(3, [&](Communicator& world, ProcessWorld&) {
      at::Tensor t = at::zeros({10});
      if (world.coord() == 1) {
        one.call(world, t).wait();
      } else {
        world.start_all_reduce(t, ReduceOp::kSum).wait();
      }
      return true;
    });
    for (const RankEnd& end : ends) {
      EXPECT_EQ(end.fault, DistFault::kMismatch) << one.what << ": " << end.message;
      EXPECT_LT(end.seconds, 5.0);
    }
  }
}

TEST(ProcessWorldFaults, AnExceptionEndsAllWithItsMessage) {
  for (int round = 0; round < 20; ++round) {
    const auto ends = run_worlds(4, [&](Communicator& world, ProcessWorld&) {
      at::Tensor t = at::zeros({50'000});
      for (int i = 0;; ++i) {
        if (world.coord() == round % 4 && i == 5) throw std::runtime_error("the hook broke");
        world.start_all_reduce(t, ReduceOp::kSum).wait();
      }
      return true;
    });
    for (const RankEnd& end : ends) {
      EXPECT_NE(end.message.find("the hook broke"), std::string::npos) << end.message;
      EXPECT_LT(end.seconds, 5.0);
    }
  }
}

TEST(ProcessWorldFaults, ARankThatGoesWithoutAWordIsNoticed) {
  for (int round = 0; round < 20; ++round) {
    const auto ends = run_worlds(3, [&](Communicator& world, ProcessWorld&) {
      at::Tensor t = at::zeros({200'000});
      for (int i = 0;; ++i) {
        if (world.coord() == round % 3 && i == 3) return false;
        world.start_all_reduce(t, ReduceOp::kSum).wait();
      }
    });
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      if (rank == round % 3) continue;
      const RankEnd& end = ends[static_cast<std::size_t>(rank)];
      EXPECT_EQ(end.fault, DistFault::kPeerLost) << end.message;
      EXPECT_NE(end.message.find("rank " + std::to_string(round % 3) + " is gone"),
                std::string::npos);
      EXPECT_LT(end.seconds, 5.0);
    }
  }
}

TEST(ProcessWorldFaults, ATimeOutNamesTheMissingRanks) {
  const auto ends = run_worlds(
      3,
      [](Communicator& world, ProcessWorld& engine) {
        if (world.coord() == 1) {
          while (!engine.aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        world.barrier();
        return true;
      },
      Seconds{0.3});
  EXPECT_EQ(ends[0].fault, DistFault::kTimeout);
  for (const RankEnd& end : ends) {
    EXPECT_NE(end.message.find("for rank 1 to join"), std::string::npos) << end.message;
    EXPECT_LT(end.seconds, 5.0);
  }
}

TEST(ProcessWorldFaults, ADroppedHandleIsReportedByTheNextCall) {
#ifndef NDEBUG
  const auto ends = run_worlds(2, [](Communicator& world, ProcessWorld&) {
    at::Tensor t = at::zeros({10});
    { const Handle dropped = world.start_all_reduce(t, ReduceOp::kSum, {.unit = "lost"}); }
    world.barrier();
    return true;
  });
  EXPECT_NE(ends[0].message.find("went without wait()"), std::string::npos) << ends[0].message;
#endif
}

/// Keeps what a reader hands over.
class Collector final : public detail::WireSink {
 public:
  std::byte* on_head(std::int64_t, const detail::MessageHead& head,
                     std::string_view text) override {
    log += std::string(text) + ":";
    payload.assign(static_cast<std::size_t>(head.bytes), std::byte{0});
    return payload.data();
  }
  void on_message(std::int64_t, const detail::MessageHead&) override {
    log += std::string(reinterpret_cast<const char*>(payload.data()), payload.size()) + ";";
  }
  void on_lost(std::int64_t, const std::string&) override {}
  std::string log;
  std::vector<std::byte> payload;
};

std::vector<std::byte> message(const std::string& text, const std::string& payload) {
  detail::MessageHead head;
  head.bytes = static_cast<std::int64_t>(payload.size());
  head.text_bytes = static_cast<std::uint32_t>(text.size());
  std::vector<std::byte> bytes(sizeof head + text.size() + payload.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, text.data(), text.size());
  std::memcpy(bytes.data() + sizeof head + text.size(), payload.data(), payload.size());
  return bytes;
}

TEST(MessageReader, AnyPiecesGiveTheSameMessages) {
  std::vector<std::byte> stream;
  for (const auto& [text, payload] : std::vector<std::pair<std::string, std::string>>{
           {"a", "xyz"}, {"", ""}, {"long text", ""}, {"", std::string(1000, 'p')}}) {
    const auto bytes = message(text, payload);
    stream.insert(stream.end(), bytes.begin(), bytes.end());
  }
  const std::string want = "a:xyz;:;long text:;:" + std::string(1000, 'p') + ";";
  for (std::size_t piece = 1; piece <= stream.size(); piece += piece < 70 ? 1 : 97) {
    Collector sink;
    detail::MessageReader reader(0);
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      const std::size_t count = std::min(piece, stream.size() - at);
      ASSERT_TRUE(reader.feed({stream.data() + at, count}, sink));
    }
    EXPECT_EQ(sink.log, want) << piece;
    EXPECT_TRUE(reader.between_messages());
  }
}

TEST(MessageReader, RefusesWhatIsNoMessage) {
  const auto refused = [](const std::function<void(detail::MessageHead&)>& change) {
    auto bytes = message("", "");
    detail::MessageHead head;
    change(head);
    std::memcpy(bytes.data(), &head, sizeof head);
    Collector sink;
    detail::MessageReader reader(0);
    EXPECT_FALSE(reader.feed(bytes, sink));
    EXPECT_FALSE(reader.feed(bytes, sink));
    return reader.fault();
  };
  EXPECT_EQ(refused([](auto& head) { head.kind = static_cast<detail::MessageKind>(9); }),
            "message of unknown kind 9");
  EXPECT_EQ(refused([](auto& head) { head.bytes = -1; }), "payload of -1 bytes");
  EXPECT_EQ(refused([](auto& head) { head.bytes = std::int64_t{1} << 50; }),
            "payload of 1125899906842624 bytes");
  EXPECT_EQ(refused([](auto& head) { head.text_bytes = 5000; }), "text of 5000 bytes");
  EXPECT_EQ(refused([](auto& head) {
              head.kind = detail::MessageKind::kGoodbye;
              head.bytes = 1;
            }),
            "control message with a payload");
}

}  // namespace
}  // namespace sx
