#include "sextant/data/megatron_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace sx {

namespace {

Error bad_split(std::string_view text) {
  return {ErrorKind::kInvalid, "a split is one to three numbers, one of them above 0, as 969,30,1",
          std::string(text)};
}

std::string_view strip_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r\f\v";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

/// What Python's `float(word)` accepts, but for underscores between digits.
std::optional<double> read_python_float(std::string_view word) {
  const std::string text(strip_blanks(word));
  if (text.empty() || text.find_first_of("xXpP(") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size()) return std::nullopt;
  return value;
}

/// A number of digits and at most one point, at least one digit.
std::optional<double> read_split_number(std::string_view word) {
  const bool digit = word.find_first_of("0123456789") != std::string_view::npos;
  if (!digit || std::count(word.begin(), word.end(), '.') > 1) return std::nullopt;
  double value = 0;
  const std::string text(word);
  value = std::strtod(text.c_str(), nullptr);
  return value;
}

}  // namespace

double numpy_sum(const double* values, std::size_t count) {
  if (count < 8) {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += values[i];
    return sum;
  }
  if (count <= 128) {
    std::array<double, 8> r;
    std::copy_n(values, 8, r.begin());
    std::size_t i = 8;
    for (; i + 8 <= count; i += 8) {
      for (std::size_t lane = 0; lane < 8; ++lane) r[lane] += values[i + lane];
    }
    double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < count; ++i) sum += values[i];
    return sum;
  }
  const std::size_t half = count / 2 / 8 * 8;
  return numpy_sum(values, half) + numpy_sum(values + half, count - half);
}

std::vector<double> numpy_normalize(const std::vector<double>& values) {
  const double sum = numpy_sum(values.data(), values.size());
  std::vector<double> shares;
  for (const double value : values) shares.push_back(value / sum);
  return shares;
}

std::pair<std::uint64_t, std::uint64_t> MegatronSplit::range(std::size_t part,
                                                             std::uint64_t count) const {
  if (!bounds.at(part)) return {0, 0};
  const auto at = [&](double share) {
    return static_cast<std::uint64_t>(std::nearbyint(share * static_cast<double>(count)));
  };
  const std::uint64_t last = std::min(at(bounds[part]->second), count);
  return {std::min(at(bounds[part]->first), last), last};
}

nlohmann::ordered_json MegatronSplit::matrix_json() const {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t part = 0; part < 3; ++part) {
    if (!bounds[part]) {
      rows.push_back(nullptr);
      continue;
    }
    nlohmann::ordered_json row = nlohmann::ordered_json::array();
    if (part == 0) {
      row.push_back(0);
    } else {
      row.push_back(bounds[part]->first);
    }
    row.push_back(bounds[part]->second);
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<MegatronSplit> parse_megatron_split(std::string_view text) {
  constexpr std::string_view kPart = "0123456789.";
  std::vector<double> numbers;
  for (std::size_t at = text.find_first_of(kPart); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_not_of(kPart, at), text.size());
    const std::optional<double> number = read_split_number(text.substr(at, end - at));
    if (!number) return bad_split(text);
    numbers.push_back(*number);
    at = text.find_first_of(kPart, end);
  }
  if (numbers.empty() || numbers.size() > 3) return bad_split(text);
  numbers.resize(3, 0);
  if (!(numbers[0] + numbers[1] + numbers[2] > 0)) return bad_split(text);
  const std::vector<double> shares = numpy_normalize(numbers);
  MegatronSplit split;
  double low = 0;
  for (std::size_t part = 0; part < 3; ++part) {
    split.vector[part] = shares[part];
    const double high = low + shares[part];
    if (high > low) split.bounds[part] = {low, high};
    low = high;
  }
  return split;
}

Result<MegatronBlend> parse_data_path(const std::vector<std::string>& words) {
  if (words.empty()) return Error{ErrorKind::kInvalid, "no prefix", "data path"};
  MegatronBlend blend;
  std::vector<double> weights;
  std::size_t without = 0;
  if (words.size() % 2 == 0) {
    for (std::size_t i = 0; i < words.size(); i += 2) {
      if (const auto weight = read_python_float(words[i])) {
        weights.push_back(*weight);
      } else {
        ++without;
      }
    }
  }
  if (!weights.empty() && without > 0) {
    return Error{ErrorKind::kInvalid,
                 fmt::format("{} of {} pairs begin with a weight; all of them do, or none",
                             weights.size(), words.size() / 2),
                 "data path"};
  }
  const std::size_t step = weights.empty() ? 1 : 2;
  for (std::size_t i = step - 1; i < words.size(); i += step) {
    blend.paths.emplace_back(strip_blanks(words[i]));
  }
  if (!weights.empty()) blend.weights = std::move(weights);
  return blend;
}

}  // namespace sx
