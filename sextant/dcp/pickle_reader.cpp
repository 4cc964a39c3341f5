// A stack machine whose only effect is a tree of values.
#include "sextant/dcp/pickle_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>

namespace sx {
namespace {

using Kind = PickleValue::Kind;
using Ref = PickleValue::Ref;

constexpr Ref kMark = 0xffffffffu;  // on the stack only
// A piece of a tensor takes about twenty values; a value takes a hundred bytes here and one there.
constexpr std::size_t kMaxValues = std::size_t{1} << 26;

class Machine {
 public:
  Machine(std::string_view bytes, std::span<const std::string_view> allowed)
      : bytes_(bytes), allowed_(allowed) {}

  Result<PickleTree> run() {
    while (true) {
      if (at_ >= bytes_.size()) return corrupt("ends without STOP");
      op_at_ = at_;
      const auto op = static_cast<unsigned char>(bytes_[at_++]);
      if (op == '.') break;
      SX_TRY_VOID(step(op));
      if (tree_.values.size() > kMaxValues) return corrupt("more values than any checkpoint has");
    }
    if (stack_.size() != 1 || stack_.back() == kMark) return corrupt("STOP without one value");
    tree_.root = stack_.back();
    return std::move(tree_);
  }

 private:
  Error corrupt(const std::string& what) const {
    return {ErrorKind::kCorrupt, fmt::format("pickle: byte {}: {}", op_at_, what), ""};
  }
  Error refused(const std::string& what) const {
    return {ErrorKind::kUnsupported, fmt::format("pickle: byte {}: {}", op_at_, what), ""};
  }

  Result<std::string_view> take(std::uint64_t count) {
    if (count > bytes_.size() - at_) return corrupt(fmt::format("{} bytes past the end", count));
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  Result<std::uint64_t> number(int size) {
    SX_TRY(const std::string_view raw, take(static_cast<std::uint64_t>(size)));
    std::uint64_t value = 0;
    for (int i = size - 1; i >= 0; --i) {
      value = value << 8 | static_cast<unsigned char>(raw[static_cast<std::size_t>(i)]);
    }
    return value;
  }
  Result<std::string_view> line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) return corrupt("a line without end");
    const std::string_view text = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }

  PickleValue& push(Kind kind) {
    tree_.values.emplace_back();
    tree_.values.back().kind = kind;
    stack_.push_back(static_cast<Ref>(tree_.values.size() - 1));
    return tree_.values.back();
  }
  void push_int(std::int64_t value, Kind kind = Kind::kInt) { push(kind).integer = value; }
  Result<Ref> pop() {
    if (stack_.empty() || stack_.back() == kMark) return corrupt("the stack is empty");
    const Ref ref = stack_.back();
    stack_.pop_back();
    return ref;
  }
  Result<std::vector<Ref>> pop_to_mark() {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), kMark);
    if (mark == stack_.rend()) return corrupt("no mark");
    std::vector<Ref> items(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    return items;
  }
  Result<Ref> top(Kind kind, const char* what) {
    if (stack_.empty() || stack_.back() == kMark || tree_.at(stack_.back()).kind != kind) {
      return corrupt(fmt::format("no {} on the stack", what));
    }
    return stack_.back();
  }

