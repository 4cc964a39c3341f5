#include "apps/program/read_json.h"

#include <cstdint>

#include "sextant/base/diagnostic.h"

namespace sx {

nlohmann::ordered_json read_json(const fs::path& path, const std::string& next) {
  const auto text = read_file(path, std::uint64_t{1} << 30);
  if (!text.ok()) throw IoError(to_diagnostic(text.error(), next));
  auto json = nlohmann::ordered_json::parse(*text, nullptr, false);
  if (json.is_discarded()) {
    throw IoError(to_diagnostic({ErrorKind::kCorrupt, "not JSON", path.string()}, next));
  }
  return json;
}

}  // namespace sx
