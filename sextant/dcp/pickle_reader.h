#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

/// A value of a pickle, as data. Nothing is ever called: a class or function that the pickle names
/// stays its name, and an object is that name with its arguments and state.
struct PickleValue {
  enum class Kind {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kBytes,
    kList,
    kTuple,
    kDict,
    kGlobal,
    kObject,
    kPersistent
  };
  /// Place of a value in `PickleTree::values`; values may be shared and may form cycles.
  using Ref = std::uint32_t;

  Kind kind = Kind::kNone;
  std::int64_t integer = 0;  ///< kInt, kBool
  double real = 0;           ///< kFloat
  std::string text;          ///< kText, kBytes; kGlobal and kObject: "module.name"
  std::vector<Ref> items;    ///< kList, kTuple; kObject: arguments, one tuple; kPersistent: its id
  std::vector<std::pair<Ref, Ref>> pairs;  ///< kDict, in order
  Ref state = 0;                           ///< kObject: what BUILD gave
  bool has_state = false;
};

struct PickleTree {
  std::vector<PickleValue> values;
  PickleValue::Ref root = 0;

  const PickleValue& at(PickleValue::Ref ref) const { return values[ref]; }
  const PickleValue& top() const { return values[root]; }
  /// The value of a text key; null when there is none or `value` is no dict.
  const PickleValue* find(const PickleValue& value, std::string_view key) const;
  /// A field of an object's state dict.
  const PickleValue* field(const PickleValue& object, std::string_view name) const;
};

/// Reads one pickle, protocols 2 to 5, of which only the opcodes that checkpoints use. `allowed`:
/// full names of classes and functions that may stand in it ("torch.Size").
///
/// Memory grows with the bytes read. Errors, each with the byte at which it was seen:
/// kUnsupported: an opcode or a name that is not allowed; kCorrupt: anything that is no pickle.
/// Source:  the opcodes as CPython's Lib/pickletools.py documents them.
Result<PickleTree> read_pickle(std::string_view bytes, std::span<const std::string_view> allowed);

}  // namespace sx
