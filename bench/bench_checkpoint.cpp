// Save and load of a sharded model beside what the disk takes: raw writes and reads of the same
// bytes by as many threads, in the same run. The peer is bench/peers/dcp_checkpoint.py. JSON lines.
//
//   bench_checkpoint [--mib 512] [--ranks 2] [--rounds 3] [--dir /var/tmp] [--copies 0]
//
// The tensors are those of a 12-layer decoder of width 768 with two moments each, cut to about the
// wanted size; every rank holds its n-th of each in row-major order, with --copies 1 all of it.
// Files are written out of the page cache before they are read.
#include <fcntl.h>
#include <unistd.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "sextant/ckpt/saver.h"
#include "sextant/dist/threads.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::int64_t mib = 512, ranks = 2, rounds = 3, copies = 0;
  sx::fs::path dir = "/var/tmp";
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "bench_checkpoint: %s\n", what.c_str());
  std::exit(1);
}

template <class T>
T good(sx::Result<T> result) {
  if (!result.ok()) fail(result.error().to_string());
  return std::move(result).value();
}
void good(const sx::Result<void>& result) {
  if (!result.ok()) fail(result.error().to_string());
}

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const std::int64_t value = std::atoll(argv[i + 1]);
    if (flag == "--mib") {
      options.mib = value;
    } else if (flag == "--ranks") {
      options.ranks = value;
    } else if (flag == "--rounds") {
      options.rounds = value;
    } else if (flag == "--copies") {
      options.copies = value;
    } else if (flag == "--dir") {
      options.dir = argv[i + 1];
    } else {
      fail("unknown flag " + flag);
    }
  }
  return options;
}

/// Shapes of a decoder's tensors until three times their bytes reach the wanted size.
std::vector<std::vector<std::int64_t>> shapes_of(std::int64_t mib) {
  const std::vector<std::vector<std::int64_t>> block = {{768}, {2304, 768}, {768, 768},
                                                        {768}, {3072, 768}, {768, 3072}};
  std::vector<std::vector<std::int64_t>> shapes;
  std::int64_t left = mib * (1 << 20) / 12;
  for (std::size_t i = 0; left > 0; ++i) {
    shapes.push_back(block[i % block.size()]);
    std::int64_t numel = 1;
    for (const std::int64_t extent : shapes.back()) numel *= extent;
    left -= numel;
  }
  return shapes;
}

sx::CheckpointContent content_of(const Options& options, std::int64_t rank, double value) {
  sx::CheckpointContent content;
  content.step = 1;
  std::size_t i = 0;
  for (const auto& shape : shapes_of(options.mib)) {
    std::int64_t numel = 1;
    for (const std::int64_t extent : shape) numel *= extent;
    const bool whole = options.copies != 0;
    const std::int64_t begin = whole ? 0 : rank * numel / options.ranks;
    const std::int64_t end = whole ? numel : (rank + 1) * numel / options.ranks;
    const std::string name = "t" + std::to_string(i++);
    for (const char* kind : {"", ".exp_avg", ".exp_avg_sq"}) {
      const std::string full = *kind == 0 ? name : "optim." + name + kind;
      sx::TensorPart part{full, shape, sx::Region::flat(begin, end - begin),
                          at::full({end - begin}, value + static_cast<double>(i), at::kFloat)};
      if (whole) part.copy = rank, part.copies = options.ranks;
      (*kind == 0 ? content.model_parts : content.optim_parts).push_back(std::move(part));
    }
  }
  return content;
}

