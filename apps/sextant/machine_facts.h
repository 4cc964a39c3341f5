#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace sx {

/// Something that may be there or not; `--require NAME` asks for it.
struct Part {
  std::string name;
  bool present = false;
  std::string detail;  ///< where it is, or what brings it
};

struct DiskFacts {
  std::string what;  ///< "working folder"
  std::string path;
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

struct MachineFacts {
  std::string cpu;
  std::vector<std::string> cpu_features;
  std::size_t cores = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_available_bytes = 0;
  std::vector<DiskFacts> disks;
  std::string launcher;
  std::map<std::string, std::string> variables;  ///< read by libraries, not by Sextant
  std::vector<Part> parts;
  std::map<std::string, bool> test_labels;
  std::vector<std::string> warnings;  ///< known bad combinations, one line each

  nlohmann::ordered_json to_json() const;
};

/// Looks at this machine; no network, no process started, well below a second.
MachineFacts look_at_machine();

}  // namespace sx
