// sextant launch: which ranks run where, and how often.
#include "apps/sextant/cmd_launch.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>

#include "apps/program/program.h"
#include "apps/sextant/rank_supervisor.h"
#include "sextant/base/clock.h"
#include "sextant/base/console.h"
#include "sextant/base/diagnostic.h"
#include "sextant/base/fs.h"
#include "sextant/base/run_folder.h"

namespace sx {
namespace {

constexpr int kDefaultPort = 29500;

struct Place {
  std::string master = "127.0.0.1";
  std::int64_t node = 0;
  std::int64_t num_nodes = 1;
};

std::string own_host() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

/// One host a line; what follows the name ("slots=8") and text behind # is for other launchers.
std::vector<std::string> read_hosts(const std::string& path) {
  const auto text = read_file(path);
  if (!text.ok()) throw ConfigError(to_diagnostic(text.error(), "--nodes FILE"));
  std::vector<std::string> hosts;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host;
    if (words >> host) hosts.push_back(host);
  }
  return hosts;
}

Place find_place(const std::string& path) {
  if (path.empty()) return {};
  const std::vector<std::string> hosts = read_hosts(path);
  const std::string own = own_host();
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i] != own && hosts[i].substr(0, hosts[i].find('.')) != own.substr(0, own.find('.')))
      continue;
    return {.master = hosts[0],
            .node = static_cast<std::int64_t>(i),
            .num_nodes = static_cast<std::int64_t>(hosts.size())};
  }
  throw ConfigError(Diagnostic{.number = 8,
                               .what = fmt::format("{} does not list this host, {}", path, own),
                               .where = "command line (--nodes)",
                               .rule = "one host name a line; launch is started on each of them",
                               .next = "add " + own + " to it"});
}

/// A port nobody listens on now.
int free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool found = probe >= 0 &&
                     bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                     getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  if (probe >= 0) close(probe);
  return found ? ntohs(address.sin_port) : kDefaultPort;
}

bool has_flag(const std::vector<std::string>& words, const std::string& flag) {
  for (const std::string& word : words) {
    if (word == flag || word.starts_with(flag + "=")) return true;
  }
  return false;
}

/// The words of the ranks' command; a bare recipe means train. Ranks of a later attempt find what
/// the first one saved, so the folder has one name from the start.
std::vector<std::string> rank_command(const Invocation& invocation) {
  std::vector<std::string> words = invocation.inputs;
  if (find_verb(words[0]) == nullptr) words.insert(words.begin(), "train");
  if (find_verb(words[0])->name != "train") {
    throw ConfigError(Diagnostic{.number = 27,
                                 .what = fmt::format("launch has no use for {}", words[0]),
                                 .where = "command line",
                                 .rule = "the command that runs on several ranks is train",
                                 .next = "sextant launch --ranks 4 -- train recipe.toml"});
  }
  if (!has_flag(words, "--out")) {
    std::string name = "run";
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (words[i].ends_with(".toml") || words[i].ends_with(".json"))
        name = fs::path(words[i]).stem().string();
    }
    words.insert(words.end(), {"--out", default_out("train", name)});
  }
  return words;
}

RankCommand make_command(const Invocation& invocation) {
  const std::string program = find_sibling("sextant-train");
  if (program.empty()) {
    throw ConfigError(
        Diagnostic{.number = 5,
                   .what = "there is no program sextant-train beside this one",
                   .where = "launch",
                   .rule = "this build has no LibTorch part; configure with preset release",
                   .next = "./sx build release"});
  }
  const std::int64_t ranks = invocation.integer("ranks", 0);
  if (ranks == 0) {
    throw ConfigError(Diagnostic{.number = 25,
                                 .what = "launch needs --ranks",
                                 .where = "command line",
                                 .rule = "one process is started for each rank",
                                 .next = "sextant launch --ranks 4 -- train recipe.toml"});
  }
  const Place place = find_place(invocation.text("nodes"));
  if (ranks % place.num_nodes != 0) {
    throw ConfigError(Diagnostic{
        .number = 10,
        .what = fmt::format("{} ranks on {} nodes", ranks, place.num_nodes),
        .where = "command line (--ranks, --nodes)",
        .rule = "every node runs the same number of ranks",
        .next = fmt::format("--ranks {}", (ranks / place.num_nodes + 1) * place.num_nodes)});
  }
  RankCommand command;
  command.words = rank_command(invocation);
  command.words.insert(command.words.begin(), program);
  command.num_local = ranks / place.num_nodes;
  command.world_size = ranks;
  command.first_rank = place.node * command.num_local;
  command.node = place.node;
  command.num_nodes = place.num_nodes;
  command.master = place.master;
  command.max_restarts = invocation.integer("max-restarts", 0);
  command.run_id = fmt::format("launch-{}-{}", own_host(), getpid());
  if (place.num_nodes > 1) command.run_id = fmt::format("launch-{}", fmt::join(command.words, " "));
  return command;
}

void print_commands(const RankCommand& command) {
  for (std::int64_t local = 0; local < command.num_local; ++local) {
    fmt::print("rank {} of {}  {}\n", command.first_rank + local, command.world_size,
               fmt::join(command.words, " "));
  }
}

}  // namespace

int run_launch(const Invocation& invocation) {
  RankCommand command = make_command(invocation);
  if (invocation.dry_run) {
    print_commands(command);
    return 0;
  }
  const std::int64_t port = invocation.integer("port", command.num_nodes > 1 ? kDefaultPort : 0);
  for (std::int64_t attempt = 0;; ++attempt) {
    command.restart = attempt;
    command.port = port != 0 ? static_cast<int>(port) : free_port();
    const Attempt result = run_ranks_once(command);
    const bool again = attempt < command.max_restarts && result.may_restart();
    if (!result.cause.empty()) console::write_line(result.cause);
    if (!again) return result.exit;
    console::write_line(fmt::format("restart {} of {} from the newest checkpoint", attempt + 1,
                                    command.max_restarts));
  }
}

}  // namespace sx
