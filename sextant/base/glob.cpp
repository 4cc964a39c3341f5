#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <system_error>

#include "sextant/base/fs.h"

namespace sx {

Result<std::vector<fs::path>> glob_files(const std::string& pattern) {
  std::error_code ignored;
  // First as it is: a file may have brackets in its name.
  if (fs::exists(pattern, ignored)) return std::vector<fs::path>{pattern};
  std::vector<fs::path> found;
  glob_t matches{};
  const int code = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  if (code == 0) found.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  globfree(&matches);
  if (found.empty()) {
    const bool is_pattern = pattern.find_first_of("*?[") != std::string::npos;
    return Error{ErrorKind::kNotFound,
                 is_pattern ? fmt::format("no file matches {}", pattern)
                            : fmt::format("{} does not exist", pattern),
                 pattern};
  }
  // Byte order, not the locale's.
  std::sort(found.begin(), found.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return found;
}

namespace {

Result<std::vector<fs::path>> expand_list(const std::string& list) {
  SX_TRY(const std::string text, read_file(list, std::uint64_t{1} << 30));
  std::vector<fs::path> paths;
  std::size_t line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    auto files = glob_files(line);
    if (!files.ok()) {
      Error error = std::move(files).error();
      error.where = fmt::format("{}:{}", list, line_number);
      return error;
    }
    paths.insert(paths.end(), files->begin(), files->end());
  }
  return paths;
}

}  // namespace

Result<std::vector<fs::path>> expand_inputs(const std::vector<std::string>& inputs) {
  std::vector<fs::path> paths;
  for (const std::string& input : inputs) {
    if (input == "-") {
      paths.emplace_back(input);
      continue;
    }
    SX_TRY(const auto some, input.size() > 1 && input.front() == '@' ? expand_list(input.substr(1))
                                                                     : glob_files(input));
    paths.insert(paths.end(), some.begin(), some.end());
  }
  return paths;
}

}  // namespace sx