void drop_cache(const sx::fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  fdatasync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

void drop_folder(const sx::fs::path& folder) {
  for (const auto& entry : sx::fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) drop_cache(entry.path());
}

/// Bytes per second of plain files, one per thread.
struct Raw {
  double write = 0, read = 0;
};
Raw raw_speed(const Options& options, std::int64_t bytes) {
  constexpr std::size_t kBlock = std::size_t{4} << 20;
  const auto path = [&](std::int64_t i) { return options.dir / ("raw" + std::to_string(i)); };
  const std::int64_t own = bytes / options.ranks;
  const auto all = [&](auto body) {
    const auto begin = Clock::now();
    std::vector<std::thread> threads;
    for (std::int64_t i = 0; i < options.ranks; ++i) threads.emplace_back(body, i);
    for (std::thread& thread : threads) thread.join();
    return static_cast<double>(own * options.ranks) / since(begin);
  };
  Raw raw;
  raw.write = all([&](std::int64_t i) {
    const std::vector<char> block(kBlock, static_cast<char>(i + 1));
    const int fd = open(path(i).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    for (std::int64_t left = own; left > 0;) {
      const ssize_t put =
          write(fd, block.data(), std::min<std::size_t>(kBlock, static_cast<std::size_t>(left)));
      if (put <= 0) fail("raw write");
      left -= put;
    }
    if (fsync(fd) != 0) fail("raw fsync");
    close(fd);
  });
  for (std::int64_t i = 0; i < options.ranks; ++i) drop_cache(path(i));
  raw.read = all([&](std::int64_t i) {
    std::vector<char> block(kBlock);
    const int fd = open(path(i).c_str(), O_RDONLY | O_CLOEXEC);
    while (read(fd, block.data(), kBlock) > 0) {
    }
    close(fd);
  });
  for (std::int64_t i = 0; i < options.ranks; ++i) sx::fs::remove(path(i));
  return raw;
}

/// Largest data bytes of a rank over the mean.
double balance(const sx::Checkpoint& checkpoint, std::int64_t ranks) {
  std::vector<double> bytes(static_cast<std::size_t>(ranks), 0);
  double total = 0;
  for (const auto& [name, file] : checkpoint.manifest().files) {
    if (!name.ends_with(".safetensors")) continue;
    const auto rank = static_cast<std::size_t>(std::atoll(name.substr(6, 5).c_str()));
    bytes.at(rank) += static_cast<double>(file.bytes);
    total += static_cast<double>(file.bytes);
  }
  return *std::max_element(bytes.begin(), bytes.end()) * static_cast<double>(ranks) / total;
}

void run_round(const Options& options, std::int64_t round) {
  const sx::fs::path root = options.dir / "ckpt";
  double save_s = 0, load_s = 0, async_s = 0, first_blocked_s = 0, blocked_s = 0, copied_s = 0;
  std::int64_t bytes = 0;
  double max_over_mean = 0;
  sx::run_ranks(options.ranks, [&](sx::Communicator& world) {
    const sx::CheckpointContent content = content_of(options, world.coord(), 1.0);
    const bool here = world.coord() == 0;
    const auto timed = [&](double& out, auto body) {
      world.barrier();
      const auto begin = Clock::now();
      body();
      world.barrier();
      if (here) out = since(begin);
    };
    timed(save_s, [&] { good(sx::save_checkpoint(root, content, world)); });
    if (here) drop_folder(root);
    const sx::Checkpoint checkpoint = good(sx::Checkpoint::open(root / "step-0000001"));
    if (here) {
      for (const auto& [name, file] : checkpoint.manifest().files)
        bytes += static_cast<std::int64_t>(file.bytes);
      max_over_mean = balance(checkpoint, options.ranks);
    }
    timed(load_s, [&] {
      good(checkpoint.load_parts(content.model_parts, {}, &world));
      good(checkpoint.load_parts(content.optim_parts, {.prefix = "optim."}, &world));
    });
    sx::CheckpointSaver saver(root, world, {});
    good(saver.start(content));
    if (here) first_blocked_s = saver.blocked_seconds();
    good(saver.wait());
    world.barrier();
    timed(async_s, [&] {
      good(saver.start(content));
      if (here) blocked_s = saver.blocked_seconds();
      good(saver.wait());
    });
    good(saver.start(content, sx::CheckpointSaver::Copy::kInBackground));
    if (here) copied_s = saver.blocked_seconds();
    good(saver.wait());
  });
  sx::fs::remove_all(root);
  const Raw raw = raw_speed(options, bytes);
  const auto total = static_cast<double>(bytes);
  std::printf(
      "{\"system\":\"sextant\",\"round\":%lld,\"ranks\":%lld,\"copies\":%lld,\"bytes\":%lld,"
      "\"save_mb_s\":%.1f,\"load_mb_s\":%.1f,\"raw_write_mb_s\":%.1f,\"raw_read_mb_s\":%.1f,"
      "\"save_of_raw\":%.3f,\"load_of_raw\":%.3f,\"max_over_mean\":%.4f,\"save_s\":%.3f,"
      "\"async_s\":%.3f,\"first_blocked_s\":%.4f,\"blocked_s\":%.4f,\"blocked_background_s\":%.4f}"
      "\n",
      static_cast<long long>(round), static_cast<long long>(options.ranks),
      static_cast<long long>(options.copies), static_cast<long long>(bytes), total / save_s / 1e6,
      total / load_s / 1e6, raw.write / 1e6, raw.read / 1e6, total / save_s / raw.write,
      total / load_s / raw.read, max_over_mean, save_s, async_s, first_blocked_s, blocked_s,
      copied_s);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse(argc, argv);
  std::string pattern = (options.dir / "bench_checkpoint.XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) fail("no folder in " + options.dir.string());
  options.dir = pattern;
  for (std::int64_t round = 0; round < options.rounds; ++round) run_round(options, round);
  sx::fs::remove_all(options.dir);
  return 0;
}