  Result<void> step(unsigned char op) {
    switch (op) {
      case 0x80: return protocol();
      case 0x95: {  // FRAME: a length that nothing depends on
        SX_TRY(const std::uint64_t length, number(8));
        if (length > bytes_.size() - at_) return corrupt("a frame past the end");
        return {};
      }
      case 'N': push(Kind::kNone); return {};
      case 0x88: push_int(1, Kind::kBool); return {};
      case 0x89: push_int(0, Kind::kBool); return {};
      case 'K':
      case 'M':
      case 'J':
      case 0x8a: return integer(op);
      case 'G': return binary_float();
      case 0x8c:
      case 'X':
      case 0x8d: return text(op, Kind::kText);
      case 'C':
      case 'B':
      case 0x8e: return text(op, Kind::kBytes);
      case '}': push(Kind::kDict); return {};
      case ']': push(Kind::kList); return {};
      case ')': push(Kind::kTuple); return {};
      case '(': stack_.push_back(kMark); return {};
      case 't': {
        SX_TRY(std::vector<Ref> items, pop_to_mark());
        push(Kind::kTuple).items = std::move(items);
        return {};
      }
      case 0x85:
      case 0x86:
      case 0x87: return short_tuple(op - 0x84u);
      case 'a':
      case 'e': return append(op == 'e');
      case 's':
      case 'u': return set_items(op == 'u');
      case 0x94: return store(memo_.size());
      case 'q':
      case 'r': {
        SX_TRY(const std::uint64_t key, number(op == 'q' ? 1 : 4));
        return store(key);
      }
      case 'h':
      case 'j': return fetch(op == 'h' ? 1 : 4);
      case 'c':
      case 0x93: return global(op == 'c');
      case 'R':
      case 0x81: return object();
      case 'b': return build();
      case 'Q': {
        SX_TRY(const Ref id, pop());
        push(Kind::kPersistent).items = {id};
        return {};
      }
      default: return refused(fmt::format("opcode 0x{:02x} is not read", op));
    }
  }

  Result<void> protocol() {
    SX_TRY(const std::uint64_t version, number(1));
    if (version < 2 || version > 5) return refused(fmt::format("protocol {}", version));
    return {};
  }

  Result<void> integer(unsigned char op) {
    if (op == 0x8a) {  // LONG1: little-endian two's complement
      SX_TRY(const std::uint64_t size, number(1));
      if (size > 8) return refused(fmt::format("a number of {} bytes", size));
      SX_TRY(const std::uint64_t raw, number(static_cast<int>(size)));
      const int unused = 64 - 8 * static_cast<int>(size);
      push_int(size == 0 ? 0 : static_cast<std::int64_t>(raw << unused) >> unused);
      return {};
    }
    SX_TRY(const std::uint64_t raw, number(op == 'K' ? 1 : op == 'M' ? 2 : 4));
    push_int(op == 'J' ? static_cast<std::int32_t>(static_cast<std::uint32_t>(raw))
                       : static_cast<std::int64_t>(raw));
    return {};
  }

  Result<void> binary_float() {
    SX_TRY(const std::uint64_t raw, number(8));  // big-endian in the file
    push(Kind::kFloat).real = std::bit_cast<double>(__builtin_bswap64(raw));
    return {};
  }

  Result<void> text(unsigned char op, Kind kind) {
    const int size = op == 0x8c || op == 'C' ? 1 : op == 'X' || op == 'B' ? 4 : 8;
    SX_TRY(const std::uint64_t length, number(size));
    SX_TRY(const std::string_view raw, take(length));
    push(kind).text = std::string(raw);
    return {};
  }

  Result<void> short_tuple(unsigned count) {
    std::vector<Ref> items(count);
    for (auto it = items.rbegin(); it != items.rend(); ++it) {
      SX_TRY(*it, pop());
    }
    push(Kind::kTuple).items = std::move(items);
    return {};
  }

  Result<void> append(bool many) {
    std::vector<Ref> items(1);
    if (many) {
      SX_TRY(items, pop_to_mark());
    } else {
      SX_TRY(items[0], pop());
    }
    SX_TRY(const Ref list, top(Kind::kList, "list"));
    auto& into = tree_.values[list].items;
    into.insert(into.end(), items.begin(), items.end());
    return {};
  }

