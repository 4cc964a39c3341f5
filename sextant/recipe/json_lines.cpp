#include "sextant/recipe/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace sx {
namespace {

constexpr std::size_t kMaxDepth = 64;

/// Characters of a text that count the lines the parser has passed.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    if (*at_ == '\n') ++*line_;
    ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* line_;
};

/// Objects become dotted keys; an array is one value, and objects inside it stay values.
class LeafReader : public nlohmann::json_sax<Json> {
 public:
  explicit LeafReader(const std::size_t& line) : line_(line) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(value); }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override {
    if (values_.empty()) {
      if (depth_ > 0) prefix_.push_back(key_);
      return ++depth_ <= kMaxDepth;
    }
    return open(Json::object());
  }
  bool end_object() override {
    if (values_.empty()) {
      --depth_;
      if (!prefix_.empty()) prefix_.pop_back();
      return true;
    }
    return close();
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return false;
    return open(Json::array());
  }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    key_ = name;
    if (values_.empty()) key_line_ = line_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& problem) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." without
    // the library's part
    message_ = problem.what();
    const std::size_t colon = message_.find(": ");
    if (colon != std::string::npos) message_ = message_.substr(colon + 2);
    return false;
  }

  std::vector<JsonLeaf> leaves;
  const std::string& message() const { return message_; }

 private:
  bool put(Json value) {
    if (depth_ == 0) return false;
    if (!values_.empty()) {
      add_to(values_.back(), std::move(value), key_);
      return true;
    }
    std::string name;
    for (const std::string& part : prefix_) name += part + ".";
    name += key_;
    const auto same = [&](const JsonLeaf& leaf) { return leaf.key == name; };
    if (std::any_of(leaves.begin(), leaves.end(), same)) {
      message_ = fmt::format("key {} is given twice", name);
      return false;
    }
    leaves.push_back({name, std::move(value), key_line_});
    return true;
  }
  static void add_to(Json& container, Json value, const std::string& key) {
    if (container.is_array()) {
      container.push_back(std::move(value));
    } else {
      container[key] = std::move(value);
    }
  }
  bool open(Json container) {
    values_.push_back(std::move(container));
    keys_.push_back(key_);
    return values_.size() <= kMaxDepth;
  }
  bool close() {
    Json done = std::move(values_.back());
    values_.pop_back();
    key_ = keys_.back();
    keys_.pop_back();
    return put(std::move(done));
  }

  const std::size_t& line_;
  std::vector<std::string> prefix_;
  std::string key_;
  std::size_t key_line_ = 1;
  std::size_t depth_ = 0;
  std::vector<Json> values_;
  std::vector<std::string> keys_;
  std::string message_ = "not one JSON object";
};

}  // namespace

Result<std::vector<JsonLeaf>> read_json_leaves(const std::string& text) {
  std::size_t line = 1;
  LeafReader reader(line);
  const CountingIterator begin(text.data(), &line);
  const CountingIterator end(text.data() + text.size(), &line);
  if (!Json::sax_parse(begin, end, &reader)) {
    return Error{ErrorKind::kCorrupt, reader.message(), fmt::format("{}", line)};
  }
  return std::move(reader.leaves);
}

}  // namespace sx
