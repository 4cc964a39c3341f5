#include "sextant/base/host_list.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>

namespace sx {
namespace {

constexpr std::size_t kMaxHosts = 65536;

/// Recursive descent over   list = name *("," name);   name = *(text / "[" range *("," range) "]").
class Parser {
 public:
  explicit Parser(std::string_view list) : list_(list) {}

  Result<std::vector<std::string>> parse() {
    std::vector<std::string> hosts;
    for (;;) {
      SX_TRY(auto names, parse_name());
      hosts.insert(hosts.end(), names.begin(), names.end());
      if (hosts.size() > kMaxHosts) return too_many();
      if (at_ == list_.size()) return hosts;
      ++at_;  // the comma
    }
  }

 private:
  Error fault(const char* what) const {
    return {ErrorKind::kCorrupt,
            fmt::format("host list \"{}\": {} at column {}", list_, what, at_ + 1), ""};
  }
  Error too_many() const {
    return {ErrorKind::kLimit,
            fmt::format("host list \"{:.60}\" names more than {} hosts", list_, kMaxHosts), ""};
  }

  Result<std::vector<std::string>> parse_name() {
    std::vector<std::string> names{""};
    const std::size_t start = at_;
    while (at_ < list_.size() && list_[at_] != ',') {
      if (list_[at_] == '[') {
        SX_TRY(const auto parts, parse_group());
        if (names.size() * parts.size() > kMaxHosts) return too_many();
        std::vector<std::string> longer;
        for (const std::string& name : names) {
          for (const std::string& part : parts) longer.push_back(name + part);
        }
        names = std::move(longer);
      } else {
        const char c = list_[at_];
        if (c == ']' || c <= ' ') return fault("unexpected character");
        for (std::string& name : names) name += c;
        ++at_;
      }
    }
    if (at_ == start) return fault("missing host name");
    return names;
  }

  Result<std::vector<std::string>> parse_group() {
    ++at_;  // the bracket
    std::vector<std::string> parts;
    for (;;) {
      SX_TRY_VOID(parse_range(parts));
      if (at_ == list_.size()) return fault("missing ]");
      const char c = list_[at_];
      if (c != ',' && c != ']') return fault("unexpected character");
      ++at_;
      if (c == ']') return parts;
    }
  }

  Result<void> parse_range(std::vector<std::string>& parts) {
    SX_TRY(const std::string_view first, parse_digits());
    std::string_view last = first;
    if (at_ < list_.size() && list_[at_] == '-') {
      ++at_;
      SX_TRY(last, parse_digits());
    }
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::from_chars(first.data(), first.data() + first.size(), from);
    std::from_chars(last.data(), last.data() + last.size(), to);
    if (to < from) return fault("range that runs backwards");
    if (to - from >= kMaxHosts || parts.size() + (to - from) >= kMaxHosts) return too_many();
    for (std::uint64_t number = from; number <= to; ++number) {
      parts.push_back(fmt::format("{:0{}}", number, first.size()));
    }
    return {};
  }

  Result<std::string_view> parse_digits() {
    const std::size_t start = at_;
    while (at_ < list_.size() && list_[at_] >= '0' && list_[at_] <= '9') ++at_;
    if (at_ == start) return fault("missing number");
    if (at_ - start > 18) return fault("number of more than 18 digits");
    return list_.substr(start, at_ - start);
  }

  std::string_view list_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::vector<std::string>> expand_host_list(std::string_view list) {
  return Parser(list).parse();
}

}  // namespace sx
