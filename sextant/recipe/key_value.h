#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/units.h"
#include "sextant/recipe/recipe.h"

namespace sx {

/// How one C++ type of a recipe field is written in a recipe. `Json` is the tree all formats are
/// read into.
using Json = nlohmann::ordered_json;

/// The words of an enumeration in a recipe, in the order of its values.
template <class E>
struct EnumWords;

template <>
struct EnumWords<LogLevel> {
  static constexpr std::array kWords{"error", "warn", "info", "debug"};
};
template <>
struct EnumWords<Decay> {
  static constexpr std::array kWords{"cosine", "linear", "sqrt", "constant"};
};
template <>
struct EnumWords<Dtype> {
  static constexpr std::array kWords{"fp32", "fp64", "bf16", "fp16"};
};
template <>
struct EnumWords<NonFinite> {
  static constexpr std::array kWords{"halt", "skip"};
};
template <>
struct EnumWords<Zero> {
  static constexpr std::array kWords{"ddp", "zero1", "zero2", "fsdp1", "fsdp2"};
};
template <>
struct EnumWords<DtypeOrAuto> {
  static constexpr std::array kWords{"auto", "fp32", "fp64", "bf16", "fp16"};
};
template <>
struct EnumWords<DpLayout> {
  static constexpr std::array kWords{"auto",      "bucket", "bucket_plain", "flat",
                                     "per_param", "block",  "tensor"};
};
template <>
struct EnumWords<DpOrder> {
  static constexpr std::array kWords{"auto", "flat", "nested"};
};
template <>
struct EnumWords<DpAccumulate> {
  static constexpr std::array kWords{"auto", "local", "reduced"};
};
template <>
struct EnumWords<DpGradScale> {
  static constexpr std::array kWords{"one", "mean"};
};
template <>
struct EnumWords<DpUnused> {
  static constexpr std::array kWords{"zero", "strict", "keep"};
};
template <>
struct EnumWords<DpTie> {
  static constexpr std::array kWords{"error", "merge_units"};
};
template <>
struct EnumWords<DpWire> {
  static constexpr std::array kWords{"reduce_dtype", "a2a_fp32"};
};
template <>
struct EnumWords<DpCompat> {
  static constexpr std::array kWords{"sextant", "torch", "megatron"};
};
template <>
struct EnumWords<RecomputeMode> {
  static constexpr std::array kWords{"none", "selective", "full"};
};
template <>
struct EnumWords<TransportKind> {
  static constexpr std::array kWords{"auto", "solo", "threads", "tcp", "mpi", "nccl"};
};
template <>
struct EnumWords<ThreadsProgress> {
  static constexpr std::array kWords{"wait", "thread"};
};
template <>
struct EnumWords<CrawlAnnotate> {
  static constexpr std::array kWords{"off", "policy", "all"};
};
template <>
struct EnumWords<CrawlExtract> {
  static constexpr std::array kWords{"layout", "main"};
};
template <>
struct EnumWords<CrawlPii> {
  static constexpr std::array kWords{"off", "mask", "pseudonym", "tag", "drop"};
};
template <>
struct EnumWords<CrawlPiiPreset> {
  static constexpr std::array kWords{"sextant", "cs336", "datatrove"};
};
template <>
struct EnumWords<CrawlKeep> {
  static constexpr std::array kWords{"first", "random", "longest"};
};
template <>
struct EnumWords<DataMode> {
  static constexpr std::array kWords{"native", "megatron"};
};
template <>
struct EnumWords<OnLimit> {
  static constexpr std::array kWords{"keep", "drop"};
};
template <>
struct EnumWords<TokenizerKind> {
  static constexpr std::array kWords{"auto", "hf", "tiktoken", "sentencepiece", "sextant", "bytes"};
};
template <>
struct EnumWords<SpecialTokens> {
  static constexpr std::array kWords{"text", "allow", "error"};
};
template <>
struct EnumWords<InvalidBytes> {
  static constexpr std::array kWords{"bytes", "replace", "error"};
};

/// The word of an enumeration's value: to_word(Decay::kCosine) is "cosine".
template <class E>
const char* to_word(E value) {
  return EnumWords<E>::kWords.at(static_cast<std::size_t>(value));
}

/// Reads `json` into `out`; returns false when the type is wrong. Numbers may come as strings with
/// a unit.
bool read_value(const Json& json, bool& out);
bool read_value(const Json& json, std::int64_t& out);
bool read_value(const Json& json, std::uint64_t& out);
bool read_value(const Json& json, double& out);
bool read_value(const Json& json, std::string& out);
bool read_value(const Json& json, std::vector<std::string>& out);
bool read_value(const Json& json, std::vector<std::int64_t>& out);
bool read_value(const Json& json, Bytes& out);
bool read_value(const Json& json, Seconds& out);
bool read_value(const Json& json, SaveInterval& out);
bool read_value(const Json& json, std::optional<std::int64_t>& out);
bool read_value(const Json& json, std::optional<Bytes>& out);
bool read_value(const Json& json, Switch& out);
bool read_value(const Json& json, std::vector<DpOverride>& out);
/// Tables {path, weight}, or pairs [weight, path].
bool read_value(const Json& json, std::vector<BlendPart>& out);

/// The canonical form: reading it gives the same value. Written to recipe.resolved.toml and hashed.
Json write_value(bool value);
Json write_value(std::int64_t value);
Json write_value(std::uint64_t value);
Json write_value(double value);
Json write_value(const std::string& value);
Json write_value(const std::vector<std::string>& value);
Json write_value(const std::vector<std::int64_t>& value);
Json write_value(Bytes value);
Json write_value(Seconds value);
Json write_value(SaveInterval value);
Json write_value(const std::optional<std::int64_t>& value);
Json write_value(const std::optional<Bytes>& value);
Json write_value(const Switch& value);
Json write_value(const std::vector<DpOverride>& value);
Json write_value(const std::vector<BlendPart>& value);

/// What a wrong value should have been: "a whole number", "a size with unit, such as \"64MiB\"".
const char* expected(const bool&);
const char* expected(const std::int64_t&);
const char* expected(const std::uint64_t&);
const char* expected(const double&);
const char* expected(const std::string&);
const char* expected(const std::vector<std::string>&);
const char* expected(const std::vector<std::int64_t>&);
const char* expected(const Bytes&);
const char* expected(const Seconds&);
const char* expected(const SaveInterval&);
const char* expected(const std::optional<std::int64_t>&);
const char* expected(const std::optional<Bytes>&);
const char* expected(const Switch&);
const char* expected(const std::vector<DpOverride>&);
const char* expected(const std::vector<BlendPart>&);

/// The value as a number, to compare with a range; nothing for types without an order.
std::optional<double> as_number(const Json& canonical);

}  // namespace sx