  Result<void> set_items(bool many) {
    std::vector<Ref> items(2);
    if (many) {
      SX_TRY(items, pop_to_mark());
      if (items.size() % 2 != 0) return corrupt("a key without value");
    } else {
      SX_TRY(items[1], pop());
      SX_TRY(items[0], pop());
    }
    // An ordered dict is an object here that is filled like a dict.
    if (stack_.empty() || stack_.back() == kMark) return corrupt("no dict on the stack");
    PickleValue& into = tree_.values[stack_.back()];
    if (into.kind != Kind::kDict &&
        !(into.kind == Kind::kObject && into.text == "collections.OrderedDict")) {
      return corrupt("no dict on the stack");
    }
    for (std::size_t i = 0; i < items.size(); i += 2)
      into.pairs.emplace_back(items[i], items[i + 1]);
    return {};
  }

  Result<void> store(std::uint64_t key) {
    if (stack_.empty() || stack_.back() == kMark) return corrupt("nothing to remember");
    memo_[key] = stack_.back();
    return {};
  }
  Result<void> fetch(int size) {
    SX_TRY(const std::uint64_t key, number(size));
    const auto at = memo_.find(key);
    if (at == memo_.end()) return corrupt(fmt::format("nothing remembered as {}", key));
    stack_.push_back(at->second);
    return {};
  }

  Result<void> global(bool in_lines) {
    std::string name;
    if (in_lines) {
      SX_TRY(const std::string_view module, line());
      SX_TRY(const std::string_view member, line());
      name = fmt::format("{}.{}", module, member);
    } else {
      SX_TRY(const Ref member, pop());
      SX_TRY(const Ref module, pop());
      if (tree_.at(member).kind != Kind::kText || tree_.at(module).kind != Kind::kText) {
        return corrupt("a name that is no text");
      }
      name = fmt::format("{}.{}", tree_.at(module).text, tree_.at(member).text);
    }
    if (std::find(allowed_.begin(), allowed_.end(), name) == allowed_.end()) {
      return refused(
          fmt::format("\"{}\" is not on the list of classes that are read", name.substr(0, 200)));
    }
    push(Kind::kGlobal).text = std::move(name);
    return {};
  }

  /// REDUCE and NEWOBJ: the name and its arguments, not a call.
  Result<void> object() {
    SX_TRY(const Ref arguments, pop());
    SX_TRY(const Ref callee, pop());
    if (tree_.at(arguments).kind != Kind::kTuple) return corrupt("arguments are no tuple");
    if (tree_.at(callee).kind != Kind::kGlobal) return corrupt("an object of no class");
    std::string name = tree_.at(callee).text;
    PickleValue& made = push(Kind::kObject);
    made.text = std::move(name);
    made.items = {arguments};
    return {};
  }

  Result<void> build() {
    SX_TRY(const Ref state, pop());
    SX_TRY(const Ref object, top(Kind::kObject, "object"));
    tree_.values[object].state = state;
    tree_.values[object].has_state = true;
    return {};
  }

  std::string_view bytes_;
  std::span<const std::string_view> allowed_;
  std::size_t at_ = 0, op_at_ = 0;
  PickleTree tree_;
  std::vector<Ref> stack_;
  std::map<std::uint64_t, Ref> memo_;
};

}  // namespace

const PickleValue* PickleTree::find(const PickleValue& value, std::string_view key) const {
  if (value.kind != Kind::kDict) return nullptr;
  for (const auto& [name, member] : value.pairs) {
    if (at(name).kind == Kind::kText && at(name).text == key) return &at(member);
  }
  return nullptr;
}

const PickleValue* PickleTree::field(const PickleValue& object, std::string_view name) const {
  if (object.kind != Kind::kObject || !object.has_state) return nullptr;
  return find(at(object.state), name);
}

Result<PickleTree> read_pickle(std::string_view bytes, std::span<const std::string_view> allowed) {
  // References are 32 bits wide.
  if (bytes.size() >= 0xfffffff0u) {
    return Error{ErrorKind::kLimit, fmt::format("a pickle of {} bytes", bytes.size()), ""};
  }
  return Machine(bytes, allowed).run();
}

}  // namespace sx
